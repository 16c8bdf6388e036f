"""The API server without HTTP: what is served, and what becomes of a request.

    types/       the kinds, the types of their fields (types.txt), their defaults and conversions
    rules/       what makes an object invalid: validation.py, and a module for each group of kinds;
                 custom/ for the kinds that CustomResourceDefinitions define
    access/      users and their rights
    policies/    admission policies
    requests/    requests: their targets, options, selectors and bodies
    ownership/   who owns which fields: managedFields and server-side apply
    writes/      registry.py applies requests to the store; beside it what happens on the way:
                 admission, quotas, limits, evictions, deletion, patches
    tables/      the columns of `kubectl get`
    cel_cost/    what a device selector may cost

The store holds the objects under one revision counter, with their history. It was made with
time_and_chance, the one source of times, uids and generated names: from the same source come the
same objects.
"""

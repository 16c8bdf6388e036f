"""Writes to the API server: what becomes of a request that changes an object.

A write is decoded, gets its defaults and what admission gives it, and is validated; then limits,
policies and quotas may refuse it.

    registry         applies create, update, patch, delete, bind, evict and scale to the store
    admission_order  the steps of admission, from the first to the last
    admission        what pods and claims get; beside it new_objects, label_keys,
                     template_generation and service_addresses
    further_admission  smaller plugins; beside it pod_security_admission
    limit_ranges     how much an object may ask for; with resource_quotas and quota_usage
    caller           the user of the write, for the checks that depend on the user
    evictions        a subresource; beside it pod_binding and replica_scale
    pod_conditions   the conditions of a pod that the server itself sets
    deletion         what the end of an object waits for; beside it namespace_ends
    field_tracking   keeps managedFields (see ownership)
    patch            the three kinds of patches
    refusals         the answers to invalid objects and conflicts
    first_objects    what is in the store before the first write
"""

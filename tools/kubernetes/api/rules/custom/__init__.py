"""The rules of custom objects: what a CustomResourceDefinition refuses.

    schema_rules.py     what a schema refuses, in the words of Kubernetes' validator
    value_formats.py    the formats of strings
    list_types.py       keys of lists that are maps, items of lists that are sets
    resource_rules.py   all rules of a custom object together

Mirrors k8s.io/apiextensions-apiserver. Nothing here is imported before a store serves a definition.
"""

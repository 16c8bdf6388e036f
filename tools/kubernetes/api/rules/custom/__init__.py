"""The rules of custom objects: what a CustomResourceDefinition refuses.

    definition_rules.py what a definition may say, with structural_rules.py, open_api_rules.py and
                        rule_costs.py
    schema_rules.py     what a schema refuses, in the words of Kubernetes' validator
    value_formats.py    the formats of strings
    list_types.py       keys of lists that are maps, items of lists that are sets
    cel_types.py        the types and values of a schema in CEL
    cel_rules.py        the rules of a schema in CEL
    resource_rules.py   all rules of a custom object together

Mirrors k8s.io/apiextensions-apiserver. Nothing here is imported before a store serves a definition.
"""

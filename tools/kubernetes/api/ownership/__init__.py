"""Who owns which fields of an object: metadata.managedFields, and server-side apply.

Mirrors Kubernetes' package managedfields and the library structured-merge-diff.

    merge_types      how the values of a type are compared and merged; beside it custom_types
    field_sets       sets of fields, in the notation of FieldsV1
    comparison       the fields that two objects differ in, and the fields that a document names
    merging          a document merged into an object; fields taken out of an object
    managers         the entries of managedFields
    updates          what a create, update or patch makes of the entries
    applies          what an apply makes of an object and of its entries; the conflicts
    wellformed       what makes a document unfit for an apply

The entries of an object (types/field_entries) are a template that it shares with the objects that
the same managers wrote in the same way and in the same second. So an object pays a few bytes.
"""

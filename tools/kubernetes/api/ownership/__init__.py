"""Who owns which fields of an object: metadata.managedFields, and server-side apply.

Mirrors Kubernetes' package managedfields and the library structured-merge-diff.

    merge_types      how the values of a type are compared and merged
    field_sets       sets of fields, in the notation of FieldsV1
    comparison       the fields that two objects differ in, and the fields that a document names
    merging          a document merged into an object; fields taken out of an object
    managers         the entries of managedFields
    updates          what a create, update or patch makes of the entries
    applies          what an apply makes of an object and of its entries; the conflicts
    manager_names    the name of the manager of a request

The entries of an object are a list that many objects share: those that the same managers wrote in
the same way and at the same second. So an object pays for its managedFields by a pointer.
"""

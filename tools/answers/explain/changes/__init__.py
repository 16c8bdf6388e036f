"""What would change a decision: changes of the pending pod, each proven by deciding again.

    proof_search     tries the changes, alone and together, and keeps those after which the pod fits
    world            the pod and the cluster, in which a change is tried and undone
    change, edit     a change in words, and as edits of objects
    kind_of_change   what a module of a kind of change gives to the search

Each other module makes the changes of one kind, such as tolerations or another_node.
"""

"""DefaultPreemption: the nodes where a pod would fit without its victims.

`plugin` has the extension points, `victims` the dry run and the choice among the nodes, `dry_runs`
the results that are kept from pod to pod, `lowest` the lowest priority on each node, and `budgets`
the PodDisruptionBudgets.
"""

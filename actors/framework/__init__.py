"""The scheduling framework: extension points, Status, CycleState, cluster events, registry, profile runner. Pure."""

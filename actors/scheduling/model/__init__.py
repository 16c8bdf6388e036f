"""What the scheduler knows: PodInfo, NodeInfo, the node tree, Snapshot and NodeColumns."""

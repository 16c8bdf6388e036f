"""The scheduler's model of the cluster: PodInfo, NodeInfo, node tree, Snapshot, NodeColumns."""

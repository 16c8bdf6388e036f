"""The controllers of workloads: which pods, ReplicaSets and Jobs they create and delete."""

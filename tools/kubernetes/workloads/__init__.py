"""The controllers of workloads: which pods, ReplicaSets and Jobs they create and delete, and the
endpoints of the services that lead to these pods.
"""

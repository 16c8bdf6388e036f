"""`berth bench`: runs and measures kube-scheduler's scheduler_perf workloads."""

"""`berth bench`: kube-scheduler's scheduler_perf workloads, run and measured."""

"""`berth demo`: a toy cluster with a workload, from its start to the last decision."""

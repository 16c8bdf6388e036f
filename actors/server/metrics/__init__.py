"""The metrics of the process and of the cluster, in Prometheus' text format."""

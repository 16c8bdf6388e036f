"""What if: steps of change are tried on a copy of a cluster, and the pending pods decided."""

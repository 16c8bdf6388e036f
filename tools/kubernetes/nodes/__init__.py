"""What becomes of nodes that fail, and of the pods on them: health, zones, taints, evictions."""

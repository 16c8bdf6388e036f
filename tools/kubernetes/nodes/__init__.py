"""Failing nodes and the pods on them: health, zones, taints, evictions."""

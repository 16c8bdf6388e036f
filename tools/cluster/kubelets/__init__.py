"""Hollow kubelets: nodes without machines, on which pods run without containers."""

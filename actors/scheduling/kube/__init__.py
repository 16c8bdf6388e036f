"""Kubernetes objects as the scheduler reads them, quantities, selectors, taints. Pure."""

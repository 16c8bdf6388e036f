"""Dynamic resource allocation: the controllers of claims, the slices of a driver's inventory, and
how kubelets wait for devices.
"""

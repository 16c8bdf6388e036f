"""Devices in a toy cluster: the controllers of claims, a driver, and how kubelets wait for them."""

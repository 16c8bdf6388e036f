"""Hollow kubelets, and the controllers that a toy cluster needs."""

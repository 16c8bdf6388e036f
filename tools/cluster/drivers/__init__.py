"""Hollow drivers of devices: of resource.k8s.io/v1, and of the older v1alpha2 with negotiation."""

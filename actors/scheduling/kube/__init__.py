"""The fields of Kubernetes objects that scheduling reads; quantities, selectors, taints. Pure."""

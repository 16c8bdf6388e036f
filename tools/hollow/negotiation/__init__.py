"""A hollow driver of resource.k8s.io/v1alpha2: it negotiates with the scheduler."""

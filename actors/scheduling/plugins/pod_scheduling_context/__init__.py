"""PodSchedulingContext: negotiates with drivers, by the API of v1alpha2, where a pod can run."""

"""The Kubernetes API client: kubeconfig, REST, list and watch, retries, rate limit, extenders."""

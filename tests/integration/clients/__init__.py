"""Small programs of the Python clients of Kubernetes, against one served cluster a module."""

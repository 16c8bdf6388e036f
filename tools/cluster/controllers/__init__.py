"""Runs the controllers of a toy cluster, as kube-controller-manager does.

controller_manager decides and writes, object_watches follows; each of the *_routes says which
controllers a change concerns. embedded_access reaches an API server of the same process.
"""

"""The subresource scale: the replicas of a workload as a Scale of autoscaling/v1."""

from __future__ import annotations

from ..requests.request_bodies import NamedObject, Replicas, Scale, converted
from ..tables.column import selector_text
from ..types.api_documents import Document, RefusedError
from ..types.resources import Kind

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: Kind, workload: Document) -> Document:
    """Returns the Scale of a workload."""
    selector = workload["spec"].get("selector") or {}
    if kind.group == "":
        selector = {"matchLabels": selector}
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {field: workload["metadata"][field] for field in _KEPT},
        "spec": {"replicas": workload["spec"].get("replicas", 0)},
        "status": {
            "replicas": (workload.get("status") or {}).get("replicas", 0),
            "selector": selector_text(selector),
        },
    }


def with_replicas(workload: Document, scale: Document) -> Document:
    """Returns a workload with the replicas of a Scale, and the resourceVersion that it expects.

    Raises RefusedError: 400 if the Scale cannot be read, 422 for a negative number.
    """
    request = converted(scale, Scale)
    replicas = (request.spec or Replicas()).replicas
    if replicas < 0:
        name = workload["metadata"]["name"]
        problem = f"spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0"
        raise RefusedError(422, "Invalid", f'Scale "{name}" is invalid: {problem}')
    metadata = workload["metadata"]
    expected = (request.metadata or NamedObject()).resource_version
    return {
        **workload,
        "metadata": {**metadata, "resourceVersion": expected or metadata["resourceVersion"]},
        "spec": {**workload["spec"], "replicas": replicas},
    }

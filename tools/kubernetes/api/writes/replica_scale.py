"""The subresource scale: the replicas of a workload as a Scale of autoscaling/v1."""

from __future__ import annotations

from ..requests.request_bodies import NamedObject, Replicas, Scale, converted
from ..rules.validation import details_of_kind, message_of_kind
from ..types.api_documents import Document, RefusedError
from ..types.resources import Kind
from .refusals import other_name, unnamed

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: Kind, workload: Document) -> Document:
    """Returns the Scale of a workload."""
    if kind.custom is not None:
        from .custom_scale import replicas_and_selector

        wanted, present, text = replicas_and_selector(kind, workload)
        scale = _scale(workload, wanted, present, text)
        return scale if text else {**scale, "status": {"replicas": present}}
    from ..tables.column import selector_text  # the tables are large

    selector = workload["spec"].get("selector") or {}
    if kind.group == "":
        selector = {"matchLabels": selector}
    replicas = (workload.get("status") or {}).get("replicas", 0)
    wanted = workload["spec"].get("replicas", 0)
    return _scale(workload, wanted, replicas, selector_text(selector))


def _scale(workload: Document, wanted: int, present: int, selector: str) -> Document:
    metadata = workload["metadata"]
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {field: metadata[field] for field in _KEPT if field in metadata},
        "spec": {"replicas": wanted},
        "status": {"replicas": present, "selector": selector},
    }


def with_replicas(kind: Kind, workload: Document, scale: Document) -> Document:
    """Returns a workload with the replicas of a Scale, and the resourceVersion that it expects.

    Raises RefusedError: 400 if the Scale cannot be read, 422 for a negative number.
    """
    request = converted(scale, Scale)
    replicas = (request.spec or Replicas()).replicas
    if replicas < 0 and kind.custom is None:
        problem = f"spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0"
        told = "autoscaling", "Scale", workload["metadata"]["name"], [problem]
        raise RefusedError(422, "Invalid", message_of_kind(*told), details_of_kind(*told))
    metadata = workload["metadata"]
    named = request.metadata and request.metadata.name
    if not named:
        raise unnamed(metadata["name"])
    if named != metadata["name"]:
        raise other_name(named, metadata["name"])
    expected = (request.metadata or NamedObject()).resource_version
    metadata = {**metadata, "resourceVersion": expected or metadata["resourceVersion"]}
    if kind.custom is not None:
        from .custom_scale import with_custom_replicas

        return {**with_custom_replicas(kind, workload, replicas), "metadata": metadata}
    return {**workload, "metadata": metadata, "spec": {**workload["spec"], "replicas": replicas}}

"""The two forms of an autoscaler: v2, in which it is stored, and v1, whose only metric is cpu.

In v1, annotations keep what v1 has no fields for: other metrics, and the behavior. Kubernetes uses
the same annotations; here their JSON has the form of v2.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from .api_documents import Document

T = TypeVar("T")

METRICS = "autoscaling.alpha.kubernetes.io/metrics"
BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
_TARGET, _CURRENT = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"


def as_v2(document: Document) -> Document:
    """Returns the v2 form of an autoscaler in the v1 form."""
    spec, metadata = dict(document.get("spec") or {}), dict(document.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    metrics = _read(annotations.pop(METRICS, ""), list[Document])
    behavior = _read(annotations.pop(BEHAVIOR, ""), Document)
    if "annotations" in metadata:
        metadata["annotations"] = annotations
    share = spec.pop(_TARGET, None)
    of_cpu = [] if share is None else [_cpu_metric(share)]
    if metrics or of_cpu:
        spec["metrics"] = [*(metrics or ()), *of_cpu]
    if behavior:
        spec["behavior"] = behavior
    converted = {**document, "metadata": metadata, "spec": spec}
    if "status" in document:
        converted["status"] = {k: v for k, v in document["status"].items() if k != _CURRENT}
    return converted


def as_v1(document: Document) -> Document:
    """Returns the v1 form of an autoscaler in the v2 form."""
    spec = dict(document.get("spec") or {})
    status = {"currentReplicas": 0, **(document.get("status") or {})}
    metrics, behavior = spec.pop("metrics", None) or [], spec.pop("behavior", None)
    status.pop("conditions", None)
    seen = [_share(metric, "current") for metric in status.pop("currentMetrics", None) or ()]
    annotations = dict(document["metadata"].get("annotations") or {})
    others = [metric for metric in metrics if _share(metric, "target") is None]
    shares = [share for metric in metrics if (share := _share(metric, "target")) is not None]
    if shares:
        spec[_TARGET] = shares[-1]
    if others:
        annotations[METRICS] = msgspec.json.encode(others).decode()
    if behavior is not None:
        annotations[BEHAVIOR] = msgspec.json.encode(behavior).decode()
    metadata = document["metadata"]
    if annotations:
        metadata = {**metadata, "annotations": annotations}
    if seen := [share for share in seen if share is not None]:
        status[_CURRENT] = seen[-1]
    return {**document, "metadata": metadata, "spec": spec, "status": status}


def _share(metric: Document, field: str) -> int | None:
    """Returns the utilization in this field of a cpu metric; None for another metric."""
    of = metric.get("resource") or {}
    share: int | None = (of.get(field) or {}).get("averageUtilization")
    return share if of.get("name") == "cpu" else None


def _cpu_metric(share: int) -> Document:
    target = {"type": "Utilization", "averageUtilization": share}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _read(text: str, kind: type[T]) -> T | None:
    """Returns the value of an annotation; None if it cannot be read."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return None

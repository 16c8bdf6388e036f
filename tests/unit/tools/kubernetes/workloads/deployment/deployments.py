"""Deployments and ReplicaSets for the tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from berth.tools.kubernetes.objects.documents import reference_to
from berth.tools.kubernetes.objects.structs import Deployment, Document, ReplicaSet, read
from berth.tools.kubernetes.objects.writes import Create, Delete, Patch, Write
from berth.tools.kubernetes.workloads.deployment.rollout import reconcile

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LABELS = {"app": "x"}
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"


def template_of(image: str) -> Document:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": image}]}}


def deployment_of(
    replicas: int,
    status: Document | None = None,
    annotations: dict[str, str] | None = None,
    surge: int = 0,
    **spec: Any,
) -> Deployment:
    """Returns a deployment of the image "new"."""
    metadata = {"name": "w", "namespace": "n", "uid": "uid-w", "generation": 1}
    rolling = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1}}
    selector = {"matchLabels": LABELS}
    defaults = {"strategy": rolling, "progressDeadlineSeconds": 600, "template": template_of("new")}
    return read(
        {
            "metadata": {**metadata, "annotations": annotations or {}, "resourceVersion": "1"},
            "spec": {"replicas": replicas, "selector": selector, **defaults, **spec},
            "status": status or {},
        },
        Deployment,
    )


def replica_set(
    name: str,
    replicas: int,
    available: int | None = None,
    annotations: dict[str, str] | None = None,
    **status: Any,
) -> ReplicaSet:
    """Returns a ReplicaSet, by default with all its pods; its name is that of its image.

    Later names are younger.
    """
    owner, template = reference_to(deployment_of(1)), template_of(name)
    labels = {**LABELS, "pod-template-hash": name}
    template["metadata"] = {"labels": labels}
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": "1"}
    counts = {
        "replicas": replicas,
        "availableReplicas": replicas if available is None else available,
    }
    return read(
        {
            "metadata": {
                **metadata,
                "labels": labels,
                "ownerReferences": [owner],
                "annotations": annotations or {},
            },
            "spec": {
                "replicas": replicas,
                "template": template,
                "selector": {"matchLabels": LABELS},
            },
            "status": {**counts, **status},
        },
        ReplicaSet,
    )


def decided(deployment: Deployment, *sets: ReplicaSet) -> list[Write]:
    return reconcile(deployment, sets, NOW)


def sizes(writes: list[Write]) -> dict[str, int]:
    """Returns the new sizes of ReplicaSets by name."""
    specs = {w.name: w.body.get("spec", {}) for w in writes if isinstance(w, Patch)}
    return {name: spec["replicas"] for name, spec in specs.items() if "replicas" in spec}


def created(writes: list[Write]) -> list[Document]:
    return [write.document for write in writes if isinstance(write, Create)]


def deleted(writes: list[Write]) -> list[str]:
    return [write.name for write in writes if isinstance(write, Delete)]


def noted(writes: list[Write], name: str) -> dict[str, str]:
    bodies = [w.body for w in writes if isinstance(w, Patch) and w.name == name]
    metadata = [body.get("metadata", {}) for body in bodies]
    return {key: text for each in metadata for key, text in each.get("annotations", {}).items()}


def status(writes: list[Write]) -> Document:
    """Returns the change of the status, or nothing."""
    patches = (w.body for w in writes if isinstance(w, Patch) and w.subresource == "status")
    return next((body["status"] for body in patches), {})


def progressing(writes: list[Write]) -> tuple[str, str, str]:
    """Returns the status, reason and message of the condition that is written."""
    condition = next(c for c in status(writes)["conditions"] if c["type"] == "Progressing")
    return condition["status"], condition["reason"], condition["message"]

"""The candidates: changes of the pod that may make it fit. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .change import Change

Document = dict[str, Any]
REJECTING = ("NoSchedule", "NoExecute")
# Taints of nodes that are cordoned or broken: a pod should not tolerate them.
CONDITIONS = "node.kubernetes.io/"


def selector_changes(pod: Document) -> Iterator[Change]:
    """Yields a change for each label of the node selector: without it."""
    selector = pod["spec"].get("nodeSelector") or {}
    for key, value in selector.items():
        path = f"/spec/nodeSelector/{key.replace('~', '~0').replace('/', '~1')}"
        sentence = f"Drop {key}={value} from the node selector"
        yield Change("nodeSelector", sentence, [{"op": "remove", "path": path}])


def toleration_changes(pod: Document, objects: Iterable[Document]) -> Iterator[Change]:
    """Yields a change for each taint that an admin gave a node: a toleration of it."""
    tolerations = pod["spec"].get("tolerations") or []
    taints = {
        (taint["key"], taint.get("value") or "", taint["effect"])
        for document in objects
        if document["kind"] == "Node"
        for taint in (document.get("spec") or {}).get("taints") or ()
        if taint["effect"] in REJECTING and not taint["key"].startswith(CONDITIONS)
    }
    for key, value, effect in sorted(taints):
        added = {"key": key, "operator": "Equal", "value": value, "effect": effect}
        sentence = f"Tolerate the taint {key}{'=' if value else ''}{value}:{effect}"
        # "add" replaces a member that exists, so that one patch serves a pod with or without any.
        patch = [{"op": "add", "path": "/spec/tolerations", "value": [*tolerations, added]}]
        yield Change("toleration", sentence, patch)

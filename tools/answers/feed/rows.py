"""The rows of the page: nodes and pods as the browser draws them.

A row is an array on the wire, because a cluster has many; static/model.js names the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import FINISHED, Node, Pod
from berth.actors.scheduling.kube.gated_fields import GatedFields
from berth.actors.scheduling.kube.meta import key
from berth.actors.scheduling.kube.quantity import milli_value, value
from berth.actors.scheduling.kube.reading import UNREADABLE, Reader
from berth.actors.scheduling.kube.requests import Amounts, pod_requests
from berth.actors.scheduling.kube.times import seconds_of

TEMPLATE_HASH = "pod-template-hash"
_NODE, _POD = Reader(Node), Reader(Pod)


class NodeRow(msgspec.Struct, frozen=True, array_like=True):
    """A node. `allocatable` has cpu in thousandths of a core; `problems` are NotReady, and the
    pressures that the node reports.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[str, ...]
    cordoned: bool
    problems: tuple[str, ...]
    allocatable: Amounts


class PodRow(msgspec.Struct, frozen=True, array_like=True):
    """A pod. Times are in seconds since 1970, 0 for none; a finished pod requests nothing."""

    key: str
    node: str
    phase: str
    workload: str
    priority: int
    created: float
    scheduled: float
    requests: Amounts
    message: str


def node_row(node: Node) -> NodeRow:
    conditions = {condition.type: condition.status for condition in node.status.conditions}
    problems = [] if conditions.pop("Ready", "") == "True" else ["NotReady"]
    problems += [name for name, status in conditions.items() if status == "True"]
    taints = (
        f"{taint.key}={taint.value}:{taint.effect}"
        if taint.value
        else f"{taint.key}:{taint.effect}"
        for taint in node.spec.taints
    )
    return NodeRow(
        node.metadata.name,
        dict(node.metadata.labels),
        tuple(taints),
        node.spec.unschedulable,
        tuple(problems),
        {name: _amount(name, text) for name, text in node.status.allocatable.items()},
    )


def pod_row(pod: Pod) -> PodRow:
    metadata, status = pod.metadata, pod.status
    placed = next((c for c in status.conditions if c.type == "PodScheduled"), None)
    scheduled = placed is not None and placed.status == "True"
    requests = {} if status.phase in FINISHED else {**pod_requests(pod), "pods": 1}
    return PodRow(
        key(pod),
        pod.spec.node_name,
        status.phase,
        workload_of(pod),
        pod.spec.priority or 0,
        _seconds(metadata.creation_timestamp),
        _seconds(placed.last_transition_time) if placed is not None and scheduled else 0.0,
        requests,
        "" if placed is None or scheduled else placed.message,
    )


def row_of_node(document: Mapping[str, Any]) -> NodeRow | None:
    """Returns the row of a node's document, None if the node cannot be read."""
    try:
        return node_row(_NODE.convert(document))
    except UNREADABLE:
        return None


def pod_rows(gates: Mapping[str, bool]) -> Callable[[Mapping[str, Any]], PodRow | None]:
    """Returns a function that makes the row of a pod's document, None if the pod cannot be read.
    The gates say what a pod requests.
    """
    fields = GatedFields(gates)

    def row_of_pod(document: Mapping[str, Any]) -> PodRow | None:
        try:
            return pod_row(fields.drop(_POD.convert(document)))
        except UNREADABLE:
            return None

    return row_of_pod


def workload_of(pod: Pod) -> str:
    """Returns the name of the pod's workload with its namespace: a Deployment rather than its
    ReplicaSet; the pod itself if no controller owns it.
    """
    metadata = pod.metadata
    owner = next((owner for owner in metadata.owner_references if owner.controller), None)
    if owner is None:
        return key(pod)
    name = owner.name
    if owner.kind == "ReplicaSet" and TEMPLATE_HASH in metadata.labels:
        name = name.removesuffix(f"-{metadata.labels[TEMPLATE_HASH]}")
    return f"{metadata.namespace}/{name}"


def _amount(name: str, text: str | float) -> int:
    return milli_value(text) if name == "cpu" else value(text)


def _seconds(text: str | None) -> float:
    return seconds_of(text) if text else 0.0

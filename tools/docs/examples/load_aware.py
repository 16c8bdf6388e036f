"""The LoadAware plugin: pods go where little is used, by metrics.k8s.io, not where little is
requested.

Metrics are old when they come: a pod that started after they were measured counts with its
requests, so that not all new pods go to the node that was idle. The idea is that of the Trimaran
plugins of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec

from berth.plugin import (
    SKIP,
    SUCCESS,
    CycleState,
    Handle,
    NodeInfo,
    NodeScorePlugin,
    NodeView,
    ObjectMeta,
    PodInfo,
    PreScorePlugin,
    StateKey,
    Status,
    WatchedKind,
    milli,
    quantity,
    read_args,
)

API_VERSION = "metrics.k8s.io/v1beta1"
POLL_SECONDS = 15


class NodeMetrics(msgspec.Struct, frozen=True):
    """What a node used at a time, which is in the notation of RFC 3339."""

    metadata: ObjectMeta
    timestamp: datetime
    usage: dict[str, str] = {}


METRICS = WatchedKind(
    API_VERSION, "NodeMetrics", f"/apis/{API_VERSION}/nodes", NodeMetrics, every=POLL_SECONDS
)
RECENT: StateKey[Mapping[str, NodeMetrics]] = StateKey("LoadAware")


class LoadAwareArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Metrics older than `max_age_seconds` do not count; without any, the plugin has no say."""

    max_age_seconds: Annotated[float, msgspec.Meta(gt=0)] = 120.0


class LoadAware(PreScorePlugin, NodeScorePlugin):
    name = "LoadAware"
    args_type = LoadAwareArgs
    lookups = (METRICS,)
    may_be_left_out = True

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__({}, handle)
        self.args = read_args(args, LoadAwareArgs)

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        oldest = self.handle.wall() - timedelta(seconds=self.args.max_age_seconds)
        every = nodes.snapshot.objects.every(NodeMetrics)
        recent = {each.metadata.name: each for each in every if each.timestamp >= oldest}
        if not recent:
            return SKIP
        state.write(RECENT, recent)
        return SUCCESS

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        metrics = state.read(RECENT).get(node.name)
        new = [info]
        if metrics is None:  # It is new, or not measured: its pods count with their requests.
            new += node.pods.values()
        else:
            new += (pod for pod in node.pods.values() if _is_newer(pod, metrics.timestamp))
        shares = (_share(resource, metrics, new, node) for resource in ("cpu", "memory"))
        return 100 - min(round(100 * max(shares)), 100)


def _share(resource: str, metrics: NodeMetrics | None, new: list[PodInfo], node: NodeInfo) -> float:
    """Returns the part of a resource of a node that would be used."""
    have = node.allocatable.get(resource, 0)
    if have <= 0:
        return 1.0
    text = "0" if metrics is None else metrics.usage.get(resource, "0")
    used = milli(text) if resource == "cpu" else quantity(text)
    return (used + sum(pod.requests.get(resource, 0) for pod in new)) / have


def _is_newer(pod: PodInfo, time: datetime) -> bool:
    """True if a pod started after a time, or has not yet."""
    started = pod.pod.status.start_time
    return started is None or datetime.fromisoformat(started) > time

"""The pods that still fit on no node, as nothing that has changed since can help them.

A pod that each node rejected by rules about this node and this pod alone needs not be tried again
before a node has changed that has room for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from berth.actors.scheduling.decision.outcome import Outcome, Unfit
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.framework.interface import PostFilterPlugin
from berth.actors.scheduling.kube.core import Taint
from berth.actors.scheduling.kube.taints import tolerates_any
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo

from ...kubernetes.api.types.api_documents import Place
from .tried_documents import Documents, Rejected

_OF_A_NODE = frozenset(
    (
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeResourcesFit",
        "NodeUnschedulable",
        "TaintToleration",
    )
)
_PREEMPTING = {"DefaultPreemption", "DynamicResources"}
_COUNTED = ("cpu", "memory")
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class _Room(msgspec.Struct, frozen=True):
    """What a node can give at most: `free` to any pod, `all` to a pod that may preempt others,
    because its priority is above the `lowest`.
    """

    free: dict[str, int]
    all: dict[str, int]
    lowest: int
    cordoned: bool


class RejectedPods:
    """The rejected pods of a question. `before` are those of an earlier one about the same cluster,
    as it was before the steps.
    """

    def __init__(
        self, documents: Documents, before: Mapping[Place, Rejected] | None = None
    ) -> None:
        self._documents = documents
        self.by_place = dict(before or {})
        self._since = dict.fromkeys(self.by_place, documents.change_counts)
        self._rooms: dict[str, tuple[int, _Room | None]] = {}

    def note(self, place: Place, info: PodInfo, profile: Profile, outcome: Outcome) -> None:
        """Notes the outcome of an attempt."""
        if not isinstance(outcome, Unfit):
            self.by_place.pop(place, None)
            return
        by_rules_of_nodes = bool(outcome.rejected_by) and outcome.rejected_by <= _OF_A_NODE
        stuck = by_rules_of_nodes and outcome.nomination is None and _needs_only_room(profile)
        self.by_place[place] = Rejected(info, outcome.message, stuck)
        self._since[place] = self._documents.change_counts

    def forget(self, place: Place) -> None:
        """Forgets a deleted pod, whose name a new pod may take."""
        self.by_place.pop(place, None)

    def is_hopeless(self, place: Place) -> bool:
        """True if a pod cannot fit now, as no node has changed that has room for it."""
        rejected = self.by_place.get(place)
        if rejected is None or not rejected.stuck:
            return False
        tick, others = self._since[place]
        if others != self._documents.change_counts[1]:
            return False
        changed = self._documents.changed_since(tick)
        return not any(self._has_room(name, rejected.info) for name in changed)

    def _has_room(self, name: str, info: PodInfo) -> bool:
        room = self._room(name)
        if room is None:
            return False
        if room.cordoned and not tolerates_any(info.pod.spec.tolerations, _CORDON):
            return False
        most = room.all if info.priority > room.lowest else room.free
        requests = info.template.spec_requests
        return all(requests.get(of, 0) <= max(most[of], 0) for of in _COUNTED)

    def _room(self, name: str) -> _Room | None:
        tick = self._documents.change_counts[0]
        known = self._rooms.get(name)
        if known is None or known[0] != tick:
            columns = self._documents.snapshot().columns
            info = columns.infos[columns.row_of[name]] if name in columns.row_of else None
            known = self._rooms[name] = tick, None if info is None else _room_of(info)
        return known[1]


def _needs_only_room(profile: Profile) -> bool:
    """True if a pod needs room on a node that is not cordoned, and DefaultPreemption alone makes
    room.
    """
    filters = {plugin.name for plugin in profile.filters}
    preempt = {plugin.name for plugin in profile.plugins if isinstance(plugin, PostFilterPlugin)}
    return filters >= {"NodeResourcesFit", "NodeUnschedulable"} and preempt <= _PREEMPTING


def _room_of(info: NodeInfo) -> _Room:
    every = {of: info.allocatable.get(of, 0) for of in _COUNTED}
    free = {of: every[of] - info.requested.get(of, 0) for of in _COUNTED}
    lowest = min((pod.priority for pod in info.pods.values()), default=2**31)
    cordoned = info.node is not None and info.node.spec.unschedulable
    return _Room(free, every, lowest, cordoned)

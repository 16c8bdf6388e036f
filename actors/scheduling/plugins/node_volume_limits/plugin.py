"""NodeVolumeLimits: keeps a pod off nodes that cannot attach all its volumes.

A CSINode says how many volumes a node attaches for each driver. A volume counts once, however many
pods of the node use it. Mirrors kube-scheduler's plugin of the same name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from berth.plugin import (
    SKIP,
    SUCCESS,
    Action,
    Bools,
    ClusterEvent,
    Code,
    CSIDriver,
    CSINode,
    CycleState,
    DependsOn,
    FilterPlugin,
    Handle,
    Hint,
    Ints,
    NodeView,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    Registration,
    Resource,
    Snapshot,
    Status,
    StorageClass,
    Verdicts,
    VolumeAttachment,
)

from ...kube.claims import uses
from ...kube.core import Volume
from ...kube.csi_translation import (
    MIGRATED,
    TranslationError,
    csi_driver,
    in_tree_plugin,
    volume_handle,
)
from ...model.pod_template import may_attach
from ...model.vectors import any_true
from .limits import Limits, limits_of
from .room import NO_LIMIT, NodeRoom
from .volumes import attached_by, claimed_volume

REASON = "node(s) exceed max volume count"


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    name = "NodeVolumeLimits"
    depends_on = DependsOn.CLAIMS
    only_own_values = True
    lookups = (
        PersistentVolumeClaim,
        PersistentVolume,
        StorageClass,
        CSINode,
        CSIDriver,
        VolumeAttachment,
    )

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__(args, handle)
        self._drivers_are_required = handle.feature_gates["VolumeLimitScaling"]
        self._room: NodeRoom | None = None
        self._limits = Limits()

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        if not info.template.attaches:
            return SKIP
        if not self._drivers_are_required and not self._limits.any_in(snapshot.objects):
            volumes = _attached_by(info, snapshot, has_csi_node=True)
            return PreFilterResult(passes_all=isinstance(volumes, dict))
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        if not info.template.attaches:
            return None
        volumes = _attached_by(info, nodes.snapshot, has_csi_node=True)
        if not volumes:
            return None
        room = self._up_to_date(nodes, len(volumes) if isinstance(volumes, dict) else NO_LIMIT)
        if isinstance(volumes, dict) and not room.problems and not self._drivers_are_required:
            exceeded = _nodes_without_room(volumes, room, nodes)
            return (
                None
                if exceeded is None
                else Verdicts.rejecting(exceeded, Code.UNSCHEDULABLE, REASON)
            )
        answers = _Answers(nodes.size)
        with_csi_node = room.with_csi_node(nodes)
        elsewhere = _attached_by(info, nodes.snapshot, has_csi_node=False)
        self._judge(volumes, with_csi_node, room, nodes, answers)
        self._judge(elsewhere, ~with_csi_node, room, nodes, answers)
        return answers.verdicts

    def _judge(
        self,
        volumes: dict[str, str] | Status,
        among: Bools,
        room: NodeRoom,
        nodes: NodeView,
        answers: _Answers,
    ) -> None:
        """Judges the nodes in `among`, to which the pod would attach these volumes, and stores the
        answers, which replace earlier ones.
        """
        if isinstance(volumes, Status):
            answers.reject(among, volumes.code, volumes.message)
            return
        exceeded = _nodes_without_room(volumes, room, nodes)
        if exceeded is not None:
            answers.reject(exceeded & among, Code.UNSCHEDULABLE, REASON)
        if not volumes:
            return
        rows = np.fromiter(room.problems, dtype=np.int64)
        positions = nodes.positions(rows).tolist()
        for position, problem in zip(positions, room.problems.values(), strict=True):
            if position >= 0 and among[position]:
                answers.fail(position, problem)
        if not self._drivers_are_required:
            return
        for name in reversed(dict.fromkeys(volumes.values())):
            driver = nodes.snapshot.objects.get(CSIDriver, name)
            if driver is not None and driver.spec.prevent_pod_scheduling_if_missing:
                answers.reject(
                    among & ~room.installs(name, nodes),
                    Code.UNSCHEDULABLE,
                    f"{name} CSI driver is not installed on the node",
                )

    def _up_to_date(self, nodes: NodeView, number: int) -> NodeRoom:
        """Returns the room on the nodes of a view, which is exact where it may be too little for
        this number of volumes. A room that cannot be updated is replaced.
        """
        room, self._room = self._room, None
        if room is None or not room.is_of(nodes.snapshot) or not room.refresh(nodes, number):
            room = NodeRoom(nodes.snapshot)
            room.refresh(nodes, number)
        self._room = room
        return room

    def events_to_register(self) -> Sequence[Registration]:
        def pod_deleted(_pod: Pod, old: object | None, _new: object | None) -> Hint:
            assert isinstance(old, Pod)
            had_node = old.spec.node_name or old.status.nominated_node_name
            attached = had_node and any(map(may_attach, old.spec.volumes))
            return Hint.QUEUE if attached else Hint.SKIP

        def claim_added(pod: Pod, _old: object | None, new: object | None) -> Hint:
            assert isinstance(new, PersistentVolumeClaim)
            return Hint.QUEUE if uses(pod, new) else Hint.SKIP

        def attachment_deleted(pod: Pod, old: object | None, _new: object | None) -> Hint:
            assert isinstance(old, VolumeAttachment)
            freed = any(
                _may_use_freed_room(volume, old.spec.attacher) for volume in pod.spec.volumes
            )
            return Hint.QUEUE if freed else Hint.SKIP

        def csi_node_updated(_pod: Pod, old: object | None, new: object | None) -> Hint:
            assert isinstance(old, CSINode)
            assert isinstance(new, CSINode)
            before = limits_of(old)
            grew = any(limit > before.get(driver, 0) for driver, limit in limits_of(new).items())
            return Hint.QUEUE if grew else Hint.SKIP

        claims, attachments = Resource.PERSISTENT_VOLUME_CLAIM, Resource.VOLUME_ATTACHMENT
        return (
            Registration(ClusterEvent(Resource.CSI_NODE, Action.ADD)),
            Registration(ClusterEvent(Resource.CSI_NODE, Action.UPDATE), csi_node_updated),
            Registration(ClusterEvent(Resource.POD, Action.DELETE), pod_deleted),
            Registration(ClusterEvent(claims, Action.ADD), claim_added),
            Registration(ClusterEvent(attachments, Action.DELETE), attachment_deleted),
        )


def _attached_by(
    info: PodInfo, snapshot: Snapshot, *, has_csi_node: bool
) -> dict[str, str] | Status:
    """Returns the volumes that a new pod would attach to a node that has a CSINode, or to one that
    has none.
    """
    find = partial(claimed_volume, snapshot.objects)
    return attached_by(info, find, has_csi_node=has_csi_node, new=True)


class _Answers:
    """The answers for the nodes of a view, collected from several rules."""

    def __init__(self, size: int) -> None:
        self._codes = np.zeros(size, dtype=np.int8)
        self._keys = np.zeros(size, dtype=np.int64)
        self._messages: list[str] = []

    def reject(self, rejected: Bools, code: Code, message: str) -> None:
        if any_true(rejected):
            self._codes[rejected] = code
            self._keys[rejected] = len(self._messages)
            self._messages.append(message)

    def fail(self, position: int, message: str) -> None:
        self._codes[position] = Code.ERROR
        self._keys[position] = len(self._messages)
        self._messages.append(message)

    @property
    def verdicts(self) -> Verdicts | None:
        if not self._messages:
            return None
        return Verdicts(self._codes, self._keys, lambda key: (self._messages[key],))


class FullNodes(msgspec.Struct, frozen=True):
    """The nodes that cannot attach the pod's volumes of one driver. `number` counts these volumes;
    volumes that pods of a node already use are not counted there. `nodes`, bool[size], marks the
    full nodes of a view. `left`, int64[size], is the number of volumes that each node can still
    attach.
    """

    driver: str
    number: int
    nodes: Bools
    left: Ints


def full_nodes(info: PodInfo, nodes: NodeView) -> list[FullNodes]:
    """Returns the nodes that cannot attach the pod's volumes, by driver; none if a volume cannot be
    counted or no node is full.
    """
    volumes = _attached_by(info, nodes.snapshot, has_csi_node=True)
    if isinstance(volumes, Status) or not volumes:
        return []
    room = NodeRoom(nodes.snapshot)
    room.refresh(nodes)
    return list(_full(volumes, room, nodes))


def _nodes_without_room(volumes: dict[str, str], room: NodeRoom, nodes: NodeView) -> Bools | None:
    """Returns bool[nodes.size]: the nodes without room for all these volumes; None if none."""
    exceeded = None
    for full in _full(volumes, room, nodes):
        exceeded = full.nodes if exceeded is None else exceeded | full.nodes
    return exceeded


def _full(volumes: dict[str, str], room: NodeRoom, nodes: NodeView) -> Iterator[FullNodes]:
    for driver, number in Counter(volumes.values()).items():
        column = room.room.get(driver)
        if column is None:
            continue
        left = column[nodes.rows]
        held = [
            holding
            for volume, of in volumes.items()
            if of == driver and (holding := room.holding(volume, nodes)) is not None
        ]
        if held:
            added = number - np.sum(held, axis=0)
            full = (added > 0) & (left < added)
        else:
            full = left < number
        if any_true(full):
            yield FullNodes(driver, number, full, left)


def _may_use_freed_room(volume: Volume, driver: str) -> bool:
    """True if a volume of the pod may use the room of a volume that this driver has detached."""
    if volume.persistent_volume_claim is not None:
        return True
    plugin = in_tree_plugin(volume)
    if plugin is None:
        return False
    if plugin in MIGRATED:
        try:
            volume_handle(volume)
        except TranslationError:
            return True
    return csi_driver(plugin) == driver

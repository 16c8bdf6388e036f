"""The cache: every node with the pods that run on it, including assumed pods, and the snapshot made
from it.

A pod is absent, assumed (placed by us, its binding under way) or added (it has its node at the API
server). An assumed pod never expires, as in kube-scheduler, where its time to live is 0: only the
answer to its binding or the watch ends the assumption. Invariant: a pod counts on exactly one node,
and every NodeInfo equals a recount of its pods. The nodes that changed since the last snapshot are
remembered, so the cost of an update depends only on what changed. Mirrors kube-scheduler's
cacheImpl.

Pods are identified by namespace and name, because the API server has one pod of a name at a time.
An order about a pod of another uid refers to a pod that is gone, and changes nothing.

Pure. `handle` takes no time, because nothing here depends on it.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, assert_never

import msgspec

from ..messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    AssignedPodUpdated,
    Assume,
    AssumedPodDeleted,
    AssumeObject,
    CachedKeys,
    CacheMessage,
    CacheStatistics,
    Compare,
    CountCached,
    Forget,
    KindListed,
    ListCached,
    NodeAdded,
    NodeDeleted,
    NodeDump,
    NodeUpdated,
    Nominate,
    ObjectPut,
    ObjectRemoved,
    PodDump,
    RestoreObject,
    ReturnSnapshot,
    TakeDump,
    TakeSnapshot,
    Unnominate,
    WhereBound,
)
from ..messages.comparison import Difference, Healed
from ..messages.order import Answer
from ..scheduling.kube.core import Node, Pod
from ..scheduling.kube.meta import key
from ..scheduling.kube.quantity import cap_int64
from ..scheduling.model.cluster_objects import ClusterObjects
from ..scheduling.model.columns import NodeColumns
from ..scheduling.model.node_info import NodeInfo
from ..scheduling.model.node_tree import NodeTree
from ..scheduling.model.nominations import Nominations
from ..scheduling.model.pod_info import PodInfo, PodInfos
from ..scheduling.model.snapshot import Snapshot
from .comparison import node_differences, pod_differences, takes_room


class OrderRefused(msgspec.Struct, frozen=True):
    """An order that contradicts the state of the cache and changed nothing. `key` is the key of the
    pod or object.
    """

    key: str
    problem: str


class Lend(msgspec.Struct, frozen=True):
    """The answer to an order for the snapshot: the snapshot, up to date."""

    order: TakeSnapshot
    snapshot: Snapshot


class PodVanished(msgspec.Struct, frozen=True):
    """An assumed pod will not run on its node: the room is free, and the binding may stop."""

    pod: Pod
    node: str


class SnapshotRepaired(msgspec.Struct, frozen=True):
    """The snapshot differed from the nodes and was rebuilt."""

    rows: int
    nodes: int


Effect = OrderRefused | Lend | Answer[Any] | Healed | PodVanished | SnapshotRepaired


class CacheState:
    def __init__(self) -> None:
        self._healed = 0
        self._repaired = 0
        self._infos: dict[str, NodeInfo] = {}
        self._pod_infos = PodInfos()
        self._node_of: dict[str, str] = {}  # pod key -> node name
        self._pods: dict[str, Pod] = {}  # pod key -> the pod as counted there
        self._assumed: set[str] = set()
        self._tree = NodeTree()
        self._generation = 0
        self._dirty: dict[str, None] = {}
        self._reorder = False
        self._objects = ClusterObjects()
        self._nominations = Nominations()
        self._snapshot = Snapshot(self._objects, self._nominations)

    def handle(self, message: CacheMessage) -> tuple[Effect, ...]:
        """Handles one message; returns its effects, in order.

        O(1), except for TakeSnapshot, whose cost depends on what changed since the last one, and
        for comparisons, lists and dumps.
        """
        effects: tuple[Effect, ...] = ()
        match message:  # The most frequent messages come first.
            case TakeSnapshot():
                effects = (*self._bring_up_to_date(), Lend(message, self._snapshot))
            case Assume():
                effects = self._assume(message.info, message.node)
            case AssignedPodAdded():
                effects = self._put(message.pod)
            case AssignedPodUpdated():
                effects = self._put(message.new)
            case ReturnSnapshot():
                pass  # The actor decides when the snapshot may change.
            case ObjectPut(item):
                self._objects.put(item)
            case AssumeObject(item):
                problem = self._objects.assume(item)
                effects = (OrderRefused(key(item), problem),) if problem else ()
            case RestoreObject(item):
                self._objects.restore(item)
            case Forget():
                effects = self._forget(message.info, message.node)
            case AssignedPodDeleted(pod):
                if self._is_counted(key(pod), pod.metadata.uid):
                    self._drop(key(pod))
            case AssumedPodDeleted(pod):
                if key(pod) in self._assumed and self._is_counted(key(pod), pod.metadata.uid):
                    effects = self._drop(key(pod))
            case NodeAdded(new) | NodeUpdated(_, new):
                self._put_node(new)
            case NodeDeleted(gone):
                self._drop_node(gone.metadata.name)
            case Nominate(info, node):
                if not self._is_counted(info.key, info.uid):  # A counted pod has a node already.
                    self._nominations.put(info, node)
            case Unnominate(name, uid):
                self._nominations.drop(name, uid)
            case ObjectRemoved(item):
                self._objects.remove(item)
            case KindListed(kind, problem):
                self._objects.kind_listed(kind, problem)
            case WhereBound(_, name, uid):
                bound = name not in self._assumed and self._is_counted(name, uid)
                effects = (message.answer(self._node_of[name] if bound else ""),)
            case CountCached():
                effects = (message.answer(self.statistics()),)
            case ListCached():
                keys = CachedKeys(tuple(self._infos), tuple(self._node_of))
                effects = (message.answer(keys),)
            case TakeDump(_, names):
                infos = (self._infos[name] for name in names if name in self._infos)
                effects = (message.answer(tuple(map(self._dump, infos))),)
            case Compare():
                effects = self._compare(message)
            case _:
                assert_never(message)
        return effects

    # ----------------------------------------------------------------------------------------- pods

    def _assume(self, info: PodInfo, node: str) -> tuple[Effect, ...]:
        where = self._node_of.get(info.key)
        if where is not None and (
            info.key not in self._assumed or self._is_counted(info.key, info.uid)
        ):
            return (OrderRefused(info.key, f"cannot be assumed on {node}: it counts on {where}"),)
        # An earlier pod of this name may be assumed; its binding will fail.
        effects = self._drop(info.key)
        self._count(info, node)
        self._assumed.add(info.key)
        self._nominations.drop(info.key)
        return effects

    def _forget(self, info: PodInfo, node: str) -> tuple[Effect, ...]:
        if not self._is_counted(info.key, info.uid):
            return ()  # The pod is gone, and its room was freed then.
        if info.key not in self._assumed or self._node_of[info.key] != node:
            # After a stand-still, as after SIGSTOP and SIGCONT, the binding of a pod can end in an
            # error though the API server bound it.
            where = f"the API server has it on {self._node_of[info.key]}"
            problem = f"its room on {node} is not freed: {where}, so that the binding was written"
            return (OrderRefused(info.key, problem),)
        self._drop(info.key)
        return ()

    def _put(self, pod: Pod) -> tuple[Effect, ...]:
        """Counts a pod on the node that it has at the API server, and on no other."""
        name, node = key(pod), pod.spec.node_name
        here = self._infos.get(node)
        before = None if here is None else here.pods.get(name)
        if before is not None and before.uid != pod.metadata.uid:
            before = None
        info = self._pod_infos.of(pod, before)
        if here is not None and before is not None and here.replace_pod(info):
            self._pods[name] = pod
            self._assumed.discard(name)
            return ()
        effects = self._drop(name)
        self._count(info, node)
        self._nominations.drop(name, info.uid)
        return effects if before is None else ()

    def _drop(self, name: str) -> tuple[Effect, ...]:
        """Stops counting a pod. Returns an effect if it was assumed."""
        node = self._node_of.pop(name, None)
        if node is None:
            return ()
        info = self._infos[node]
        info.remove_pod(name)
        pod = self._pods.pop(name)
        self._mark_changed(info)
        if info.node is None and not info.pods:
            del self._infos[node]
        if name not in self._assumed:
            return ()
        self._assumed.remove(name)
        return (PodVanished(pod, node),)

    def _is_counted(self, name: str, uid: str) -> bool:
        return name in self._pods and self._pods[name].metadata.uid == uid

    def _count(self, pod: PodInfo, node: str) -> None:
        info = self._infos.get(node)
        if info is None:
            info = self._infos[node] = NodeInfo(node)
        # Now, because the next decision waits for all pods that came until then.
        pod.template.read_terms()
        info.add_pod(pod)
        self._node_of[pod.key] = node
        self._pods[pod.key] = pod.pod
        self._mark_changed(info)

    # ---------------------------------------------------------------------------------------- nodes

    def _put_node(self, node: Node) -> None:
        name = node.metadata.name
        info = self._infos.get(name)
        if info is None:
            info = self._infos[name] = NodeInfo(name)
        if info.node is None:
            self._tree.add(node)
            self._reorder = True
        elif self._tree.update(info.node, node):
            self._reorder = True
        info.set_node(node)
        self._mark_changed(info)

    def _drop_node(self, name: str) -> None:
        info = self._infos.get(name)
        if info is None or info.node is None:
            return
        self._tree.remove(info.node)
        self._reorder = True
        info.forget_node()
        self._mark_changed(info)
        if not info.pods:
            del self._infos[name]

    def _mark_changed(self, info: NodeInfo) -> None:
        self._generation += 1
        info.generation = self._generation
        self._dirty[info.name] = None

    # ------------------------------------------------------------------------------------- snapshot

    def snapshot(self) -> Snapshot:
        """Returns the snapshot, brought up to date. It is always the same one."""
        self._bring_up_to_date()
        return self._snapshot

    def _bring_up_to_date(self) -> tuple[SnapshotRepaired, ...]:
        """Updates the snapshot. Rebuilds it if it does not match the nodes afterwards."""
        self._update_snapshot()
        columns, nodes = self._snapshot.columns, len(self._tree)
        if len(columns.order) == len(columns.row_of) == nodes:
            return ()
        rows = len(columns.row_of)
        self._snapshot.columns = NodeColumns()
        self._dirty = dict.fromkeys(self._infos)
        self._reorder = True
        self._update_snapshot()
        self._repaired += 1
        return (SnapshotRepaired(rows, nodes),)

    def _update_snapshot(self) -> None:
        self.catch_up(len(self._dirty))
        if self._reorder:
            self._snapshot.columns.reorder(self._tree.names())
            self._reorder = False

    @property
    def behind(self) -> int:
        """The number of nodes that have changed since the snapshot was last brought up to date."""
        return len(self._dirty)

    def catch_up(self, most: int) -> None:
        """Updates the snapshot for at most `most` of the changed nodes. Only TakeSnapshot completes
        the update.

        The actor calls this over several turns when much has changed.
        """
        columns = self._snapshot.columns
        for name in list(islice(self._dirty, most)):
            del self._dirty[name]
            info = self._infos.get(name)
            if info is None or info.node is None:
                columns.remove(name)
            else:
                columns.refresh(info)

    # ------------------------------------------------------------------------------------ comparing

    def _compare(self, order: Compare) -> tuple[Effect, ...]:
        pods = pod_differences(order.pods, self._pods, self._assumed)
        different = tuple(sorted((*node_differences(order.nodes, self._infos), *pods)))
        effects: tuple[Effect, ...] = ()
        for difference in different if order.heal else ():
            effects += (*self._heal(difference, order), Healed(difference))
            self._healed += 1
        return (*effects, order.answer(different))

    def _heal(self, difference: Difference, order: Compare) -> tuple[Effect, ...]:
        if difference.kind == "Pod":
            pod = order.pods.get(difference.key)
            if pod is not None and takes_room(pod):
                return self._put(pod)
            return self._drop(difference.key)
        node = order.nodes.get(difference.key)
        if node is not None:
            self._put_node(node)
        else:
            self._drop_node(difference.key)
        return ()

    def _dump(self, info: NodeInfo) -> NodeDump:
        pods = tuple(
            PodDump(name, pod.uid, pod.pod.status.phase, name in self._assumed)
            for name, pod in info.pods.items()
        )
        nominated = tuple(pod.key for pod in self._nominations.on(info.name))
        requested = {name: cap_int64(amount) for name, amount in info.requested.items() if amount}
        return NodeDump(
            info.name, info.node is None, requested, dict(info.allocatable), pods, nominated
        )

    # -------------------------------------------------------------------------------------- looking

    def statistics(self) -> CacheStatistics:
        return CacheStatistics(
            len(self._tree), len(self._node_of), len(self._assumed), self._healed, self._repaired
        )

    def validate(self) -> None:
        """Raises AssertionError if an invariant does not hold."""
        counted = {name: info.name for info in self._infos.values() for name in info.pods}
        assert counted == self._node_of, counted.items() ^ self._node_of.items()
        assert self._assumed <= self._node_of.keys()
        held = {name: pod.pod for info in self._infos.values() for name, pod in info.pods.items()}
        assert held == self._pods, held.keys() ^ self._pods.keys()
        self._objects.validate()
        for info in self._infos.values():
            info.validate()
            assert info.node is not None or info.pods, f"{info.name}: a deleted node without pods"
        if not self._dirty:
            self._snapshot.columns.counts.validate()
        live = {name for name, info in self._infos.items() if info.node is not None}
        assert live == set(self._tree.names())

"""The messages to the cache, and its answers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..scheduling.kube.core import Node, Pod
from ..scheduling.kube.meta import HasMetadata
from ..scheduling.model.pod_info import PodInfo
from ..scheduling.model.snapshot import Snapshot
from .comparison import Difference
from .order import Order


class AssignedPodAdded(msgspec.Struct, frozen=True):
    """A pod with a node was added, or a pod was bound, by us or by another scheduler."""

    pod: Pod


class AssignedPodUpdated(msgspec.Struct, frozen=True):
    old: Pod
    new: Pod


class AssignedPodDeleted(msgspec.Struct, frozen=True):
    pod: Pod


class NodeAdded(msgspec.Struct, frozen=True):
    node: Node


class NodeUpdated(msgspec.Struct, frozen=True):
    old: Node
    new: Node


class NodeDeleted(msgspec.Struct, frozen=True):
    node: Node


class AssumedPodDeleted(msgspec.Struct, frozen=True):
    """A pod without a node was or is being deleted: if it is assumed, it will not be bound."""

    pod: Pod


class ObjectPut(msgspec.Struct, frozen=True):
    """An object other than a pod or a node was added or changed; plugins look it up."""

    item: HasMetadata


class ObjectRemoved(msgspec.Struct, frozen=True):
    item: HasMetadata


class AssumeObject(msgspec.Struct, frozen=True):
    """Look-ups are to return this version of an object from the next snapshot on, until the API
    server has a newer one.
    """

    item: HasMetadata


class RestoreObject(msgspec.Struct, frozen=True):
    """This version of an assumed object will not be written. Look-ups return the API server's
    version again.
    """

    item: HasMetadata


class KindListed(msgspec.Struct, frozen=True):
    """All objects of a kind that plugins look up have been sent, or cannot be: then `problem` is
    the reason.
    """

    kind: type[HasMetadata]
    problem: str = ""


class Assume(msgspec.Struct, frozen=True):
    """Count the pod on the node from now on, before its binding."""

    info: PodInfo
    node: str


class Forget(msgspec.Struct, frozen=True):
    """An assumed pod will not be bound: stop counting it."""

    info: PodInfo
    node: str


class Nominate(msgspec.Struct, frozen=True):
    """Count a pending pod on this node, until it is placed or deleted. It counts for pods of at
    most its priority.
    """

    info: PodInfo
    node: str


class Unnominate(msgspec.Struct, frozen=True):
    """The pod of this key (namespace/name), and of this uid if one is set, is no longer
    nominated.
    """

    key: str
    uid: str = ""


class WhereBound(Order[str], frozen=True):
    """Asks on which node the pod of this key and uid is, according to the API server; "" if on
    none.
    """

    key: str
    uid: str


class CacheStatistics(msgspec.Struct, frozen=True):
    """The sizes of the cache (kube-scheduler's metric cache_size), and how many differences were
    healed and how many snapshots repaired since the start.
    """

    nodes: int
    pods: int
    assumed_pods: int
    healed: int
    repaired: int


class CountCached(Order[CacheStatistics], frozen=True):
    """Asks for the number of nodes and pods in the cache."""


class CachedKeys(msgspec.Struct, frozen=True):
    nodes: tuple[str, ...]
    pods: tuple[str, ...]


class ListCached(Order[CachedKeys], frozen=True):
    """Asks for the names of all nodes and the keys of all pods in the cache."""


class Compare(Order[tuple[Difference, ...]], frozen=True):
    """Compare the cache with these nodes and pods as the informers know them. None stands for an
    object that is gone. With `heal`, remove each difference.
    """

    nodes: Mapping[str, Node | None]
    pods: Mapping[str, Pod | None]
    heal: bool


class PodDump(msgspec.Struct, frozen=True):
    key: str
    uid: str
    phase: str
    assumed: bool


class NodeDump(msgspec.Struct, frozen=True):
    """A node of the cache, for people to read; `deleted` if only its pods are left.

    Cpu is in thousandths, every other resource in whole units.
    """

    name: str
    deleted: bool
    requested: dict[str, int]
    allocatable: dict[str, int]
    pods: tuple[PodDump, ...]
    nominated: tuple[str, ...]


class TakeDump(Order[tuple[NodeDump, ...]], frozen=True):
    """Asks for dumps of the nodes of these names, with their pods."""

    nodes: tuple[str, ...]


class TakeSnapshot(Order[Snapshot], frozen=True):
    """Bring the snapshot up to date and lend it. Nothing in it changes until ReturnSnapshot."""


class ReturnSnapshot(msgspec.Struct, frozen=True):
    """The decision is made; the snapshot is no longer read. `placed` is the order that follows."""

    placed: Assume | None = None


CacheMessage = (
    AssignedPodAdded
    | AssignedPodUpdated
    | AssignedPodDeleted
    | NodeAdded
    | NodeUpdated
    | NodeDeleted
    | AssumedPodDeleted
    | ObjectPut
    | ObjectRemoved
    | AssumeObject
    | RestoreObject
    | KindListed
    | Assume
    | Forget
    | Nominate
    | Unnominate
    | WhereBound
    | CountCached
    | ListCached
    | Compare
    | TakeDump
    | TakeSnapshot
    | ReturnSnapshot
)

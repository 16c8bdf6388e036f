"""PodVolumes: the claims of a pod, and the nodes that suit them.

If a claim is bound to a volume, the volume's node affinity decides. If it waits for its first
consumer, the node needs a volume that matches, or the class must be able to make one there. Mirrors
GetPodVolumeClaims and FindPodVolumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import msgspec
import numpy as np

from berth.plugin import Bools, Ints, NodeView, Snapshot

from ...kube.annotations import SELECTED_NODE
from ...kube.claims import claim_name, class_of, controller_uid, is_fully_bound, not_made_for
from ...kube.core import Node, NodeSelector, Pod, Volume
from ...kube.csi_translation import (
    MIGRATED,
    TranslationError,
    in_tree_plugin,
    migrated_plugins,
    translated_affinity,
)
from ...kube.labels import SelectorError
from ...kube.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from ...kube.volumes import VolumeRequest, can_provision
from ...model.cluster_objects import ClusterObjects, UnlistedError
from .matching import Volumes, affinity_allows, labels_selector, node_affinity, nodes_of_affinity
from .provisioning import Capacities, in_topology

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, NO_VOLUME, FAILED = 1, 2, 4, 8, 16
REASONS: Mapping[int, str] = {
    NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    NOT_ENOUGH_SPACE: "node(s) did not have enough free storage",
    NO_VOLUME: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


class VolumeError(Exception):
    """The pod's volumes cannot be judged; the message is Kubernetes' own."""


class ClaimProblem(Exception):  # noqa: N818 - a verdict about the pod, and no failure
    """A claim of the pod cannot be used yet; the message says why."""


class DelayedClaim(msgspec.Struct, frozen=True):
    """A claim that waits for its first consumer. `request` is None if its node is already selected,
    or if the request cannot be read for the reason in `problem`.
    """

    claim: PersistentVolumeClaim
    request: VolumeRequest | None = None
    problem: str = ""

    @classmethod
    def of(cls, claim: PersistentVolumeClaim) -> DelayedClaim:
        if SELECTED_NODE in claim.metadata.annotations:
            return cls(claim)
        try:
            return cls(claim, VolumeRequest.of(claim))
        except SelectorError as problem:
            where = f"{claim.metadata.namespace}/{claim.metadata.name}"
            return cls(
                claim,
                problem=f"error creating internal label selector for claim: {where}: {problem}",
            )

    @property
    def selected(self) -> str | None:
        return self.claim.metadata.annotations.get(SELECTED_NODE)


class Provision(msgspec.Struct, frozen=True):
    """A volume to be made for a claim. `capacity` reports the room for the volume; None if the room
    is not limited.
    """

    claim: PersistentVolumeClaim
    capacity: CSIStorageCapacity | None = None


class NodeVolumes(msgspec.Struct, frozen=True):
    """The volumes that the unbound claims of a pod would get on one node."""

    bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    provisions: tuple[Provision, ...] = ()


class Claims(msgspec.Struct, frozen=True):
    """The claims of a pod: bound to a volume, or waiting for their first consumer."""

    bound: Sequence[PersistentVolumeClaim] = ()
    delayed: Sequence[DelayedClaim] = ()


def claims_of(pod: Pod, objects: ClusterObjects) -> Claims | None:
    """Returns the claims of a pod; None if it has none. Raises ClaimProblem and VolumeError."""
    used = [claim for volume in pod.spec.volumes if (claim := _usable_claim(pod, volume, objects))]
    if not used:
        return None
    bound: list[PersistentVolumeClaim] = []
    delayed: list[DelayedClaim] = []
    immediate = False
    for claim in used:
        if is_fully_bound(claim):
            bound.append(claim)
        elif _is_delayed(claim, objects) and not claim.spec.volume_name:
            delayed.append(DelayedClaim.of(claim))
        else:
            immediate = True
    if immediate:
        raise ClaimProblem(UNBOUND_IMMEDIATE)
    return Claims(bound, delayed)


def _usable_claim(
    pod: Pod, volume: Volume, objects: ClusterObjects
) -> PersistentVolumeClaim | None:
    """Returns the claim of a volume of the pod. Raises ClaimProblem if the pod has to wait for
    it.
    """
    name = claim_name(pod, volume)
    if name is None:
        return None
    claim = objects.get(PersistentVolumeClaim, name, pod.metadata.namespace)
    is_ephemeral = volume.ephemeral is not None
    if claim is None:
        raise ClaimProblem(
            f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            if is_ephemeral
            else f'persistentvolumeclaim "{name}" not found'
        )
    if claim.status.phase == "Lost":
        raise ClaimProblem(
            f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume '
            f'"{claim.spec.volume_name}"'
        )
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimProblem(f'persistentvolumeclaim "{name}" is being deleted')
    if is_ephemeral and controller_uid(claim) != pod.metadata.uid:
        raise ClaimProblem(not_made_for(pod, name))
    return claim


def _is_delayed(claim: PersistentVolumeClaim, objects: ClusterObjects) -> bool:
    name = class_of(claim)
    storage_class = objects.get(StorageClass, name) if name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        raise VolumeError(f'VolumeBindingMode not set for StorageClass "{name}"')
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


class MigratedNodes:
    """The nodes that attach the disks of an in-tree plugin through its CSI driver, by row. They are
    looked up again when a CSINode changes, and when nodes come or go.
    """

    def __init__(self) -> None:
        self._source: tuple[ClusterObjects, int] | None = None
        self._names: dict[str, frozenset[str]] = {}
        self._order: Ints | None = None
        self._rows: dict[str, Bools] = {}

    def on(self, plugin: str, nodes: NodeView) -> Bools:
        """Returns bool[nodes.size]: the nodes that attach the plugin's disks through its driver."""
        columns, names = nodes.columns, self._plugins(nodes.snapshot.objects)
        if self._order is not columns.order:
            self._order, self._rows = columns.order, {}
        rows = self._rows.get(plugin)
        if rows is None:
            rows = self._rows[plugin] = np.zeros(columns.size, dtype=np.bool_)
            migrated = [name for name, plugins in names.items() if plugin in plugins]
            rows[[columns.row_of[name] for name in migrated if name in columns.row_of]] = True
        return rows[nodes.rows]

    def _plugins(self, objects: ClusterObjects) -> Mapping[str, frozenset[str]]:
        source = (objects, objects.version(CSINode))
        if self._source != source:
            self._source, self._rows = source, {}
            by_name = {
                node.metadata.name: migrated_plugins(node) for node in objects.every(CSINode)
            }
            self._names = {name: plugins for name, plugins in by_name.items() if plugins}
        return self._names


class VolumeIndexes:
    """The indexes of the cluster's volumes, capacities and CSINodes."""

    def __init__(self) -> None:
        self.volumes = Volumes()
        self.capacities = Capacities()
        self.migrated = MigratedNodes()

    def follow(self, pod: Pod, snapshot: Snapshot) -> Iterator[int]:
        """Updates what a decision about the pod reads. Yields the steps (see ../steps.py) after
        each part.
        """
        try:
            claims = claims_of(pod, snapshot.objects)
            if claims is None or not claims.delayed:
                return
            requests = [each.request for each in claims.delayed if each.request is not None]
            yield from self.volumes.follow_all(snapshot, requests)
            if any(_may_be_limited(each.claim, snapshot.objects) for each in claims.delayed):
                yield from self.capacities.follow_all(snapshot)
        except (ClaimProblem, VolumeError, UnlistedError):
            return  # The decision meets the same, and says so.


class PodVolumes:
    """The claims of a pod in one decision, and the nodes that suit them. `is_filtered` is true once
    Filter has judged nodes: without it, kube-scheduler's plugin does not know their volumes.
    """

    def __init__(self, claims: Claims, snapshot: Snapshot, indexes: VolumeIndexes) -> None:
        self.claims = claims
        self._snapshot = snapshot
        self._objects = snapshot.objects
        self._indexes = indexes
        self.failure = ""
        self.is_filtered = False
        if claims.delayed:
            indexes.volumes.refresh(snapshot.objects)

    # ------------------------------------------------------------------------------ for many nodes

    def are_usable_anywhere(self) -> bool:
        """True if every claim is bound to a volume that can be used on every node."""
        return not self.claims.delayed and all(map(self._is_usable_anywhere, self.claims.bound))

    def _is_usable_anywhere(self, claim: PersistentVolumeClaim) -> bool:
        volume = self._objects.get(PersistentVolume, claim.spec.volume_name)
        if volume is None or node_affinity(volume) is not None:
            return False
        return in_tree_plugin(volume) not in MIGRATED or _translated(volume) is None

    def conflicts(self, nodes: NodeView) -> Ints | None:
        """Returns int64[nodes.size]: the sum of each node's keys in REASONS; None if all are 0.

        A node with the key FAILED cannot be judged; `failure` then says why.
        """
        keys: Ints | None = None
        if self.claims.bound:
            keys = self._conflicts_of_bound(nodes)
        if self.claims.delayed:
            of_delayed = self._of_delayed(nodes)
            keys = of_delayed if keys is None else keys + of_delayed
        return keys if keys is not None and keys.any() else None

    def _conflicts_of_bound(self, nodes: NodeView) -> Ints | None:
        keys: Ints | None = None
        for claim in self.claims.bound:
            volume = self._objects.get(PersistentVolume, claim.spec.volume_name)
            if volume is None:
                keys = np.zeros(nodes.size, dtype=np.int64) if keys is None else keys
                keys[keys == 0] = NO_VOLUME
                break
            conflicts = self._conflicts_of(volume, nodes)
            if conflicts is not None:
                keys = conflicts if keys is None else np.where(keys == 0, conflicts, keys)
        return keys

    def _conflicts_of(self, volume: PersistentVolume, nodes: NodeView) -> Ints | None:
        """Returns int64[nodes.size]: the key of a bound volume for each node; None if all are 0."""
        affinity = node_affinity(volume)
        here = None if affinity is None else nodes_of_affinity(affinity, nodes)
        conflicts = None if here is None else np.where(here, 0, NODE_CONFLICT)
        plugin = in_tree_plugin(volume)
        if plugin not in MIGRATED:
            return conflicts
        translated = _translated(volume)
        if translated == affinity:
            return conflicts
        migrated = self._indexes.migrated.on(plugin, nodes)
        if not migrated.any():
            return conflicts
        there: Bools | int = FAILED
        if isinstance(translated, VolumeError):
            self.failure = str(translated)
        else:
            there = np.where(_nodes_of_affinity(translated, nodes), 0, NODE_CONFLICT)
        return np.where(migrated, there, 0 if conflicts is None else conflicts)

    def _of_delayed(self, nodes: NodeView) -> Ints:
        keys = np.zeros(nodes.size, dtype=np.int64)
        open_: Bools = np.ones(nodes.size, dtype=np.bool_)  # where no claim has failed yet
        for delayed in self.claims.delayed:
            if delayed.selected is not None:
                row = nodes.columns.row_of.get(delayed.selected, -1)
                elsewhere = np.ones(nodes.size, dtype=np.bool_)
                position = int(nodes.positions(np.array([row]))[0]) if row >= 0 else -1
                if position >= 0:
                    elsewhere[position] = False
                keys[open_ & elsewhere] = BIND_CONFLICT
                open_ &= ~elsewhere
        problem = next((delayed.problem for delayed in self.claims.delayed if delayed.problem), "")
        if problem:
            self.failure = problem
            keys[open_] = FAILED
            return keys
        for delayed, needed in self._claims_to_provision(nodes, open_):
            if not needed.any():
                continue
            possible, enough = self._can_be_made(delayed.claim, nodes)
            failing = needed & open_ & ~possible
            keys[failing] = BIND_CONFLICT
            open_ &= ~failing
            if enough is not None:
                failing = needed & open_ & ~enough
                keys[failing] = NOT_ENOUGH_SPACE
                open_ &= ~failing
        return keys

    def _claims_to_provision(
        self, nodes: NodeView, open_: Bools
    ) -> list[tuple[DelayedClaim, Bools]]:
        """Returns the claims that need a new volume, each with the nodes where it needs one, in the
        order in which kube-scheduler provisions.
        """
        unmatched = [(d, open_.copy()) for d in self.claims.delayed if d.request is None]
        matching = self._by_size()
        here = [self._nodes_with_match(delayed, nodes) & open_ for delayed in matching]
        # One volume may match several claims of the pod.
        contested = np.zeros(nodes.size, dtype=np.int64)
        if len({d.request.storage_class for d in matching if d.request}) < len(matching):
            contested = np.sum(here, axis=0)
        for position in np.flatnonzero(contested > 1).tolist():
            node = nodes.node(position)
            if node is not None:
                chosen = self._chosen_volumes(node)
                for i, each in enumerate(here):
                    each[position] = i in chosen
        return unmatched + [(d, open_ & ~each) for d, each in zip(matching, here, strict=True)]

    def _by_size(self) -> list[DelayedClaim]:
        """Returns the claims that may get existing volumes, smallest request first, which is the
        order of their choice.
        """
        sizes = [(d.request.size, d) for d in self.claims.delayed if d.request is not None]
        return [delayed for _, delayed in sorted(sizes, key=lambda pair: pair[0])]

    def _nodes_with_match(self, delayed: DelayedClaim, nodes: NodeView) -> Bools:
        """Returns bool[nodes.size]: the nodes where an existing volume matches the claim."""
        assert delayed.request is not None
        volume = self.reserved_for(delayed)
        if volume is not None:
            return _nodes_of_affinity(node_affinity(volume), nodes)
        return self._indexes.volumes.matches(delayed.request).usable_on(nodes)

    def reserved_for(
        self, delayed: DelayedClaim, excluded: Set[str] = frozenset()
    ) -> PersistentVolume | None:
        """Returns the volume that is reserved for a claim, which then takes no other."""
        assert delayed.request is not None
        for volume in self._indexes.volumes.reserved(delayed.claim):
            if (
                volume.metadata.name not in excluded
                and class_of(volume) == delayed.request.storage_class
                and delayed.request.admits(volume)
            ):
                return volume
        return None

    def _can_be_made(
        self, claim: PersistentVolumeClaim, nodes: NodeView
    ) -> tuple[Bools, Bools | None]:
        """Returns two bool[nodes.size]: the nodes for which the class may make a volume, and those
        with room for it (None for all).
        """
        name = class_of(claim)
        storage_class = self._objects.get(StorageClass, name)
        assert storage_class is not None, name  # checked by `claims_of`
        if not can_provision(storage_class):
            return np.zeros(nodes.size, dtype=np.bool_), None
        possible = in_topology(storage_class.allowed_topologies, nodes)
        if possible is None:
            possible = np.ones(nodes.size, dtype=np.bool_)
        return possible, self._indexes.capacities.enough(self._objects, storage_class, claim, nodes)

    # -------------------------------------------------------------------------------- for one node

    def on(self, name: str) -> NodeVolumes:
        """Returns the claims' volumes on a node that has no conflicts. Raises VolumeError."""
        row = self._snapshot.columns.row_of.get(name)
        node = None if row is None else self._snapshot.columns.nodes[row]
        if node is None:
            raise VolumeError(f'node "{name}" not found')
        matching, chosen = self._by_size(), self._chosen_volumes(node)
        new = [delayed.claim for delayed in self.claims.delayed if delayed.request is None]
        new += [delayed.claim for i, delayed in enumerate(matching) if i not in chosen]
        return NodeVolumes(
            tuple([(volume, matching[i].claim) for i, volume in chosen.items()]),
            tuple([self._provision(claim, node) for claim in new]),
        )

    def _chosen_volumes(self, node: Node) -> dict[int, PersistentVolume]:
        """Returns the existing volumes for claims on a node, by the claim's place in `_by_size`."""
        taken: dict[int, PersistentVolume] = {}
        chosen: set[str] = set()
        row = self._snapshot.columns.row_of[node.metadata.name]
        for i, delayed in enumerate(self._by_size()):
            assert delayed.request is not None
            volume = self.reserved_for(delayed, chosen)
            if volume is None:
                matches = self._indexes.volumes.matches(delayed.request)
                name = matches.smallest(self._snapshot, row, chosen)
                volume = None if name is None else self._objects.get(PersistentVolume, name)
            elif not affinity_allows(node_affinity(volume), node):
                volume = None
            if volume is not None:
                chosen.add(volume.metadata.name)
                taken[i] = volume
        return taken

    def _provision(self, claim: PersistentVolumeClaim, node: Node) -> Provision:
        storage_class = self._objects.get(StorageClass, class_of(claim))
        assert storage_class is not None  # checked by `claims_of`
        return Provision(
            claim, self._indexes.capacities.chosen(self._snapshot, storage_class, claim, node)
        )


def _may_be_limited(claim: PersistentVolumeClaim, objects: ClusterObjects) -> bool:
    """True if drivers may report how much room there is for a new volume."""
    storage_class = objects.get(StorageClass, class_of(claim))
    if storage_class is None:
        return False
    driver = objects.get(CSIDriver, storage_class.provisioner)
    return driver is not None and bool(driver.spec.storage_capacity)


def _nodes_of_affinity(affinity: NodeSelector | None, nodes: NodeView) -> Bools:
    return (
        np.ones(nodes.size, dtype=np.bool_)
        if affinity is None
        else nodes_of_affinity(affinity, nodes)
    )


def _translated(volume: PersistentVolume) -> NodeSelector | VolumeError | None:
    try:
        affinity = translated_affinity(volume)
    except TranslationError as problem:
        return VolumeError(f"could not translate pv: {problem}")
    return None if affinity is None else labels_selector(affinity)

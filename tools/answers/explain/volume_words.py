"""The volumes of a pod in words: their states, their demands on the nodes, and the nodes that are
left out.

The plugins for volumes decide; this module asks them about one volume at a time, and words their
answers. Volumes without a demand on a node are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set

import msgspec
import numpy as np
from msgspec.structs import replace

from berth.actors.scheduling.kube.claims import (
    claim_name,
    class_of,
    controller_uid,
)
from berth.actors.scheduling.kube.core import (
    Pod,
    Volume,
)
from berth.actors.scheduling.kube.csi_translation import (
    MIGRATED,
    TranslationError,
    in_tree_plugin,
    translated_affinity,
)
from berth.actors.scheduling.kube.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from berth.actors.scheduling.kube.volumes import can_provision
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.pod_template import Disk
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.model.vectors import Bools
from berth.actors.scheduling.plugins.node_volume_limits.limits import limits_of
from berth.actors.scheduling.plugins.node_volume_limits.plugin import (
    NodeVolumeLimits,
    full_nodes,
)
from berth.actors.scheduling.plugins.volume_binding.matching import (
    labels_selector,
    node_affinity,
)
from berth.actors.scheduling.plugins.volume_binding.plugin import VolumeBinding
from berth.actors.scheduling.plugins.volume_binding.pod_volumes import (
    NOT_ENOUGH_SPACE,
    ClaimProblem,
    DelayedClaim,
    PodVolumes,
    VolumeError,
    VolumeIndexes,
    claims_of,
)
from berth.actors.scheduling.plugins.volume_restrictions import (
    VolumeRestrictions,
    conflicting_uses,
    exclusive_claims,
    nodes_in_conflict,
)
from berth.actors.scheduling.plugins.volume_zone import (
    VolumeZone,
    nodes_outside,
    topologies_of,
)

from .words import MOST_NAMES, affinity_words, all_of, label_in, label_words, listed, topology_words

_DISKS = {"gce": "GCE disk", "aws": "EBS volume", "iscsi": "iSCSI target", "rbd": "RBD image"}


class Demand(msgspec.Struct, frozen=True):
    """A demand of a volume of the pod on the nodes. `left_out` are the nodes that do not meet it,
    sorted, or None if no node can. `claim` and `driver` are names, "" if it is about no single
    one.
    """

    volume: str
    state: str
    meaning: str
    left_out: tuple[str, ...] | None
    claim: str = ""
    driver: str = ""


class Condition(msgspec.Struct, frozen=True):
    """The part of a Demand without the volume."""

    meaning: str
    left_out: tuple[str, ...] | None


def demands(info: PodInfo, snapshot: Snapshot, plugins: Set[str]) -> list[Demand]:
    """Returns the demands of the pod's volumes, as these plugins decide them."""
    return list(dict.fromkeys(_PodInWords(info, snapshot, plugins).demands()))


class _PodInWords:
    def __init__(self, info: PodInfo, snapshot: Snapshot, plugins: Set[str]) -> None:
        self._info, self._pod = info, info.pod
        self._snapshot, self._objects = snapshot, snapshot.objects
        self._nodes = snapshot.rows(snapshot.columns.order)
        self._plugins = plugins
        self._indexes = VolumeIndexes()

    def demands(self) -> Iterator[Demand]:
        for volume in self._pod.spec.volumes:
            name = claim_name(self._pod, volume)
            if name is not None:
                yield from self._claim_demands(volume, name)
            elif VolumeRestrictions.name in self._plugins:
                yield from self._disk_demands(volume)
        if VolumeBinding.name in self._plugins:
            yield from self._joint_nodes()
        if NodeVolumeLimits.name in self._plugins:
            yield from self._limits()

    def _names(self, marked: Bools) -> tuple[str, ...]:
        return tuple(sorted(self._nodes.name(i) for i in np.flatnonzero(marked).tolist()))

    def _with_one_volume(self, volume: Volume) -> Pod:
        """Returns the pod with this volume as its only one."""
        return replace(self._pod, spec=replace(self._pod.spec, volumes=(volume,)))

    # --------------------------------------------------------------------------------------- claims

    def _claim_demands(self, volume: Volume, name: str) -> Iterator[Demand]:
        claim = self._objects.get(PersistentVolumeClaim, name, self._pod.metadata.namespace)
        shown = f"claim {name}" + (" (ephemeral)" if volume.ephemeral is not None else "")
        try:
            claims = claims_of(self._with_one_volume(volume), self._objects)
        except ClaimProblem:
            state, meaning = self._problem(volume, claim)
            if VolumeBinding.name in self._plugins:
                yield Demand(shown, state, meaning, None, name)
            return
        except VolumeError as failure:
            if VolumeBinding.name in self._plugins:
                yield Demand(shown, "cannot be decided", str(failure), None, name)
            return
        if claims is None or claim is None:
            return
        delayed = next(iter(claims.delayed), None)
        state = self._state(claim, delayed)
        conditions: list[Condition] = []
        if VolumeBinding.name in self._plugins:
            volumes = PodVolumes(claims, self._snapshot, self._indexes)
            conditions += self._binding(volumes, claim, delayed)
        if VolumeZone.name in self._plugins and volume.persistent_volume_claim is not None:
            conditions += self._zones(claim)
        if VolumeRestrictions.name in self._plugins:
            conditions += self._exclusive(volume, name)
        for condition in conditions:
            yield Demand(shown, state, condition.meaning, condition.left_out, name)

    def _state(self, claim: PersistentVolumeClaim, delayed: DelayedClaim | None) -> str:
        if delayed is None:
            bound = f"bound to {claim.spec.volume_name}"
            exists = self._volume_of(claim) is not None
            return bound if exists else f"{bound}, which does not exist"
        if delayed.selected is not None:
            return f"a node was selected already: {delayed.selected}"
        return f"waits for its first consumer, class {class_of(claim)}"

    def _problem(self, volume: Volume, claim: PersistentVolumeClaim | None) -> tuple[str, str]:
        """Returns the state of a claim that cannot be used yet, and what the pod waits for."""
        if claim is None:
            if volume.ephemeral is None:
                return "does not exist", "the pod waits until the claim is created"
            return "not created yet", "the ephemeral volume controller has to create the claim"
        if claim.status.phase == "Lost":
            return (
                f"lost: {claim.spec.volume_name} does not exist any more",
                "the claim can never be used again; a new one is needed",
            )
        if claim.metadata.deletion_timestamp is not None:
            return "being deleted", "no other pod may use the claim"
        if volume.ephemeral is not None and controller_uid(claim) != self._pod.metadata.uid:
            return "not made for this pod", "the pod waits until a claim of its own replaces it"
        return self._unbound(claim)

    def _unbound(self, claim: PersistentVolumeClaim) -> tuple[str, str]:
        volume = claim.spec.volume_name
        if volume:
            if self._volume_of(claim) is None:
                return f"names {volume}, which does not exist", f"{volume} has to be created first"
            return (
                f"names {volume}, but is not bound to it yet",
                "the volume controller has to bind the two first",
            )
        create = "a volume that suits it has to be created first"
        name = class_of(claim)
        storage_class = self._objects.get(StorageClass, name) if name else None
        bind = self._binding_to_come(claim)
        if claim.spec.storage_class_name is None and not name:
            default = "a default StorageClass, or a volume that suits the claim, has to be created"
            return "not bound, and has no class", bind or default
        if not name:
            return "not bound, and asks for no class", bind or create
        if storage_class is None:
            create = "the class, or a volume of it that suits, has to be created first"
            return f"not bound, and its class {name} does not exist", bind or create
        if not can_provision(storage_class):
            return f"not bound, and its class {name} has no provisioner", bind or create
        make = "has to make a volume first; the claim's events say why it has not"
        return (
            f"not bound, and its class {name} binds immediately",
            bind or f"{storage_class.provisioner} {make}",
        )

    def _binding_to_come(self, claim: PersistentVolumeClaim) -> str:
        """Returns in words that the volume controller has yet to bind a suitable volume; "" if
        there is none.
        """
        request = DelayedClaim.of(claim).request
        if request is None:
            return ""
        self._indexes.volumes.refresh(self._objects)
        names = self._indexes.volumes.matches(request).names
        return f"the volume controller has to bind {names[0]} to it first" if names else ""

    def _volume_of(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        name = claim.spec.volume_name
        return self._objects.get(PersistentVolume, name) if name else None

    # -------------------------------------------------------------------------------- VolumeBinding

    def _binding(
        self, volumes: PodVolumes, claim: PersistentVolumeClaim, delayed: DelayedClaim | None
    ) -> Iterator[Condition]:
        keys = volumes.conflicts(self._nodes)
        if volumes.failure:
            yield Condition(volumes.failure, None)
            return
        keys = np.zeros(self._nodes.size, dtype=np.int64) if keys is None else keys
        unfit = self._names((keys != 0) & (keys != NOT_ENOUGH_SPACE))
        meaning = (
            self._usable_nodes(claim)
            if delayed is None
            else self._nodes_with_volumes(volumes, delayed)
        )
        if meaning:
            yield Condition(meaning, unfit)
        full = self._names(keys == NOT_ENOUGH_SPACE)
        if full:
            yield Condition(self._room(claim), full)

    def _usable_nodes(self, claim: PersistentVolumeClaim) -> str:
        """Returns in words where the volume of a bound claim can be used; "" for everywhere."""
        volume = self._volume_of(claim)
        if volume is None:
            return f"{claim.spec.volume_name} has to exist"
        affinity, translated = node_affinity(volume), None
        plugin = in_tree_plugin(volume)
        if plugin in MIGRATED and self._indexes.migrated.on(plugin, self._nodes).any():
            try:
                translated = translated_affinity(volume)
            except TranslationError:
                translated = None
        if affinity is None:
            return ""
        meaning = f"{claim.spec.volume_name} can only be used {affinity_words(affinity)}"
        if translated is not None and labels_selector(translated) != affinity:
            there = affinity_words(labels_selector(translated))
            meaning += f"; where a CSI driver serves {plugin}, {there}"
        return meaning

    def _nodes_with_volumes(self, volumes: PodVolumes, delayed: DelayedClaim) -> str:
        """Returns in words where a claim without a volume can get one; "" for everywhere."""
        claim = delayed.claim
        storage_class = self._objects.get(StorageClass, class_of(claim))
        assert storage_class is not None, claim.metadata.name
        provisioning = _provisioning(storage_class)
        if delayed.request is None:
            if claim.spec.selector is not None:
                return (
                    f"nothing makes its volume on {delayed.selected}: the claim has a selector, "
                    "and provisioners refuse those"
                )
            return "; ".join(
                filter(
                    None, (f"its volume is being made for {delayed.selected} alone", provisioning)
                )
            )
        reserved = volumes.reserved_for(delayed)
        if reserved is not None:
            name, affinity = reserved.metadata.name, node_affinity(reserved)
            if affinity is None or not provisioning:
                return ""
            there = f"can only be used {affinity_words(affinity)}"
            return f"{name}, which is reserved for the claim, {there}; {provisioning}"
        names = self._indexes.volumes.matches(delayed.request).names
        matches = [v for name in names if (v := self._objects.get(PersistentVolume, name))]
        if not provisioning or any(node_affinity(volume) is None for volume in matches):
            return ""
        if can_provision(storage_class) and not matches:
            return provisioning
        return "; ".join((self._matching(delayed, matches), provisioning))

    def _matching(self, delayed: DelayedClaim, matches: Sequence[PersistentVolume]) -> str:
        """Names the existing volumes that match a claim, and counts the others by their problem."""
        assert delayed.request is not None
        name = delayed.request.storage_class
        matching = {volume.metadata.name for volume in matches}
        others = Counter(
            _why_not(delayed, volume)
            for volume in self._objects.every(PersistentVolume)
            if class_of(volume) == name and volume.metadata.name not in matching
        )
        by_number = sorted(others.items(), key=lambda item: (-item[1], item[0]))
        why = listed([f"{number} {problem}" for problem, number in by_number])
        if not matches:
            return (
                f"no available volume of class {name} matches: {why}"
                if why
                else f"there is no volume of class {name}"
            )
        shown = []
        for volume in matches[:MOST_NAMES]:
            affinity = node_affinity(volume)
            assert affinity is not None
            size = volume.spec.capacity.get("storage", "no size")
            shown.append(f"{volume.metadata.name} ({size}) matches {affinity_words(affinity)}")
        if len(matches) > MOST_NAMES:
            shown.append(f"{len(matches) - MOST_NAMES} more match")
        return "; ".join(shown) + (f"; of the others, {why}" if why else "")

    def _room(self, claim: PersistentVolumeClaim) -> str:
        """Names the room that a driver reports, which is too little for a claim on some nodes."""
        storage_class = self._objects.get(StorageClass, class_of(claim))
        assert storage_class is not None, claim.metadata.name
        rooms = self._indexes.capacities.reported(self._objects, storage_class, claim) or ()
        request = f"{claim.spec.resources.requests['storage']} are asked for"
        driver = storage_class.provisioner
        if not rooms:
            return f"{driver} reports no room for class {storage_class.metadata.name}; {request}"
        largest = sorted(rooms, key=lambda room: -room.limit)
        reports = []
        for room in largest[:MOST_NAMES]:
            amount = room.capacity.maximum_volume_size
            amount = room.capacity.capacity if amount is None else amount
            reports.append(f"{amount} {label_words(room.topology)}")
        if len(largest) > MOST_NAMES:
            reports.append(f"less in {len(largest) - MOST_NAMES} more places")
        return f"{driver} reports room for {', '.join(reports)}; {request}"

    def _joint_nodes(self) -> Iterator[Demand]:
        """Yields the nodes where each claim could get a volume, but not all claims at once."""
        try:
            claims = claims_of(self._pod, self._objects)
            if claims is None or len(claims.delayed) < 2:
                return
            whole = PodVolumes(claims, self._snapshot, self._indexes).conflicts(self._nodes)
            if whole is None:
                return
            lacking = whole != 0
            for volume in self._pod.spec.volumes:
                single = claims_of(self._with_one_volume(volume), self._objects)
                if single is not None:
                    keys = PodVolumes(single, self._snapshot, self._indexes).conflicts(self._nodes)
                    lacking &= True if keys is None else keys == 0
        except (ClaimProblem, VolumeError):
            return
        if lacking.any():
            yield Demand(
                "all claims",
                "wait for their first consumer",
                "each needs a volume of its own, and fewer match",
                self._names(lacking),
            )

    # ---------------------------------------------------------------------------- the other plugins

    def _zones(self, claim: PersistentVolumeClaim) -> Iterator[Condition]:
        volume = self._volume_of(claim)
        topologies = [] if volume is None else topologies_of(volume)
        if topologies:
            labels = all_of([label_in(t.label, t.values) for t in topologies])
            yield Condition(
                f"the labels of {claim.spec.volume_name} ask for {labels} on nodes that name a "
                "zone or region",
                self._names(nodes_outside(topologies, self._nodes)),
            )

    def _exclusive(self, volume: Volume, name: str) -> Iterator[Condition]:
        namespace, counts = self._pod.metadata.namespace, self._snapshot.columns.counts
        exclusive = exclusive_claims(self._with_one_volume(volume), self._snapshot)
        if not isinstance(exclusive, set) or conflicting_uses(exclusive, namespace, counts) <= 0:
            return
        users = sorted(
            f"{info.key} on {self._snapshot.columns.names[row]}"
            for row, pods in counts.attaching.items()
            for info in pods.values()
            if f"{namespace}/{name}" in info.claims
        )
        yield Condition(
            f"only one pod may use the claim (ReadWriteOncePod), and {_user_words(users)} already",
            None,
        )

    def _limits(self) -> Iterator[Demand]:
        for full in full_nodes(self._info, self._nodes):
            names = self._names(full.nodes)
            reports = []
            for name in names[:MOST_NAMES]:
                csi_node = self._objects.get(CSINode, name)
                assert csi_node is not None, name
                limit = limits_of(csi_node)[full.driver]
                row = self._snapshot.columns.row_of[name]
                left = full.left[self._nodes.positions(np.array([row]))[0]]
                reports.append(f"{name}: {limit - left} of at most {limit}")
            yield Demand(
                f"volumes of {full.driver}",
                f"the pod needs {full.number}",
                f"attached to {', '.join(reports)}",
                names,
                driver=full.driver,
            )

    def _disk_demands(self, volume: Volume) -> Iterator[Demand]:
        template = PodInfo(self._with_one_volume(volume)).template
        disks, uses = template.disks, set(template.conflicting_disks)
        marked = nodes_in_conflict(template.conflicting_disks, self._nodes)
        if marked is None:
            return
        users = sorted(
            f"{pod.key} on {self._nodes.name(position)}"
            for position in np.flatnonzero(marked).tolist()
            if (node := self._nodes.info(position)) is not None
            for pod in node.pods.values()
            if not uses.isdisjoint(pod.template.disks)
        )
        state = "named by the pod, " + ("only to read" if disks[0].read_only else "to write")
        yield Demand(_disk(disks[0]), state, f"{_user_words(users)} already", self._names(marked))


def _why_not(delayed: DelayedClaim, volume: PersistentVolume) -> str:
    """Returns why volumes of the class are not available to a claim, in words after a number."""
    assert delayed.request is not None
    reference = volume.spec.claim_ref
    if reference is not None:
        claim = f"{reference.namespace}/{reference.name}"
        mine = delayed.claim.metadata
        if (reference.namespace, reference.name) != (mine.namespace, mine.name):
            return f"reserved for {claim}"
        if reference.uid not in ("", mine.uid):
            return "reserved for an earlier claim of this name"
        return delayed.request.mismatch(volume) or "reserved for the claim"
    return delayed.request.mismatch(volume) or f"in phase {volume.status.phase or 'Pending'}"


def _provisioning(storage_class: StorageClass) -> str:
    """Returns in words where new volumes of a class can be made; "" for everywhere."""
    name = storage_class.metadata.name
    if not can_provision(storage_class):
        return f"class {name} has no provisioner"
    topologies = storage_class.allowed_topologies
    text = f"{storage_class.provisioner} makes volumes of class {name}"
    return f"{text} only {topology_words(topologies)}" if topologies else ""


def _disk(disk: Disk) -> str:
    kind, *identity = disk.identity
    return f"{_DISKS[kind]} {'/'.join(identity[1:] if kind == 'rbd' else identity)}"


def _user_words(users: Sequence[str]) -> str:
    if not users:
        return "another pod uses it"
    return f"pod {users[0]} uses it" if len(users) == 1 else f"pods {listed(users)} use it"

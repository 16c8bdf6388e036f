"""VolumeBinding finds for all nodes at once what a plain search finds node by node, whatever nodes,
volumes, claims, classes and capacities come, change and go, and whatever is assumed.

The reference follows kube-scheduler: loops over everything, and nothing is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import (
    AssumeObject,
    CacheMessage,
    NodeAdded,
    NodeDeleted,
    ObjectPut,
    ObjectRemoved,
    RestoreObject,
)
from berth.actors.scheduling.kube.core import NodeSelector, NodeSelectorRequirement
from berth.actors.scheduling.kube.csi_translation import TranslationError, translated_affinity
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.kube.meta import HasMetadata, LabelSelector, ObjectReference
from berth.actors.scheduling.kube.quantity import nano_value, value
from berth.actors.scheduling.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from berth.actors.scheduling.plugins.volume_binding.pod_volumes import (
    FAILED,
    REASONS,
    ClaimProblem,
    PodVolumes,
    VolumeError,
    VolumeIndexes,
    claims_of,
)
from berth.plugin import Node, Snapshot
from tests.kit.examples import examples
from tests.kit.storage import as_pod, claim, node, of_claim, pod, thing, volume

NODES, VOLUMES, CLAIMS = 4, 6, 4
# The claims of the pods that are decided about.
PODS = ((0,), (1,), (2,), (3,), (0, 0), (0, 1), (0, 1, 2), (3, 2))
CLASSES = ("static", "topology", "room", "now", "odd")
SELECTED = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
ZONE = "topology.kubernetes.io/zone"
NODE_CONFLICT, NO_MATCH, NO_ROOM, NO_VOLUME = REASONS.values()

# ------------------------------------------------------------------------------ the plain reference


def meets(labels: Mapping[str, str], requirement: NodeSelectorRequirement) -> bool | None:
    """Returns whether the labels meet the requirement; None if it is not valid."""
    have = labels.get(requirement.key)
    match requirement.operator:
        case "In" | "NotIn" if requirement.values:
            return (have in requirement.values) == (requirement.operator == "In")
        case "Exists" | "DoesNotExist" if not requirement.values:
            return (have is not None) == (requirement.operator == "Exists")
        case "Gt" | "Lt" if len(requirement.values) == 1 and requirement.values[0].isdigit():
            if have is None or not have.isdigit():
                return False
            bound = int(requirement.values[0])
            return int(have) > bound if requirement.operator == "Gt" else int(have) < bound
    return None


def usable(selector: NodeSelector | None, labels: Mapping[str, str]) -> bool:
    """True if the labels meet the selector. Requirements on fields only have to be valid."""
    if selector is None:
        return True
    for term in selector.node_selector_terms:
        if not term.match_expressions and not term.match_fields:
            continue
        if any(f.operator not in ("In", "NotIn") or len(f.values) != 1 for f in term.match_fields):
            continue
        if all(meets(labels, requirement) for requirement in term.match_expressions):
            return True
    return False


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Raises ValueError if the selector is not valid."""
    if selector is None:
        return True
    for expression in selector.match_expressions:
        if expression.operator not in ("In", "Exists"):
            raise ValueError(expression.operator)
    return all(labels.get(k) == v for k, v in selector.match_labels.items()) and all(
        expression.key in labels
        and (expression.operator == "Exists" or labels[expression.key] in expression.values)
        for expression in selector.match_expressions
    )


def class_name(item: PersistentVolume | PersistentVolumeClaim) -> str:
    return item.metadata.annotations.get(BETA_CLASS) or item.spec.storage_class_name or ""


class Failed(Exception):  # noqa: N818 - what a test expects
    """The attempt fails."""


class Reference:
    def __init__(self, objects: Sequence[HasMetadata]) -> None:
        self.objects = objects

    def all(self, kind: type[Any]) -> list[Any]:
        items = [item for item in self.objects if type(item) is kind]
        return sorted(items, key=lambda item: (item.metadata.namespace, item.metadata.name))

    def get(self, kind: type[Any], name: str) -> Any:
        return next((item for item in self.all(kind) if item.metadata.name == name), None)

    def sort_out(self, names: Sequence[str]) -> tuple[list[Any], list[Any]]:
        """Returns the bound claims and those that wait. Raises Failed."""
        claims = [self.get(PersistentVolumeClaim, name) for name in names]
        for name, pvc in zip(names, claims, strict=True):
            if pvc is None:
                raise Failed(f'persistentvolumeclaim "{name}" not found')
            if pvc.status.phase == "Lost":
                raise Failed(
                    f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume '
                    f'"{pvc.spec.volume_name}"'
                )
            if pvc.metadata.deletion_timestamp is not None:
                raise Failed(f'persistentvolumeclaim "{name}" is being deleted')
        bound, waiting, immediate = [], [], False
        for pvc in claims:
            completed = "pv.kubernetes.io/bind-completed" in pvc.metadata.annotations
            if pvc.spec.volume_name and completed:
                bound.append(pvc)
                continue
            storage_class = self.get(StorageClass, class_name(pvc))
            if storage_class is not None and storage_class.volume_binding_mode is None:
                raise Failed(f'VolumeBindingMode not set for StorageClass "{class_name(pvc)}"')
            delayed = (
                storage_class is not None
                and storage_class.volume_binding_mode == "WaitForFirstConsumer"
            )
            if delayed and not pvc.spec.volume_name:
                waiting.append(pvc)
            else:
                immediate = True
        if immediate:
            raise Failed("pod has unbound immediate PersistentVolumeClaims")
        return bound, waiting

    def find(
        self, bound: list[Any], waiting: list[Any], on: Node
    ) -> tuple[list[str], dict[str, list[str]]]:
        """Returns the reasons against a node; volumes and provisions. Raises Failed."""
        reasons = []
        here = self.check_bound(bound, on)
        if here == NODE_CONFLICT:
            reasons.append(here)
        unsatisfied, volumes = self.check_waiting(waiting, on)
        if unsatisfied:
            reasons.append(unsatisfied)
        if here == NO_VOLUME:
            reasons.append(here)
        return reasons, volumes

    def check_bound(self, bound: list[Any], on: Node) -> str:
        csi_node = self.get(CSINode, on.metadata.name)
        for pvc in bound:
            pv = self.get(PersistentVolume, pvc.spec.volume_name)
            if pv is None:
                return NO_VOLUME
            affinity = pv.spec.node_affinity
            selector = None if affinity is None else affinity.required
            plugins = "" if csi_node is None else csi_node.metadata.annotations.get(MIGRATED, "")
            if pv.spec.aws_elastic_block_store is not None and plugins:
                try:
                    selector = translated_affinity(pv)
                except TranslationError as problem:
                    raise Failed(f"could not translate pv: {problem}") from None
            if not usable(selector, on.metadata.labels):
                return NODE_CONFLICT
        return ""

    def check_waiting(self, waiting: list[Any], on: Node) -> tuple[str, dict[str, list[str]]]:
        provision, match = [], []
        for pvc in waiting:
            selected = pvc.metadata.annotations.get(SELECTED)
            if selected is None:
                match.append(pvc)
            elif selected != on.metadata.name:
                return NO_MATCH, {}
            else:
                provision.append(pvc)
        match.sort(key=lambda pvc: nano_value(pvc.spec.resources.requests.get("storage", 0)))
        chosen: list[str] = []
        volumes: dict[str, list[str]] = {"bindings": [], "provisions": []}
        for pvc in match:
            best = self.match(pvc, on, chosen)
            if best is None:
                provision.append(pvc)
            else:
                chosen.append(best)
                volumes["bindings"].append(f"{pvc.metadata.name}={best}")
        for pvc in provision:
            storage_class = self.get(StorageClass, class_name(pvc))
            if storage_class.provisioner in ("", "kubernetes.io/no-provisioner"):
                return NO_MATCH, {}
            terms = storage_class.allowed_topologies
            if terms and not any(
                term.match_label_expressions
                and all(
                    on.metadata.labels.get(requirement.key) in requirement.values
                    for requirement in term.match_label_expressions
                )
                for term in terms
            ):
                return NO_MATCH, {}
            enough, capacity = self.has_room(storage_class, pvc, on)
            if not enough:
                return NO_ROOM, {}
            volumes["provisions"].append(f"{pvc.metadata.name}={capacity}")
        return "", volumes

    def match(self, pvc: Any, on: Node, chosen: Sequence[str]) -> str | None:
        try:
            selects(pvc.spec.selector, {})
        except ValueError:
            raise Failed("error creating internal label selector for claim: ns/") from None
        size = nano_value(pvc.spec.resources.requests.get("storage", 0))
        smallest: tuple[int, str] | None = None
        for candidate in self.all(PersistentVolume):
            name, spec, reference = (
                candidate.metadata.name,
                candidate.spec,
                candidate.spec.claim_ref,
            )
            if class_name(candidate) != class_name(pvc) or name in chosen:
                continue
            is_its = reference is not None and (
                (reference.namespace, reference.name) == ("ns", pvc.metadata.name)
                and reference.uid in ("", pvc.metadata.uid)
            )
            if reference is not None and not is_its:
                continue
            capacity = nano_value(spec.capacity.get("storage", 0))
            if (
                capacity < size
                or (spec.volume_mode or "Filesystem") != (pvc.spec.volume_mode or "Filesystem")
                or (spec.volume_attributes_class_name or "")
                != (pvc.spec.volume_attributes_class_name or "")
                or candidate.metadata.deletion_timestamp is not None
            ):
                continue
            affinity = None if spec.node_affinity is None else spec.node_affinity.required
            allowed = usable(affinity, on.metadata.labels)
            if is_its:
                return name if allowed else None
            if (
                candidate.status.phase == "Available"
                and selects(pvc.spec.selector, candidate.metadata.labels)
                and allowed
                and set(pvc.spec.access_modes) <= set(spec.access_modes)
                and (smallest is None or (capacity, name) < smallest)
            ):
                smallest = capacity, name
        return None if smallest is None else smallest[1]

    def has_room(self, storage_class: StorageClass, pvc: Any, on: Node) -> tuple[bool, str]:
        size = pvc.spec.resources.requests.get("storage")
        driver = self.get(CSIDriver, storage_class.provisioner)
        if size is None or driver is None or not driver.spec.storage_capacity:
            return True, ""
        for capacity in self.all(CSIStorageCapacity):
            limit = capacity.maximum_volume_size
            limit = capacity.capacity if limit is None else limit
            if capacity.storage_class_name != storage_class.metadata.name or limit is None:
                continue
            if value(limit) < value(size) or capacity.node_topology is None:
                continue
            try:
                if selects(capacity.node_topology, on.metadata.labels):
                    return True, capacity.metadata.name
            except ValueError:
                continue
        return False, ""


# -------------------------------------------------------------------------------------- the objects


def expressions(*requirements: tuple[str, str, list[str]]) -> list[dict[str, Any]]:
    return [{"key": k, "operator": o, "values": v} for k, o, v in requirements]


REQUIREMENTS = [
    ("host", "In", ["n0"]),
    ("host", "In", ["n1"]),
    ("host", "In", ["n1", "n2"]),
    ("host", "NotIn", ["n1"]),
    ("host", "NotIn", []),
    ("zone", "In", ["a"]),
    ("zone", "In", ["b"]),
    ("zone", "Exists", []),
    ("zone", "Exists", ["a"]),
    ("zone", "DoesNotExist", []),
    ("rank", "Gt", ["2"]),
    ("rank", "Lt", ["x"]),
    ("zone", "Near", ["a"]),
]
FIELDS = [
    ("metadata.name", "In", ["n0"]),
    ("metadata.name", "In", ["nobody"]),
    ("metadata.name", "NotIn", ["n0"]),
    ("metadata.name", "In", ["n0", "n1"]),
    ("metadata.name", "Exists", []),
]
few = st.lists(st.sampled_from(REQUIREMENTS), max_size=2)
TERMS = st.builds(
    lambda labels, fields: {
        "matchExpressions": expressions(*labels),
        "matchFields": expressions(*fields),
    },
    few,
    st.sampled_from([(), (), (), *((field,) for field in FIELDS)]),
)
LOCAL = st.sampled_from(
    [[{"matchExpressions": expressions(("host", "In", [f"n{i}"]))}] for i in range(NODES)]
)
AFFINITY = st.one_of(st.none(), LOCAL, LOCAL, st.lists(TERMS, max_size=2))
SIZES = st.sampled_from([*["1Gi", "1073741824", "2Gi", "3Gi"] * 3, "1500m", "9E", "10E", None])
ONCE = ["ReadWriteOnce"]
MODES = st.sampled_from([ONCE, ONCE, ONCE, [*ONCE, "ReadOnlyMany"], []])
SELECTOR = st.sampled_from(
    [
        *[None] * 12,
        {},
        {"matchLabels": {"kind": "a"}},
        {"matchExpressions": [{"key": "kind", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "kind", "operator": "Odd"}]},
    ]
)
TOPOLOGY = st.sampled_from(
    [
        None,
        {},
        {"matchLabels": {"zone": "a"}},
        {"matchLabels": {"zone": "b"}},
        {"matchLabels": {"host": "n1"}},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "Odd"}]},
    ]
)
ALLOWED = st.sampled_from(
    [
        [],
        [{}],
        [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
        [{"matchLabelExpressions": [{"key": "zone", "values": []}]}],
        [{}, {"matchLabelExpressions": [{"key": "host", "values": ["n0", "n1"]}]}],
        [
            {
                "matchLabelExpressions": [
                    {"key": "zone", "values": ["b"]},
                    {"key": "host", "values": ["n2", "n3"]},
                ]
            }
        ],
    ]
)


def without_none(**fields: Any) -> dict[str, Any]:
    return {name: part for name, part in fields.items() if part is not None}


class History(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cache = CacheState()
        self.indexes = VolumeIndexes()
        self.stored: dict[tuple[type[Any], str], HasMetadata] = {}
        self.assumed: dict[tuple[type[Any], str], HasMetadata] = {}
        self.version = 0

    @initialize()
    def begin(self) -> None:
        for name in CLASSES:
            self.put_class(name, "WaitForFirstConsumer", [], "none")
        for number in range(3):
            self.put_node(number, "ab"[number % 2], "1")
            here = [{"matchExpressions": expressions(("host", "In", [f"n{number}"]))}]
            self.put_volume(number, "static", here, "2Gi", ONCE, "", "Available")
            self.claim_anew(number)
        self.claim_anew(3)
        self.put_volume(5, "static", None, "2Gi", ONCE, "c3", "Bound", "disk")
        self.put_class("room", "WaitForFirstConsumer", [], "driver")
        self.put_driver(True)
        self.put_capacity(0, "room", {"matchLabels": {"zone": "a"}}, "2Gi", None)

    def claim_anew(self, number: int) -> None:
        """Puts a claim: 0 and 1 of static volumes, 2 of a new one, 3 bound to a disk."""
        of, bound = ("room" if number == 2 else "static"), ("v5" if number == 3 else "")
        self.put_claim(number, of, "1Gi", ONCE, None, bound)

    def tell(self, message: CacheMessage) -> None:
        self.cache.handle(message)

    def put(self, document: dict[str, Any]) -> None:
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        item = decode(document)
        assert item is not None
        self.stored[type(item), item.metadata.name] = item
        self.assumed.pop((type(item), item.metadata.name), None)
        self.tell(NodeAdded(item) if isinstance(item, Node) else ObjectPut(item))

    def drop(self, kind: type[Any], name: str) -> None:
        item = self.stored.pop((kind, name), None)
        self.assumed.pop((kind, name), None)
        if item is not None:
            self.tell(NodeDeleted(item) if isinstance(item, Node) else ObjectRemoved(item))

    # ------------------------------------------------------------------------------------- changes

    @rule(
        number=st.integers(0, NODES - 1),
        zone=st.sampled_from([None, "a", "b"]),
        rank=st.sampled_from([None, "1", "3", "x"]),
    )
    def put_node(self, number: int, zone: str | None, rank: str | None) -> None:
        self.put(node(f"n{number}", **without_none(host=f"n{number}", zone=zone, rank=rank)))

    @rule(number=st.integers(0, NODES - 1))
    def drop_node(self, number: int) -> None:
        self.drop(Node, f"n{number}")

    @rule(
        number=st.integers(0, VOLUMES - 1),
        of=st.sampled_from([*CLASSES, "", "beta", *["static"] * 12]),
        terms=AFFINITY,
        size=SIZES,
        modes=MODES,
        taken=st.sampled_from([*[""] * 6, "c0", "c0/c0", "c1", "c0/other"]),
        phase=st.sampled_from([*["Available"] * 8, "Released", ""]),
        odd=st.sampled_from([*[""] * 8, "block", "gold", "deleted", "labelled", "disk", "bad"]),
    )
    def put_volume(
        self,
        number: int,
        of: str,
        terms: list[Any] | None,
        size: str | None,
        modes: list[str],
        taken: str,
        phase: str,
        odd: str = "",
    ) -> None:
        name, _, uid = taken.partition("/")
        document = volume(
            f"v{number}",
            {"kind": "a", ZONE: "a"} if odd in ("labelled", "disk") else {},
            storageClassName=of,
            capacity=without_none(storage=size),
            accessModes=modes,
            **without_none(
                nodeAffinity=None if terms is None else {"required": {"nodeSelectorTerms": terms}},
                claimRef={"namespace": "ns", "name": name, "uid": uid} if name else None,
                volumeMode="Block" if odd == "block" else None,
                volumeAttributesClassName="gold" if odd == "gold" else None,
                awsElasticBlockStore={"volumeID": "aws://" if odd == "bad" else "vol-1"}
                if odd in ("disk", "bad")
                else None,
            ),
        )
        document["status"] = {"phase": phase}
        if of == "beta":
            document["metadata"]["annotations"] = {BETA_CLASS: "static"}
        if odd == "deleted":
            document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.put(document)

    @rule(number=st.integers(0, VOLUMES - 1))
    def drop_volume(self, number: int) -> None:
        self.drop(PersistentVolume, f"v{number}")

    @rule(
        number=st.integers(0, CLAIMS - 1),
        of=st.sampled_from([*CLASSES, "missing", None, *["static"] * 12, *["room"] * 4]),
        size=SIZES,
        modes=MODES,
        selector=SELECTOR,
        bound=st.sampled_from([*[""] * 12, "v0", "v1", "v2", "v5", "half"]),
        odd=st.sampled_from([*[""] * 12, "n0", "n1", "block", "gold", "lost", "deleted"]),
    )
    def put_claim(
        self,
        number: int,
        of: str | None,
        size: str | None,
        modes: list[str],
        selector: dict[str, Any] | None,
        bound: str,
        odd: str = "",
    ) -> None:
        annotations = {SELECTED: odd} if odd.startswith("n") else {}
        if bound.startswith("v"):
            annotations["pv.kubernetes.io/bind-completed"] = "yes"
        document = claim(
            f"c{number}",
            bound,
            annotations=annotations,
            accessModes=modes,
            resources={"requests": without_none(storage=size)},
            **without_none(
                storageClassName=of,
                selector=selector,
                volumeMode="Block" if odd == "block" else None,
                volumeAttributesClassName="gold" if odd == "gold" else None,
            ),
        )
        document["status"] = {"phase": "Lost" if odd == "lost" else ""}
        if odd == "deleted":
            document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.put(document)

    @rule(number=st.integers(0, CLAIMS - 1))
    def drop_claim(self, number: int) -> None:
        self.drop(PersistentVolumeClaim, f"c{number}")
        self.decide([number], None)
        self.claim_anew(number)

    @rule(
        name=st.sampled_from(CLASSES),
        mode=st.sampled_from([*["WaitForFirstConsumer"] * 12, "Immediate", None]),
        topologies=ALLOWED,
        provisioner=st.sampled_from(["none", "", "driver", "other"]),
    )
    def put_class(
        self, name: str, mode: str | None, topologies: list[Any], provisioner: str
    ) -> None:
        named = "kubernetes.io/no-provisioner" if provisioner == "none" else provisioner
        parts = without_none(volumeBindingMode=mode)
        self.put(
            thing("StorageClass", name, provisioner=named, allowedTopologies=topologies, **parts)
        )

    @rule(name=st.sampled_from(CLASSES))
    def drop_class(self, name: str) -> None:
        self.drop(StorageClass, name)
        self.decide([0, 1, 2], None)
        self.put_class(name, "WaitForFirstConsumer", [], "driver")

    @rule(limited=st.sampled_from([None, True, True, False]))
    def put_driver(self, limited: bool | None) -> None:
        self.put(thing("CSIDriver", "driver", spec=without_none(storageCapacity=limited)))

    @rule(
        number=st.integers(0, 2),
        of=st.sampled_from(["static", "room", "room"]),
        topology=TOPOLOGY,
        capacity=SIZES,
        most=st.sampled_from([None, None, "1Gi", "10E"]),
    )
    def put_capacity(
        self,
        number: int,
        of: str,
        topology: dict[str, Any] | None,
        capacity: str | None,
        most: str | None,
    ) -> None:
        parts = without_none(nodeTopology=topology, capacity=capacity, maximumVolumeSize=most)
        self.put(thing("CSIStorageCapacity", f"room{number}", storageClassName=of, **parts))

    @rule(number=st.integers(0, 2))
    def drop_capacity(self, number: int) -> None:
        self.drop(CSIStorageCapacity, f"room{number}")

    @rule(number=st.integers(0, NODES - 1), plugins=st.sampled_from(["", "kubernetes.io/aws-ebs"]))
    def put_csi_node(self, number: int, plugins: str) -> None:
        self.put(thing("CSINode", f"n{number}", annotations={MIGRATED: plugins}))

    # ------------------------------------------------------------------------------------ assuming

    def now(self) -> list[HasMetadata]:
        """Returns the objects as the next decision must see them."""
        return [self.assumed.get(key, item) for key, item in self.stored.items()]

    @rule(number=st.integers(0, VOLUMES - 1), of=st.integers(0, CLAIMS - 1))
    def assume_volume(self, number: int, of: int) -> None:
        pv = Reference(self.now()).get(PersistentVolume, f"v{number}")
        if pv is not None:
            reference = msgspec.convert(
                {"namespace": "ns", "name": f"c{of}", "uid": f"c{of}"},
                ObjectReference,
            )
            spec = msgspec.structs.replace(pv.spec, claim_ref=reference)
            self.assume(msgspec.structs.replace(pv, spec=spec))

    @rule(number=st.integers(0, CLAIMS - 1), on=st.integers(0, NODES - 1))
    def assume_claim(self, number: int, on: int) -> None:
        pvc = Reference(self.now()).get(PersistentVolumeClaim, f"c{number}")
        if pvc is not None:
            annotations = {**pvc.metadata.annotations, SELECTED: f"n{on}"}
            metadata = msgspec.structs.replace(pvc.metadata, annotations=annotations)
            self.assume(msgspec.structs.replace(pvc, metadata=metadata))

    def assume(self, item: HasMetadata) -> None:
        key = type(item), item.metadata.name
        if item == self.stored[key]:
            self.assumed.pop(key, None)  # The API server's own version is no assumption.
        else:
            self.assumed[key] = item
        self.tell(AssumeObject(item))

    @precondition(lambda self: self.assumed)
    @rule(choice=st.integers(0, 100))
    def restore(self, choice: int) -> None:
        key = list(self.assumed)[choice % len(self.assumed)]
        self.tell(RestoreObject(self.assumed.pop(key)))

    # ------------------------------------------------------------------------------------ decisions

    @rule(
        names=st.lists(st.integers(0, CLAIMS - 1), min_size=1, max_size=3),
        only=st.lists(st.integers(0, NODES - 1), unique=True),
    )
    def decide_on_some(self, names: list[int], only: list[int]) -> None:
        self.decide(names, only)

    @rule(
        names=st.lists(st.integers(0, CLAIMS - 1), min_size=1, max_size=3),
        parts=st.integers(0, 6),
    )
    def prepare_in_part(self, names: list[int], parts: int) -> None:
        """An attempt that has no steps left for the rest."""
        subject = as_pod(pod("p", *(of_claim(f"c{number}") for number in names)))
        for _ in islice(self.indexes.follow(subject, self.cache.snapshot()), parts):
            pass

    @invariant()
    def decide_on_all(self) -> None:
        if self.version % 3:  # several changes may come between two decisions
            for names in PODS:
                self.decide(names, None)

    def decide(self, names: Sequence[int], only: list[int] | None) -> None:
        snapshot, claims = self.cache.snapshot(), [f"c{number}" for number in names]
        reference = Reference(self.now())
        subject = as_pod(pod("p", *map(of_claim, claims)))
        try:
            bound, waiting = reference.sort_out(claims)
        except Failed as failed:
            message = f"^{re.escape(str(failed))}$"
            with pytest.raises((ClaimProblem, VolumeError), match=message):
                claims_of(subject, snapshot.objects)
            return
        claims_of_pod = claims_of(subject, snapshot.objects)
        assert claims_of_pod is not None
        volumes = PodVolumes(claims_of_pod, snapshot, self.indexes)
        self.compare(volumes, snapshot, reference, (bound, waiting), only)

    def compare(
        self,
        volumes: PodVolumes,
        snapshot: Snapshot,
        reference: Reference,
        claims: tuple[list[Any], list[Any]],
        only: list[int] | None,
    ) -> None:
        if only is None:
            nodes = snapshot.all()
        else:
            rows = [snapshot.columns.row_of.get(f"n{number}") for number in only]
            nodes = snapshot.rows(
                np.array([row for row in rows if row is not None], dtype=np.int64)
            )
        keys = volumes.conflicts(nodes)
        for position in range(nodes.size):
            on = nodes.node(position)
            if on is None:
                continue
            key = 0 if keys is None else int(keys[position])
            try:
                reasons, expected = reference.find(*claims, on)
                problem = ""
            except Failed as failed:
                problem = str(failed)
            assert bool(key & FAILED) == bool(problem)
            if problem:
                assert volumes.failure.startswith(problem)
                continue
            assert [reason for bit, reason in REASONS.items() if key & bit] == reasons
            if not reasons:
                result = volumes.on(on.metadata.name)
                assert {
                    "bindings": [
                        f"{c.metadata.name}={v.metadata.name}" for v, c in result.bindings
                    ],
                    "provisions": [
                        f"{p.claim.metadata.name}={p.capacity.metadata.name if p.capacity else ''}"
                        for p in result.provisions
                    ],
                } == expected

    @invariant()
    def nothing_leaks(self) -> None:
        self.cache.validate()
        objects = self.cache.snapshot().objects
        assert {(type(item), item.metadata.name) for item in objects.assumed()} == {*self.assumed}
        for (kind, name), item in self.stored.items():
            if kind is not Node:
                namespace = item.metadata.namespace
                assert objects.get(kind, name, namespace) is self.assumed.get((kind, name), item)


@pytest.mark.parametrize("earlier", [None, 1], ids=["first", "after another"])
def test_the_api_servers_own_version_is_no_assumption(earlier: int | None) -> None:
    history = History()
    history.begin()
    history.put_claim(0, "static", "1Gi", ONCE, None, "", "n0")
    history.put_volume(0, "static", None, "2Gi", ONCE, "c0/c0", "Available")
    if earlier is not None:
        history.assume_claim(0, earlier)
        history.assume_volume(0, earlier)
        history.nothing_leaks()
    history.assume_claim(0, 0)
    history.assume_volume(0, 0)
    assert not history.assumed
    history.nothing_leaks()


TestVolumes = History.TestCase
TestVolumes.settings = examples(steps=40)

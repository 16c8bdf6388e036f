"""VolumeZone: keeps a pod in the zones and regions that the labels of its bound volumes name.

Nodes without a zone or region label are not restricted. Each label is matched against a label
column, for all nodes of the view at once. Mirrors kube-scheduler's plugin of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from berth.plugin import (
    SKIP,
    SUCCESS,
    Action,
    Bools,
    ClusterEvent,
    Code,
    CycleState,
    DependsOn,
    FilterPlugin,
    Hint,
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
    StateKey,
    Status,
    StorageClass,
    Verdicts,
    unresolvable,
)

from ..kube.claims import class_of, named_claims, not_found
from ..kube.csi_translation import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from ..kube.storage import WAIT_FOR_FIRST_CONSUMER
from ..model.cluster_objects import ClusterObjects
from ..model.node_selection import select_rows
from ..model.vectors import any_true

REASON = "node(s) had no available volume zone"
# The topology labels in the order of kube-scheduler, each with the label that replaced it.
LABELS = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}


class Topology(msgspec.Struct, frozen=True):
    """A label that nodes must have with one of the values, because a volume has it."""

    label: str
    values: frozenset[str]


_TOPOLOGIES: StateKey[Sequence[Topology]] = StateKey("PreFilterVolumeZone")


class VolumeZone(PreFilterPlugin, FilterPlugin):
    name = "VolumeZone"
    depends_on = DependsOn.CLAIMS
    only_own_values = True
    lookups = (PersistentVolumeClaim, PersistentVolume, StorageClass)

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        if not info.template.names_claims:
            return SKIP
        topologies = _topologies_for(info.pod, snapshot.objects)
        if isinstance(topologies, Status):
            return topologies
        if not topologies:
            return SKIP
        state.write(_TOPOLOGIES, topologies)
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        if not info.pod.spec.volumes:
            return None
        topologies = state.get(_TOPOLOGIES)
        if topologies is None:  # PreFilter is disabled.
            answer = _topologies_for(info.pod, nodes.snapshot.objects)
            if isinstance(answer, Status):
                everywhere = np.ones(nodes.size, dtype=np.bool_)
                return Verdicts.rejecting(everywhere, answer.code, *answer.reasons)
            topologies = answer
        rejected = nodes_outside(topologies, nodes)
        return (
            Verdicts.rejecting(rejected, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)
            if any_true(rejected)
            else None
        )

    def events_to_register(self) -> Sequence[Registration]:
        def claim_changed(pod: Pod, _old: object | None, new: object | None) -> Hint:
            assert isinstance(new, PersistentVolumeClaim)
            mine = new.metadata.namespace == pod.metadata.namespace
            return Hint.QUEUE if mine and new.metadata.name in named_claims(pod) else Hint.SKIP

        def class_added(_pod: Pod, _old: object | None, new: object | None) -> Hint:
            assert isinstance(new, StorageClass)
            waits = new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
            return Hint.QUEUE if waits else Hint.SKIP

        def volume_changed(_pod: Pod, old: object | None, new: object | None) -> Hint:
            assert isinstance(new, PersistentVolume)
            if not isinstance(old, PersistentVolume):
                return Hint.QUEUE
            return Hint.QUEUE if topologies_of(old) != topologies_of(new) else Hint.SKIP

        changed = Action.ADD | Action.UPDATE
        return (
            Registration(ClusterEvent(Resource.STORAGE_CLASS, Action.ADD), class_added),
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            Registration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, changed), claim_changed),
            Registration(ClusterEvent(Resource.PERSISTENT_VOLUME, changed), volume_changed),
        )


def _topologies_for(pod: Pod, objects: ClusterObjects) -> list[Topology] | Status:
    """Returns the topologies of the pod's volumes, or the status that rejects the pod."""
    topologies: list[Topology] = []
    for name in named_claims(pod):
        if not name:
            return unresolvable("PersistentVolumeClaim had no name")
        claim = objects.get(PersistentVolumeClaim, name, pod.metadata.namespace)
        if claim is None:
            return unresolvable(not_found("persistentvolumeclaim", name))
        if not claim.spec.volume_name:
            problem = _why_unbound(claim, objects)
            if problem:
                return unresolvable(problem)
            continue
        volume = objects.get(PersistentVolume, claim.spec.volume_name)
        if volume is None:
            return unresolvable(not_found("persistentvolume", claim.spec.volume_name))
        topologies += topologies_of(volume)
    return topologies


def _why_unbound(claim: PersistentVolumeClaim, objects: ClusterObjects) -> str:
    """Returns why an unbound claim makes its pod wait; "" if it will be bound together with its
    pod.
    """
    name = class_of(claim)
    if not name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = objects.get(StorageClass, name)
    if storage_class is None:
        return not_found("storageclass.storage.k8s.io", name)
    if storage_class.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{name}"'
    waits = storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return "" if waits else "PersistentVolume had no name"


def topologies_of(volume: PersistentVolume) -> list[Topology]:
    """Returns the topologies of the volume's labels. Labels with an empty part are left out."""
    labels = volume.metadata.labels
    named = (
        (label, [part.strip() for part in labels[label].split(ZONE_DELIMITER)])
        for label in LABELS
        if label in labels
    )
    return [Topology(label, frozenset(values)) for label, values in named if all(values)]


def nodes_outside(topologies: Sequence[Topology], nodes: NodeView) -> Bools:
    """Returns bool[nodes.size]: the nodes with topology labels that do not match all topologies."""
    matched = np.ones(nodes.size, dtype=np.bool_)
    for topology in dict.fromkeys(topologies):
        values = sorted(topology.values)
        matches = select_rows(nodes, topology.label, "In", values)
        newer = LABELS[topology.label]
        if newer != topology.label:
            lacks = select_rows(nodes, topology.label, "DoesNotExist", ())
            matches |= lacks & select_rows(nodes, newer, "In", values)
        matched &= matches
    rejected = ~matched
    if any_true(rejected):
        labelled = np.zeros(nodes.size, dtype=np.bool_)
        for label in LABELS:
            labelled |= select_rows(nodes, label, "Exists", ())
        rejected &= labelled
    return rejected

"""VolumeRestrictions: rejects pods that cannot share a disk on a node, or a claim anywhere.

Two pods on one node cannot share a GCE or iSCSI disk or an RBD image unless both only read it, and
no EBS volume at all. A claim with the access mode ReadWriteOncePod is for one pod of the cluster.
Both are decided by counts (see berth.actors.scheduling.model.pod_counts). Mirrors kube-scheduler's
plugin of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    Verdicts,
    unresolvable,
)

from ..kube.claims import named_claims, not_found
from ..kube.storage import READ_WRITE_ONCE_POD
from ..model.pod_counts import PodCounts
from ..model.pod_info import LatestPodInfos
from ..model.pod_template import Disk
from ..model.vectors import any_true

REASON_DISK = "node(s) had no available disk"
REASON_CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)
# The number of conflicting uses of the pod's ReadWriteOncePod claims.
_CONFLICTS: StateKey[int] = StateKey(
    "PreFilterVolumeRestrictions", 'cannot read "PreFilterVolumeRestrictions" from cycleState'
)
_DISK, _CLAIM = 1, 2


class VolumeRestrictions(PreFilterPlugin, FilterPlugin):
    name = "VolumeRestrictions"
    depends_on = DependsOn.CLUSTER
    only_own_values = True
    lookups = (PersistentVolumeClaim,)

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        if not info.pod.spec.volumes:
            return SKIP
        conflicts = 0
        if info.template.names_claims:
            answer = exclusive_claims(info.pod, snapshot)
            if isinstance(answer, Status):
                return answer
            if answer:
                namespace = info.pod.metadata.namespace
                conflicts = conflicting_uses(answer, namespace, snapshot.columns.counts)
        if not conflicts and not _is_checked(info.pod):
            return SKIP
        state.write(_CONFLICTS, conflicts)
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        conflicts = state.read(_CONFLICTS)
        on_disks = nodes_in_conflict(info.template.conflicting_disks, nodes)
        if conflicts <= 0:
            return (
                None
                if on_disks is None
                else Verdicts.rejecting(on_disks, Code.UNSCHEDULABLE, REASON_DISK)
            )
        keys = np.full(nodes.size, _CLAIM, dtype=np.int64)
        if on_disks is not None:
            keys[on_disks] = _DISK
        codes = np.full(nodes.size, Code.UNSCHEDULABLE, dtype=np.int8)
        return Verdicts(codes, keys, lambda key: (REASON_DISK if key == _DISK else REASON_CLAIM,))

    def events_to_register(self) -> Sequence[Registration]:
        infos = LatestPodInfos()

        def pod_deleted(pod: Pod, old: object | None, _new: object | None) -> Hint:
            assert isinstance(old, Pod)
            if old.metadata.namespace != pod.metadata.namespace:
                return Hint.SKIP
            mine, theirs = infos.of(pod), infos.of(old)
            held = set(theirs.template.disks)
            if held and not held.isdisjoint(mine.template.conflicting_disks):
                return Hint.QUEUE
            claims = theirs.claims
            shared = claims and not set(mine.claims).isdisjoint(claims)
            return Hint.QUEUE if shared else Hint.SKIP

        def claim_added(pod: Pod, _old: object | None, new: object | None) -> Hint:
            assert isinstance(new, PersistentVolumeClaim)
            added = f"{new.metadata.namespace}/{new.metadata.name}"
            return Hint.QUEUE if added in infos.of(pod).claims else Hint.SKIP

        claims = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
        return (
            Registration(ClusterEvent(Resource.POD, Action.DELETE), pod_deleted),
            Registration(ClusterEvent(Resource.NODE, Action.ADD)),
            Registration(claims, claim_added),
        )


def _is_checked(pod: Pod) -> bool:
    """True if the pod names a disk of a kind that has restrictions."""
    return any(
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.rbd is not None
        or volume.iscsi is not None
        for volume in pod.spec.volumes
    )


def nodes_in_conflict(uses: Sequence[Disk], nodes: NodeView) -> Bools | None:
    """Returns bool[nodes.size]: the nodes with a pod that uses a disk in one of these ways; None if
    there is none.
    """
    counts = nodes.columns.counts
    if not uses or not counts.disks:
        return None
    rows = set().union(*filter(None, map(counts.disks.get, uses)))
    if not rows:
        return None
    marks = np.zeros(len(nodes.columns.pods), dtype=np.bool_)
    marks[list(rows)] = True
    in_conflict = marks[nodes.rows]
    return in_conflict if any_true(in_conflict) else None


def exclusive_claims(pod: Pod, snapshot: Snapshot) -> set[str] | Status:
    """Returns the pod's ReadWriteOncePod claims by name, or the status of a rejection."""
    namespace = pod.metadata.namespace
    names = set()
    for name in named_claims(pod):
        claim = snapshot.objects.get(PersistentVolumeClaim, name, namespace)
        if claim is None:
            return unresolvable(not_found("persistentvolumeclaim", name))
        if READ_WRITE_ONCE_POD in claim.spec.access_modes:
            names.add(name)
    return names


def conflicting_uses(names: set[str], namespace: str, counts: PodCounts) -> int:
    """Returns the number of conflicting uses of claims.

    Each claim that pods on nodes name counts as 1. The volumes of the pods that a what-if question
    added are added, and those of the pods that it removed are subtracted. kube-scheduler finds the
    added and removed pods by the claim's name alone, whatever the namespace.
    """
    uses = sum(f"{namespace}/{name}" in counts.claims for name in names)
    for info, number in counts.supposed.items():
        uses += number * sum(name in names for name in named_claims(info.pod))
    return uses

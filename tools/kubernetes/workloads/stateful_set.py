"""The StatefulSet controller: numbered pods, each with its claims, created and deleted in order.

Claims stay when their pods go, unless the retention policy lets the garbage collector delete them.
For this, the claim gets an owner: the set, or the pod that is scaled away.

A pod below the partition is created from the template of the current revision.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.storage import PersistentVolumeClaim

from ..objects.documents import documents_of, labels_in, pod_from, reference_to
from ..objects.properties import (
    controller_of,
    deleting,
    is_finished,
    is_ready,
    phase_of,
    replicas_of,
    seconds_to_available,
)
from ..objects.structs import Document, StatefulSet
from ..objects.writes import (
    Create,
    Delete,
    Notice,
    Write,
    count_available,
    delete,
    patch,
    status_writes,
)
from .adoption import claim
from .revisions import HASH, History, delete_old_revisions, empty_history

Claims = Mapping[str, PersistentVolumeClaim]  # by name
POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
_NAME = re.compile(r"(.*)-([0-9]+)", re.ASCII)
_MOST_INT32 = 2**31 - 1


def reconcile(
    owner: StatefulSet,
    candidates: Iterable[Pod],
    claims: Iterable[PersistentVolumeClaim],
    now: datetime,
    history: History | None = None,
) -> list[Write]:
    """Returns the writes for the pods, the claims and the status. `claims` are the
    PersistentVolumeClaims of the namespace.

    Without a history, the owner is treated as if it had no revisions.
    """
    history = history or empty_history(owner)
    mine, writes = claim(owner, (pod for pod in candidates if _is_member(owner, pod)))
    pods = {ordinal: pod for pod in mine if (ordinal := ordinal_of(owner, pod)) is not None}
    if not deleting(owner):
        named = {each.metadata.name: each for each in claims}
        writes += _set_claim_owners(owner, pods, named) or _step(owner, pods, named, history, now)
        writes += delete_old_revisions(owner, history, mine)
    return writes + _status(owner, list(pods.values()), now, history)


def _is_member(owner: StatefulSet, pod: Pod) -> bool:
    """True for a pod with a name of the set's pods. A set adopts no others, whatever it selects."""
    name = _NAME.fullmatch(pod.metadata.name)
    return name is not None and name[1] == owner.metadata.name


def ordinal_of(owner: StatefulSet, pod: Pod) -> int | None:
    """Returns the ordinal of a pod; None if it is no member, or its number exceeds 32 bits."""
    name = _NAME.fullmatch(pod.metadata.name)
    if name is None or name[1] != owner.metadata.name or len(name[2]) > len(str(_MOST_INT32)):
        return None
    ordinal = int(name[2])
    return ordinal if ordinal <= _MOST_INT32 else None


def makes_claim(owner: StatefulSet, name: str) -> bool:
    """True if a claim of this name belongs to a pod of the set."""
    prefix, _, number = name.rpartition("-")
    return number.isdigit() and any(
        prefix == f"{_name(template)}-{owner.metadata.name}"
        for template in owner.spec.volume_claim_templates
    )


def _name(template: Document) -> str:
    return str((template.get("metadata") or {}).get("name") or "")


def _ordinals(owner: StatefulSet) -> range:
    start = owner.spec.ordinals.start
    return range(start, start + replicas_of(owner))


def _is_available(owner: StatefulSet, pod: Pod, now: datetime) -> bool:
    seconds = seconds_to_available(pod, owner.spec.min_ready_seconds, now)
    return not deleting(pod) and not is_finished(pod) and seconds is not None and seconds <= 0


def _set_claim_owners(owner: StatefulSet, pods: dict[int, Pod], claims: Claims) -> list[Write]:
    """Sets the owners of the claims of existing pods, before a pod is deleted by scaling."""
    policy = owner.spec.persistent_volume_claim_retention_policy
    writes: list[Write] = []
    for ordinal, pod in pods.items():
        goes_with: Pod | StatefulSet | None = None
        if ordinal not in _ordinals(owner) and policy.when_scaled == "Delete":
            goes_with = pod
        elif policy.when_deleted == "Delete":
            goes_with = owner
        for template in owner.spec.volume_claim_templates:
            existing = claims.get(f"{_name(template)}-{pod.metadata.name}")
            if existing is not None and not deleting(existing):
                writes += _with_owner(existing, goes_with, (owner, pod))
    return writes


def _with_owner(
    existing: PersistentVolumeClaim, owner: HasMetadata | None, mine: Sequence[HasMetadata]
) -> list[Write]:
    """Makes `owner`, one of `mine`, an owner of the claim, or none of them. A claim that another
    object controls is left alone.
    """
    uids = {each.metadata.uid for each in mine}
    controller, owners = controller_of(existing), existing.metadata.owner_references
    if controller is not None and controller.uid not in uids:
        return []
    have = {reference.uid for reference in owners} & uids
    if have == ({owner.metadata.uid} if owner is not None else set()):
        return []
    references = documents_of(reference for reference in owners if reference.uid not in uids)
    if owner is not None:
        references.append(reference_to(owner))
    return [patch(existing, {"metadata": {"ownerReferences": references}}, guarded=True)]


def _step(
    owner: StatefulSet, pods: dict[int, Pod], claims: Claims, history: History, now: datetime
) -> list[Write]:
    """Creates and replaces pods from the lowest ordinal up, deletes them from the highest down,
    then updates. Each step waits for the one before, unless pods are managed in parallel.
    """
    in_order = owner.spec.pod_management_policy != "Parallel"
    ordinals = _ordinals(owner)
    writes: list[Write] = []
    for ordinal in ordinals:
        pod = pods.get(ordinal)
        if pod is None:
            writes += pod_creation(owner, ordinal, claims, history)
        elif phase_of(pod) == "Pending" and not deleting(pod):
            writes += _claims(owner, pod.metadata.name, claims)
        elif is_finished(pod) and not deleting(pod):
            writes.append(_deletion(owner, pod))
        elif _is_available(owner, pod, now) or not in_order:
            writes += _restore_identity(pod, ordinal)
            continue
        if in_order:
            return writes
    surplus = sorted((ordinal for ordinal in pods if ordinal not in ordinals), reverse=True)
    unavailable = [each for each in surplus if not _is_available(owner, pods[each], now)]
    for ordinal in surplus:
        if in_order and ordinal in unavailable[:-1]:  # It waits for a lower one.
            return writes
        if not deleting(pods[ordinal]):
            writes.append(_deletion(owner, pods[ordinal]))
        if in_order:
            return writes
    return writes + _update(owner, pods, history.name, now)


def _restore_identity(pod: Pod, ordinal: int) -> list[Write]:
    """Restores the labels that identify a pod, which an adopted pod may lack."""
    labels = _identity_labels(pod.metadata.name, ordinal)
    if pod.metadata.labels.get(POD_NAME) == labels[POD_NAME]:
        return []
    return [patch(pod, {"metadata": {"labels": labels}}, guarded=True)]


def _identity_labels(name: str, ordinal: int) -> dict[str, str]:
    return {POD_NAME: name, POD_INDEX: str(ordinal)}


def _update(owner: StatefulSet, pods: dict[int, Pod], revision: str, now: datetime) -> list[Write]:
    """Deletes the highest pod of an old revision once those above it are available."""
    strategy = owner.spec.update_strategy
    if strategy.type == "OnDelete":
        return []
    for ordinal in reversed(_ordinals(owner)[strategy.rolling_update.partition :]):
        pod = pods.get(ordinal)
        if pod is None:
            return []
        if pod.metadata.labels.get(HASH) != revision and not deleting(pod):
            return [_deletion(owner, pod)]
        if not _is_available(owner, pod, now):
            return []
    return []


def _claims(owner: StatefulSet, pod: str, claims: Claims) -> list[Write]:
    """Creates the claims of a pod that do not exist."""
    policy = owner.spec.persistent_volume_claim_retention_policy
    selected = owner.spec.selector.match_labels if owner.spec.selector else {}
    writes: list[Write] = []
    for template in owner.spec.volume_claim_templates:
        name = f"{_name(template)}-{pod}"
        if name in claims:
            continue
        metadata = {
            **(template.get("metadata") or {}),
            "name": name,
            "namespace": owner.metadata.namespace,
            "labels": {**labels_in(template), **selected},
        }
        if policy.when_deleted == "Delete":
            metadata["ownerReferences"] = [reference_to(owner)]
        document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
        message = f"Create Claim {name} Pod {pod} in StatefulSet {owner.metadata.name} success"
        notices = (Notice("SuccessfulCreate", message),)
        claim_ = {**document, "spec": template.get("spec") or {}}
        writes.append(Create("PersistentVolumeClaim", claim_, notices))
    return writes


def pod_creation(
    owner: StatefulSet, ordinal: int, claims: Claims, history: History | None = None
) -> list[Write]:
    """Creates the claims of a pod, and then the pod. The pod waits while its claim is being
    deleted.
    """
    name = f"{owner.metadata.name}-{ordinal}"
    template, revision = _template_for(owner, ordinal, history or empty_history(owner))
    labels = {HASH: revision, **_identity_labels(name, ordinal)}
    spec = msgspec.structs.replace(owner.spec, template=template)
    pod = pod_from(msgspec.structs.replace(owner, spec=spec), name, labels)
    volumes: list[Document] = []
    for template in owner.spec.volume_claim_templates:
        of_template = f"{_name(template)}-{name}"
        if of_template in claims and deleting(claims[of_template]):
            return []
        volumes.append(
            {"name": _name(template), "persistentVolumeClaim": {"claimName": of_template}}
        )
    claimed = {volume["name"] for volume in volumes}
    volumes += [
        volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in claimed
    ]
    pod["spec"] = {**pod["spec"], "hostname": name, "volumes": volumes}
    if owner.spec.service_name:
        pod["spec"]["subdomain"] = owner.spec.service_name
    return [*_claims(owner, name, claims), Create("Pod", pod, (_notice(owner, "Create"),))]


def _notice(owner: StatefulSet, verb: str) -> Notice:
    message = f"{verb} Pod {{name}} in StatefulSet {owner.metadata.name} successful"
    return Notice(f"Successful{verb}", message)


def _deletion(owner: StatefulSet, pod: Pod) -> Delete:
    return delete(pod, notices=(_notice(owner, "Delete"),))


def _template_for(owner: StatefulSet, ordinal: int, history: History) -> tuple[Document, str]:
    """Returns the template of a new pod, and the name of its revision."""
    strategy, start = owner.spec.update_strategy, owner.spec.ordinals.start
    current = owner.status.current_revision
    before = history.template_of(current)
    if (
        before is not None
        and strategy.type != "OnDelete"
        and ordinal < start + strategy.rolling_update.partition
    ):
        return before, current
    return owner.spec.template, history.name


def _status(owner: StatefulSet, pods: list[Pod], now: datetime, history: History) -> list[Write]:
    revision = history.name
    available, again = count_available(pods, owner.spec.min_ready_seconds, now)
    ready = sum(map(is_ready, pods))
    updated = _count_of_revision(pods, revision)
    current = owner.status.current_revision or revision
    if owner.spec.update_strategy.type != "OnDelete" and (
        updated == len(pods) == replicas_of(owner) == ready
    ):
        current = revision
    status = {
        "observedGeneration": owner.metadata.generation,
        "replicas": len(pods),
        "readyReplicas": ready,
        "availableReplicas": available,
        "currentReplicas": _count_of_revision(pods, current),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": revision,
        "collisionCount": history.collisions,
    }
    return status_writes(owner, status) + again


def _count_of_revision(pods: list[Pod], revision: str) -> int:
    return sum(pod.metadata.labels.get(HASH) == revision and not deleting(pod) for pod in pods)

"""The StatefulSet controller: numbered pods, each with its claims, created and deleted in order.

Claims are kept when their pods go, unless the retention policy lets the garbage collector delete
them: it does so through an owner, which is the set, or the pod that is scaled away.

There are no ControllerRevisions here: a pod is always created from the current template, even below
the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from .claim import claim
from .documents import (
    Document,
    controller_of,
    deleting,
    is_ready,
    labels_of,
    name_of,
    namespace_of,
    owners_of,
    phase_of,
    pod_from,
    reference_to,
    replicas_of,
    status_of,
    template_hash,
    uid_of,
)
from .writes import Create, Write, count_available, delete, patch, status_writes

REVISION = "controller-revision-hash"


def reconcile(
    owner: Document, candidates: Iterable[Document], claims: Iterable[Document], now: datetime
) -> list[Write]:
    """`claims` are the PersistentVolumeClaims of the namespace."""
    found, writes = claim(owner, candidates)
    pods = {ordinal: pod for pod in found if (ordinal := ordinal_of(owner, pod)) is not None}
    if not deleting(owner):
        named = {name_of(document): document for document in claims}
        writes += _retention(owner, pods, named) or _step(owner, pods, named)
    return writes + _status(owner, list(pods.values()), now)


def ordinal_of(owner: Document, pod: Document) -> int | None:
    prefix, _, number = name_of(pod).rpartition("-")
    return int(number) if prefix == name_of(owner) and number.isdigit() else None


def makes_claim(owner: Document, name: str) -> bool:
    """True if a claim of this name belongs to a replica of the set."""
    prefix, _, number = name.rpartition("-")
    templates = owner["spec"].get("volumeClaimTemplates") or ()
    return number.isdigit() and any(
        prefix == f"{name_of(template)}-{name_of(owner)}" for template in templates
    )


def update_revision(owner: Document) -> str:
    return f"{name_of(owner)}-{template_hash(owner['spec']['template'])}"


def _ordinals(owner: Document) -> range:
    start = (owner["spec"].get("ordinals") or {}).get("start") or 0
    return range(start, start + replicas_of(owner))


def _healthy(pod: Document) -> bool:
    return not deleting(pod) and phase_of(pod) == "Running" and is_ready(pod)


def _retention(
    owner: Document, pods: dict[int, Document], claims: Mapping[str, Document]
) -> list[Write]:
    """Sets the owners of the claims of existing pods, before a pod is scaled away."""
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    writes: list[Write] = []
    for ordinal, pod in pods.items():
        goes_with: Document | None = None
        if ordinal not in _ordinals(owner) and policy.get("whenScaled") == "Delete":
            goes_with = pod
        elif policy.get("whenDeleted") == "Delete":
            goes_with = owner
        for template in owner["spec"].get("volumeClaimTemplates") or ():
            found = claims.get(f"{name_of(template)}-{name_of(pod)}")
            if found is not None and not deleting(found):
                writes += _owned(found, goes_with, (owner, pod))
    return writes


def _owned(claim_: Document, wanted: Document | None, mine: Sequence[Document]) -> list[Write]:
    """Makes one of `mine`, or none, an owner of the claim; other controllers keep it."""
    uids = {uid_of(one) for one in mine}
    controller = controller_of(claim_)
    if controller is not None and controller["uid"] not in uids:
        return []
    kept = [reference for reference in owners_of(claim_) if reference["uid"] not in uids]
    have = {reference["uid"] for reference in owners_of(claim_)} & uids
    if have == ({uid_of(wanted)} if wanted is not None else set()):
        return []
    references = kept if wanted is None else [*kept, reference_to(wanted)]
    return [patch(claim_, {"metadata": {"ownerReferences": references}}, guarded=True)]


def _step(
    owner: Document, pods: dict[int, Document], claims: Mapping[str, Document]
) -> list[Write]:
    """Adds and replaces pods from the lowest, removes from the highest, then updates."""
    in_order = owner["spec"].get("podManagementPolicy") != "Parallel"
    wanted = _ordinals(owner)
    writes: list[Write] = []
    for ordinal in wanted:
        pod = pods.get(ordinal)
        if pod is None:
            writes += _create(owner, ordinal, claims)
        elif phase_of(pod) == "Pending" and not deleting(pod):
            writes += _claims(owner, name_of(pod), claims)
        elif phase_of(pod) in ("Succeeded", "Failed") and not deleting(pod):
            writes.append(delete(pod))
        elif _healthy(pod):
            continue
        if in_order:
            return writes
    condemned = sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True)
    for ordinal in condemned:
        if not deleting(pods[ordinal]):
            writes.append(delete(pods[ordinal]))
        if in_order:
            return writes
    return writes if writes or condemned else _update(owner, pods)


def _update(owner: Document, pods: dict[int, Document]) -> list[Write]:
    """Deletes the highest pod of an old revision once those above it are healthy."""
    strategy = owner["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    revision = update_revision(owner)
    for ordinal in reversed(_ordinals(owner)):
        if ordinal < partition or not _healthy(pods[ordinal]):
            return []
        if labels_of(pods[ordinal]).get(REVISION) != revision:
            return [delete(pods[ordinal])]
    return []


def _claims(owner: Document, pod: str, claims: Mapping[str, Document]) -> list[Write]:
    """Creates the claims of a pod that do not exist."""
    spec = owner["spec"]
    policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    writes: list[Write] = []
    for template in spec.get("volumeClaimTemplates") or ():
        name = f"{name_of(template)}-{pod}"
        if name in claims:
            continue
        selected = (spec.get("selector") or {}).get("matchLabels") or {}
        metadata = {
            **template["metadata"],
            "name": name,
            "namespace": namespace_of(owner),
            "labels": {**labels_of(template), **selected},
        }
        if policy.get("whenDeleted") == "Delete":
            metadata["ownerReferences"] = [reference_to(owner)]
        document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
        writes.append(Create("PersistentVolumeClaim", {**document, "spec": template["spec"]}))
    return writes


def _create(owner: Document, ordinal: int, claims: Mapping[str, Document]) -> list[Write]:
    """The pod, and its claims; a pod whose claim is being deleted has to wait."""
    spec, name = owner["spec"], f"{name_of(owner)}-{ordinal}"
    labels = {
        REVISION: update_revision(owner),
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
    }
    pod = pod_from(owner, spec["template"], name, labels)
    volumes: list[Document] = []
    for template in spec.get("volumeClaimTemplates") or ():
        of_template = f"{name_of(template)}-{name}"
        if of_template in claims and deleting(claims[of_template]):
            return []
        volumes.append(
            {"name": name_of(template), "persistentVolumeClaim": {"claimName": of_template}}
        )
    claimed = {volume["name"] for volume in volumes}
    volumes += [
        volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in claimed
    ]
    pod["spec"] = {**pod["spec"], "hostname": name, "volumes": volumes}
    if spec.get("serviceName"):
        pod["spec"]["subdomain"] = spec["serviceName"]
    return [*_claims(owner, name, claims), Create("Pod", pod)]


def _status(owner: Document, pods: list[Document], now: datetime) -> list[Write]:
    before, revision = status_of(owner), update_revision(owner)
    available, again = count_available(pods, owner["spec"].get("minReadySeconds") or 0, now)
    ready = sum(map(is_ready, pods))
    updated = sum(labels_of(pod).get(REVISION) == revision and not deleting(pod) for pod in pods)
    current = before.get("currentRevision") or revision
    if updated == len(pods) == replicas_of(owner) == ready:
        current = revision
    status = {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "replicas": len(pods),
        "readyReplicas": ready,
        "availableReplicas": available,
        "currentReplicas": sum(
            labels_of(pod).get(REVISION) == current and not deleting(pod) for pod in pods
        ),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": revision,
        "collisionCount": 0,
    }
    return status_writes(owner, status) + again

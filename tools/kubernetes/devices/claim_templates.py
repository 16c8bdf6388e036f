"""Creates the claims of pods from templates, and reserves allocated claims for pods on a node.

Mirrors the part of Kubernetes' resource claim controller for pods. The scheduler reserves the
claims of the pods that it places; this controller, those of pods created with a node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from berth.actors.scheduling.kube.claims import controller_uid
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import ResourceClaim
from berth.actors.scheduling.kube.meta import key

from ..objects.documents import documents_of, reference_to, status_of
from ..objects.object_events import CLAIM_FAILED, CLAIM_REPORTER, event_about
from ..objects.properties import is_active
from ..objects.structs import Document, ResourceClaimTemplate
from ..objects.writes import Create, Patch, Write, status_writes
from .device_claims import POD_CLAIM, DeviceClaim, device_claims, entry_of, is_reserved

LONGEST_BASE = 57  # of a generated name, before a dash and five more characters
FindClaim = Callable[[str], ResourceClaim | None]
FindTemplate = Callable[[str], ResourceClaimTemplate | None]


class ClaimTemplates:
    """The missing templates that were reported, so that each is reported once."""

    def __init__(self) -> None:
        self._lacking: dict[str, set[str]] = {}

    def forget(self, pod: str) -> None:
        """Forgets a pod, by its namespace and name, that no longer exists."""
        self._lacking.pop(pod, None)

    def reconcile(
        self,
        pod: Pod,
        own: Sequence[ResourceClaim],
        claim: FindClaim,
        template: FindTemplate,
        now: datetime,
    ) -> list[Write]:
        """Decides on a pod. `own` are claims that it controls; the functions look up by name."""
        if not is_active(pod):
            return []
        writes: list[Write] = []
        names: dict[str, str] = {}
        for entry in device_claims(pod):
            if not entry.template or entry.claim is None or _exists(claim(entry.claim), pod):
                continue
            orphan = next((each for each in own if entry_of(each) == entry.name), None)
            if orphan is not None:
                names[entry.name] = orphan.metadata.name
                continue
            source = template(entry.template)
            if source is None:
                writes += self._report_missing_template(pod, entry, now)
            else:
                writes.append(Create("ResourceClaim", from_template(pod, entry, source)))
        if names:
            writes.append(_record_claim_names(pod, names))
        return writes + (_reservations(pod, claim) if pod.spec.node_name else [])

    def _report_missing_template(self, pod: Pod, entry: DeviceClaim, now: datetime) -> list[Write]:
        lacking = self._lacking.setdefault(key(pod), set())
        mark = f"{pod.metadata.uid}/{entry.template}"
        if mark in lacking:
            return []
        lacking.add(mark)
        message = (
            f'PodResourceClaim {entry.name}: resource claim template "{entry.template}": '
            f'resourceclaimtemplate.resource.k8s.io "{entry.template}" not found'
        )
        return [
            Create("Event", event_about(pod, "Warning", CLAIM_FAILED, message, CLAIM_REPORTER, now))
        ]


def _exists(claim: ResourceClaim | None, pod: Pod) -> bool:
    return claim is not None and controller_uid(claim) == pod.metadata.uid


def from_template(pod: Pod, entry: DeviceClaim, template: ResourceClaimTemplate) -> Document:
    """Returns the claim of a pod's entry, which gets a name from the server."""
    labels, annotations = template.spec.metadata.labels, template.spec.metadata.annotations
    metadata: Document = {
        "generateName": _name_base(pod.metadata.name, entry.name),
        "namespace": pod.metadata.namespace,
        "annotations": {**annotations, POD_CLAIM: entry.name},
        "ownerReferences": [{**reference_to(pod, controls=False), "controller": True}],
        **({"labels": labels} if labels else {}),
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": template.spec.spec,
    }


def _name_base(pod: str, entry: str) -> str:
    """Returns the start of a claim's name, made of two parts. If it is too long, both are shortened
    alike.
    """
    full = f"{pod}-{entry}-"
    if len(full) <= LONGEST_BASE:
        return full
    pod, entry = (part[: len(part) * LONGEST_BASE // len(full)] for part in (pod, entry))
    return f"{pod}-{entry}"


def _record_claim_names(pod: Pod, names: dict[str, str]) -> Write:
    """Records the names of generated claims in the pod's status, which only this controller does.

    Therefore the patch does not depend on the pod's version.
    """
    metadata, before = pod.metadata, pod.status.resource_claim_statuses
    entries = documents_of(entry for entry in before if entry.name not in names)
    entries += [{"name": name, "resourceClaimName": claim} for name, claim in names.items()]
    body = {"metadata": {"uid": metadata.uid}, "status": {"resourceClaimStatuses": entries}}
    return Patch("Pod", metadata.namespace, metadata.name, body, "status")


def _reservations(pod: Pod, find: FindClaim) -> list[Write]:
    writes: list[Write] = []
    for entry in device_claims(pod):
        claim = find(entry.claim) if entry.claim else None
        if claim is None or (entry.template and not _exists(claim, pod)):
            continue
        if claim.status.allocation is None or is_reserved(claim, pod):
            continue
        consumer = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
        reserved = [*documents_of(claim.status.reserved_for), consumer]
        writes += status_writes(claim, {**status_of(claim), "reservedFor": reserved})
    return writes

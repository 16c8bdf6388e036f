"""Makes the claims of pods from templates, and reserves allocated claims for pods on a node.

Mirrors what Kubernetes' resource claim controller does for pods. The scheduler reserves the claims
of the pods that it places; pods that were created with a node need it done here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from ..device_claims import (
    POD_CLAIM,
    DeviceClaim,
    allocation_of,
    device_claims,
    entry_of,
    is_made_for,
    is_reserved,
    key_of,
    reserved_for,
)
from ..documents import (
    Document,
    is_active,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    status_of,
    uid_of,
)
from ..events import Reporter, about_pod
from ..writes import Create, Patch, Write, status_writes

FAILED = "FailedResourceClaimCreation"
REPORTER = Reporter("resource_claim")
LONGEST_BASE = 57  # of a generated name, which gets a dash and five characters more
Find = Callable[[str], Document | None]


class ClaimTemplates:
    """Keeps the templates that each pod has been said to lack, so that it is said once."""

    def __init__(self) -> None:
        self._lacking: dict[str, set[str]] = {}

    def forget(self, pod: str) -> None:
        """Forgets a pod, by its namespace and name, that no longer exists."""
        self._lacking.pop(pod, None)

    def reconcile(
        self, pod: Document, own: Sequence[Document], claim: Find, template: Find, now: datetime
    ) -> list[Write]:
        """`own` are the claims that the pod controls; the two functions look up by name."""
        if not is_active(pod):
            return []
        writes: list[Write] = []
        made: dict[str, str] = {}
        for entry in device_claims(pod):
            if not entry.template or entry.claim is None or _exists(claim(entry.claim), pod):
                continue
            orphan = next((one for one in own if entry_of(one) == entry.name), None)
            if orphan is not None:
                made[entry.name] = name_of(orphan)
                continue
            found = template(entry.template)
            if found is None:
                writes += self._complain(pod, entry, now)
            else:
                writes.append(Create("ResourceClaim", _from_template(pod, entry, found)))
        if made:
            writes.append(_recorded(pod, made))
        return writes + (_reservations(pod, claim) if node_of(pod) else [])

    def _complain(self, pod: Document, entry: DeviceClaim, now: datetime) -> list[Write]:
        lacking = self._lacking.setdefault(key_of(pod), set())
        mark = f"{uid_of(pod)}/{entry.template}"
        if mark in lacking:
            return []
        lacking.add(mark)
        message = (
            f'PodResourceClaim {entry.name}: resource claim template "{entry.template}": '
            f'resourceclaimtemplate.resource.k8s.io "{entry.template}" not found'
        )
        about = namespace_of(pod), name_of(pod), uid_of(pod)
        return [Create("Event", about_pod(about, "Warning", FAILED, message, REPORTER, now))]


def _exists(claim: Document | None, pod: Document) -> bool:
    return claim is not None and is_made_for(claim, pod)


def _from_template(pod: Document, entry: DeviceClaim, template: Document) -> Document:
    given = spec_of(template).get("metadata") or {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
    metadata: Document = {
        "generateName": _base(name_of(pod), entry.name),
        "namespace": namespace_of(pod),
        "annotations": {**(given.get("annotations") or {}), POD_CLAIM: entry.name},
        "ownerReferences": [{**owner, "controller": True}],
        **({"labels": given["labels"]} if given.get("labels") else {}),
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec_of(template).get("spec") or {},
    }


def _base(pod: str, entry: str) -> str:
    """The start of a claim's name; both parts of a long one are shortened alike."""
    full = f"{pod}-{entry}-"
    if len(full) <= LONGEST_BASE:
        return full
    pod, entry = (part[: len(part) * LONGEST_BASE // len(full)] for part in (pod, entry))
    return f"{pod}-{entry}"


def _recorded(pod: Document, made: dict[str, str]) -> Write:
    """Records the names of generated claims in the pod's status, which only this controller does.

    So the patch does not depend on the pod's version.
    """
    before = status_of(pod).get("resourceClaimStatuses") or []
    entries = [entry for entry in before if entry.get("name") not in made]
    entries += [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
    body = {"metadata": {"uid": uid_of(pod)}, "status": {"resourceClaimStatuses": entries}}
    return Patch("Pod", namespace_of(pod), name_of(pod), body, "status")


def _reservations(pod: Document, find: Find) -> list[Write]:
    writes: list[Write] = []
    for entry in device_claims(pod):
        claim = find(entry.claim) if entry.claim else None
        if claim is None or (entry.template and not is_made_for(claim, pod)):
            continue
        if allocation_of(claim) is None or is_reserved(claim, pod):
            continue
        consumer = {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
        reserved = [*reserved_for(claim), consumer]
        writes += status_writes(claim, {**status_of(claim), "reservedFor": reserved})
    return writes

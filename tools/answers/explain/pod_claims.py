"""The claims that a controller would create for a pod from ResourceClaimTemplates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...kubernetes.api.types.resources import BY_KIND, Kind
from ...kubernetes.devices.claim_templates import from_template
from ...kubernetes.devices.device_claims import device_claims
from ...kubernetes.objects.structs import Pod, ResourceClaimTemplate, read
from .words import listed

Document = dict[str, Any]
TEMPLATES = BY_KIND["resource.k8s.io/v1", "ResourceClaimTemplate"]
CLAIMS = BY_KIND["resource.k8s.io/v1", "ResourceClaim"]
NEW = "new"
Find = Callable[[str, str, str], Document | None]  # an object by kind, name and namespace
Completed = Callable[[Kind, Document], Document]


def lacks_claims(pod: Document) -> bool:
    """True if claims of the pod have yet to be created from templates."""
    entries = (pod.get("spec") or {}).get("resourceClaims") or ()
    created = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    names = {of["name"] for of in created}
    return any(of.get("resourceClaimTemplateName") and of["name"] not in names for of in entries)


def without_template(pod: Document, find: Find) -> list[str]:
    """Names the missing ResourceClaimTemplates of a pod: a sentence without its subject, or
    none.
    """
    if not lacks_claims(pod):
        return []
    owner = read(pod, Pod)
    namespace = owner.metadata.namespace
    names = [of.template for of in device_claims(owner) if of.template and of.claim == ""]
    missing = {name for name in names if find(TEMPLATES.kind, name, namespace) is None}
    if not missing:
        return []
    plural = "s" * (len(missing) > 1)
    are = "are" if plural else "is"
    templates = f"ResourceClaimTemplate{plural} {listed(sorted(missing))}"
    within = f"not among the objects of the namespace {namespace} here"
    return [f"waits for a claim to be created from the {templates}, which {are} {within}"]


def with_claims(pod: Document, find: Find, completed: Completed) -> tuple[Document, list[Document]]:
    """Returns the pod, whose status names the claims that are created for it, and these claims.

    A claim whose template does not exist is not created. `completed` returns an object as an API
    server would store it.
    """
    if not lacks_claims(pod):
        return pod, []
    owner = read(pod, Pod)
    namespace = owner.metadata.namespace
    status = pod.get("status") or {}
    statuses = list(status.get("resourceClaimStatuses") or ())
    created = []
    for entry in device_claims(owner):
        template = find(TEMPLATES.kind, entry.template, namespace) if entry.template else None
        if template is None or entry.claim != "":
            continue
        claim = from_template(owner, entry, read(template, ResourceClaimTemplate))
        name = f"{claim['metadata']['generateName']}{NEW}"
        metadata = {**claim["metadata"], "name": name}
        created.append(completed(CLAIMS, {**claim, "metadata": metadata}))
        statuses.append({"name": entry.name, "resourceClaimName": name})
    return {**pod, "status": {**status, "resourceClaimStatuses": statuses}}, created

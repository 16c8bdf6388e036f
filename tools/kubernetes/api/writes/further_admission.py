"""Smaller admission plugins: those of storage and ingresses, and some that run on request only.

Mirrors DefaultIngressClass, TaintNodesByCondition, AlwaysPullImages, PodNodeSelector (without a
file of its own), ExtendedResourceToleration, PersistentVolumeClaimResize, DenyServiceExternalIPs,
LimitPodHardAntiAffinityTopology and OwnerReferencesPermissionEnforcement. Where a function returns
an object, it returns the one that it changed.
"""

from __future__ import annotations

from typing import Any

from berth.actors.scheduling.kube.annotations import BETA_CLASS
from berth.actors.scheduling.kube.quantity import nano_value

from ..access.rights import Act, authorize
from ..access.users import Requester
from ..store import Store
from ..types.api_documents import Document, RefusedError
from ..types.resources import BY_KIND, Kind
from .admission import NAMESPACES, STORAGE_CLASSES

INGRESSES = BY_KIND["networking.k8s.io/v1", "Ingress"]
INGRESS_CLASSES = BY_KIND["networking.k8s.io/v1", "IngressClass"]
_OLD_CLASS = "kubernetes.io/ingress.class"
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_NODE_SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
_HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NO_EXPANSION = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
    "must support resize"
)


def with_ingress_class(store: Store, ingress: Document) -> Document:
    """Gives an ingress without a class the newest default class, if there is one."""
    spec, metadata = ingress.get("spec") or {}, ingress["metadata"]
    if spec.get("ingressClassName") is not None or _OLD_CLASS in (
        metadata.get("annotations") or {}
    ):
        return ingress
    classes = (stored.document["metadata"] for stored in store.list(INGRESS_CLASSES))
    defaults = [c for c in classes if (c.get("annotations") or {}).get(_DEFAULT_CLASS) == "true"]
    defaults.sort(key=lambda each: str(each["name"]))
    newest = max(defaults, key=lambda each: str(each["creationTimestamp"]), default=None)
    if newest is None:
        return ingress
    return {**ingress, "spec": {**spec, "ingressClassName": newest["name"]}}


def with_not_ready_taint(node: Document) -> Document:
    """Gives a new node the taint that the node controller removes once the node is ready."""
    spec = node.get("spec") or {}
    taints = spec.get("taints") or ()
    if any({"key": t.get("key"), "effect": t.get("effect")} == _NOT_READY for t in taints):
        return node
    return {**node, "spec": {**spec, "taints": [*taints, _NOT_READY]}}


def with_images_pulled(pod: Document) -> Document:
    """Lets a pod pull its images at each start, so that it needs the right to them."""
    spec = dict(pod["spec"])
    for field in ("initContainers", "containers", "ephemeralContainers"):
        if spec.get(field):
            spec[field] = [{**each, "imagePullPolicy": "Always"} for each in spec[field]]
    if spec.get("volumes"):
        spec["volumes"] = [
            {**each, "image": {**each["image"], "pullPolicy": "Always"}}
            if "image" in each
            else each
            for each in spec["volumes"]
        ]
    return {**pod, "spec": spec}


def with_selector_of_namespace(store: Store, pod: Document) -> Document:
    """Adds the node selector in the annotation of a new pod's namespace. Raises RefusedError with
    403 if the pod selects something else.
    """
    namespace = store.find(NAMESPACES, "", pod["metadata"]["namespace"]) or {"metadata": {}}
    annotation = (namespace["metadata"].get("annotations") or {}).get(_NODE_SELECTOR, "")
    pairs = (part.partition("=") for part in annotation.split(",") if part.strip())
    selector = {key.strip(): value.strip() for key, _, value in pairs}
    if not selector:
        return pod
    own = pod["spec"].get("nodeSelector") or {}
    if any(own.get(key, value) != value for key, value in selector.items()):
        why = "pod node label selector conflicts with its namespace node label selector"
        raise _forbidden("pods", pod, why)
    return {**pod, "spec": {**pod["spec"], "nodeSelector": {**selector, **own}}}


def with_tolerated_resources(pod: Document) -> Document:
    """Lets a new pod tolerate the taints that are named like the extended resources it asks for."""
    spec = pod["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = {
        name
        for each in containers
        for name in (each.get("resources") or {}).get("requests") or ()
        if _is_extended(name)
    }
    added = [{"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in sorted(asked)]
    have = list(spec.get("tolerations") or ())
    new = [each for each in added if each not in have]
    return {**pod, "spec": {**spec, "tolerations": [*have, *new]}} if new else pod


def _is_extended(name: str) -> bool:
    domain, slash, _ = name.partition("/")
    is_native = not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return not is_native and not name.startswith("requests.")


def check_expansion(store: Store, claim: Document, before: Document) -> None:
    """Raises RefusedError with 403 if a claim grows that must not."""
    if _size(claim) <= _size(before):
        return
    if (before.get("status") or {}).get("phase") != "Bound":
        why = "Only bound persistent volume claims can be expanded"
        raise _forbidden("persistentvolumeclaims", claim, why)
    name = _class(claim)
    storage_class = store.find(STORAGE_CLASSES, "", name) if name == _class(before) else None
    if not (storage_class or {}).get("allowVolumeExpansion"):
        raise _forbidden("persistentvolumeclaims", claim, _NO_EXPANSION)


def _size(claim: Document) -> int:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return nano_value(requests.get("storage") or 0)


def _class(claim: Document) -> str:
    annotations: dict[str, str] = claim["metadata"].get("annotations") or {}
    return annotations.get(BETA_CLASS, claim["spec"].get("storageClassName") or "")


def check_external_addresses(service: Document, before: Document | None) -> None:
    """Raises RefusedError with 403 if a service gets a new external IP."""
    had = ((before or {}).get("spec") or {}).get("externalIPs") or ()
    if not {*((service.get("spec") or {}).get("externalIPs") or ())} <= {*had}:
        why = "Use of external IPs is denied by admission control"
        raise _forbidden("services", service, why)


def check_anti_affinity(pod: Document) -> None:
    """Raises RefusedError with 403 if a pod keeps others from more than its node."""
    affinity = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    for term in affinity.get(_REQUIRED) or ():
        key = term.get("topologyKey", "")
        if key != _HOSTNAME:
            why = (
                f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only "
                f"key {_HOSTNAME} is allowed"
            )
            raise _forbidden("pods", pod, why)


def check_owners(
    store: Store, user: Requester, kind: Kind, after: Document, before: Document | None
) -> None:
    """Raises RefusedError with 403 if the user may not change the owners of an object: who changes
    those of a stored object must be allowed to delete it, and who blocks the deletion of an owner
    must be allowed to set the owner's finalizers.
    """
    owners = after["metadata"].get("ownerReferences") or []
    had = [] if before is None else before["metadata"].get("ownerReferences") or []
    if owners == had:
        return
    namespace, name = after["metadata"].get("namespace", ""), after["metadata"].get("name", "")
    if before is not None:
        delete = Act("delete", kind.group, kind.plural, "", namespace, name)
        verdict = authorize(store, user, delete)
        if not verdict.allowed:
            why = "cannot set an ownerRef on a resource you can't delete: "
            raise _forbidden(kind.resource, after, f"{why}{verdict.reason}, <nil>")
    blocked = {owner.get("uid") for owner in had if owner.get("blockOwnerDeletion")}
    blocking = [
        owner
        for owner in owners
        if owner.get("blockOwnerDeletion") and owner.get("uid") not in blocked
    ]
    everything = Act("update", "*", "*", "finalizers", "", "*")
    if blocking and not authorize(store, user, everything).allowed:
        for owner in blocking:
            _check_blocked(store, user, kind, after, owner)


def _check_blocked(
    store: Store, user: Requester, kind: Kind, document: Document, owner: dict[str, Any]
) -> None:
    of_owner = store.catalog.named(owner.get("apiVersion", ""), owner.get("kind", ""))
    if of_owner is None:
        why = (
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for "
            f"APIVersion {owner.get('apiVersion')} Kind {owner.get('kind')}: no matches for kind "
            f'"{owner.get("kind")}" in version "{owner.get("apiVersion")}"'
        )
        raise _forbidden(kind.resource, document, why)
    namespace = document["metadata"].get("namespace", "") if of_owner.namespaced else ""
    act = Act(
        "update", of_owner.group, of_owner.plural, "finalizers", namespace, owner.get("name", "")
    )
    verdict = authorize(store, user, act)
    if not verdict.allowed:
        why = (
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set "
            f"finalizers on: {verdict.reason}, <nil>"
        )
        raise _forbidden(kind.resource, document, why)


def refuse_everything(kind: Kind, document: Document) -> None:
    """Raises RefusedError with 403: the plugin AlwaysDeny."""
    why = "admission control is denying all modifications"
    raise _forbidden(kind.resource, document, why)


def _forbidden(resource: str, document: Document, why: str) -> RefusedError:
    name = document["metadata"].get("name", "")
    plural, _, group = resource.partition(".")
    details = {"name": name, "group": group, "kind": plural}
    return RefusedError(
        403,
        "Forbidden",
        f'{resource} "{name}" is forbidden: {why}',
        {field: value for field, value in details.items() if value},
    )

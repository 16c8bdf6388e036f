"""NodeRestriction: a node writes its own Node, Lease and CSINode, and the status of its own pods,
and gets the tokens of its own pods.

Mirrors Kubernetes' admission plugin. Pods that a node creates are mirror pods of static ones.
"""

from __future__ import annotations

from typing import Any

from ..access.node_rights import CLAIMS, LEASES, PODS, SLICES, node_of
from ..access.users import Requester
from ..store import Store
from ..types.api_documents import Document, RefusedError
from ..types.resources import BY_KIND, Kind

NODES, LEASE = BY_KIND["v1", "Node"], BY_KIND["coordination.k8s.io/v1", "Lease"]
CSI_NODES = BY_KIND["storage.k8s.io/v1", "CSINode"]
ACCOUNTS = BY_KIND["v1", "ServiceAccount"]
RESTRICTED = (NODES, PODS, CLAIMS, LEASE, CSI_NODES, SLICES, ACCOUNTS)
_MIRROR = "kubernetes.io/config.mirror"
# A node chooses only labels of these domains and names, among those of Kubernetes.
_OWN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_OWN_LABELS = frozenset(
    (
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    )
)


def check_node_restriction(
    store: Store,
    user: Requester,
    operation: str,
    kind: Kind,
    place: tuple[str, str],
    after: Document | None,
    before: Document | None,
    subresource: str,
) -> None:
    """Raises RefusedError with 403 if a node may not write this. `place` is the namespace and the
    name.
    """
    node = node_of(user)
    if node is None or kind not in RESTRICTED:
        return
    if kind is PODS:
        why = _pod(store, node, operation, place, after, before, subresource)
    elif kind is CLAIMS:
        why = "" if subresource == "status" else "may only update PVC status"
    elif kind is ACCOUNTS:
        why = _token(store, user, node, place, after or {}) if subresource == "token" else ""
    elif kind is NODES:
        why = _node(node, place[1], after, before)
    elif kind is SLICES:
        mine = ((after or before or {}).get("spec") or {}).get("nodeName") == node
        why = (
            ""
            if mine
            else "can only create ResourceSlice with the same NodeName as the requesting node"
        )
    else:
        why = _named_like_node(node, kind, place)
    if why:
        details = {"name": place[1], "group": kind.group, "kind": kind.plural}
        message = f'{kind.resource} "{place[1]}" is forbidden: {why}'
        raise RefusedError(403, "Forbidden", message, {k: v for k, v in details.items() if v})


def _named_like_node(node: str, kind: Kind, place: tuple[str, str]) -> str:
    what = "lease" if kind is LEASE else "CSINode"
    if kind is LEASE and place[0] != LEASES:
        return ""
    if place[1] == node:
        return ""
    return f"can only access {what} with the same name as the requesting node"


def _node(node: str, name: str, after: Document | None, before: Document | None) -> str:
    if name != node:
        return f'node "{node}" is not allowed to modify node "{name}"'
    if after is None:
        return ""
    labels = after["metadata"].get("labels") or {}
    old = (before or {"metadata": {}})["metadata"].get("labels") or {}
    changed = {key for key in {*labels, *old} if labels.get(key) != old.get(key)}
    forbidden = ", ".join(sorted(key for key in changed if _is_forbidden(key)))
    if before is None:
        return (
            f'node "{node}" is not allowed to set the following labels: {forbidden}'
            if forbidden
            else ""
        )
    if _of(after, "taints") != _of(before, "taints"):
        return f'node "{node}" is not allowed to modify taints'
    if (after["metadata"].get("ownerReferences") or []) != (
        before["metadata"].get("ownerReferences") or []
    ):
        return f'node "{node}" is not allowed to modify ownerReferences'
    return f"is not allowed to modify labels: {forbidden}" if forbidden else ""


def _of(node: Document, field: str) -> list[Any]:
    return list((node.get("spec") or {}).get(field) or ())


def _is_forbidden(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    if not slash:
        return False
    if domain == "node-restriction.kubernetes.io" or domain.endswith(
        ".node-restriction.kubernetes.io"
    ):
        return True
    ours = any(domain == own or domain.endswith(f".{own}") for own in ("kubernetes.io", "k8s.io"))
    mine = any(domain == own or domain.endswith(f".{own}") for own in _OWN_DOMAINS)
    return ours and not mine and label not in _OWN_LABELS


def _pod(
    store: Store,
    node: str,
    operation: str,
    place: tuple[str, str],
    after: Document | None,
    before: Document | None,
    subresource: str,
) -> str:
    stored = before or store.find(PODS, *place) or {}
    mine = (stored.get("spec") or {}).get("nodeName") == node
    match operation, subresource:
        case "CREATE", "":
            return _mirror_pod(node, after or {})
        case "DELETE", "":
            return (
                ""
                if mine
                else f'node "{node}" can only delete pods with spec.nodeName set to itself'
            )
        case "UPDATE", "status":
            if mine and _labels(after) != _labels(before):
                return f'node "{node}" cannot update labels through pod status'
            if mine:
                return ""
            pods = "for pods with spec.nodeName set to itself"
            return f'node "{node}" can only update pod status {pods}'
        case "CREATE", "eviction":
            return (
                "" if mine else f"node {node} can only evict pods with spec.nodeName set to itself"
            )
        case _, "":
            return (
                f'unexpected operation "{operation}", node "{node}" can only create and delete '
                "mirror pods"
            )
        case _:
            return (
                f"unexpected pod subresource \"{subresource}\", only 'status' and 'eviction' are "
                "allowed"
            )


def _labels(document: Document | None) -> Document:
    return dict((document or {"metadata": {}})["metadata"].get("labels") or {})


def _token(
    store: Store, user: Requester, node: str, account: tuple[str, str], request: Document
) -> str:
    spec = request.get("spec") or {}
    reference = spec.get("boundObjectRef") or {}
    kind, name = (reference.get("apiVersion"), reference.get("kind")), reference.get("name")
    if kind != ("v1", "Pod") or not name:
        return "node requested token not bound to a pod"
    if not reference.get("uid"):
        return "node requested token with a pod binding without a uid"
    pod = store.get(PODS, account[0], name)
    if reference["uid"] != pod["metadata"]["uid"]:
        return (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in "
            "record. The object might have been deleted and then recreated"
        )
    if pod["spec"].get("nodeName") != node:
        return "node requested token bound to a pod scheduled on a different node"
    from .token_audiences import audience_problem  # few nodes ask for tokens

    return audience_problem(store, user, pod, account[1], spec.get("audiences") or ())


def _mirror_pod(node: str, pod: Document) -> str:
    metadata = pod.get("metadata") or {}
    if _MIRROR not in (metadata.get("annotations") or {}):
        return (
            f'pod does not have "{_MIRROR}" annotation, node "{node}" can only create mirror pods'
        )
    if pod["spec"].get("nodeName") != node:
        return f'node "{node}" can only create pods with spec.nodeName set to itself'
    owners = metadata.get("ownerReferences") or ()
    if len(owners) > 1:
        return f'node "{node}" can only create pods with a single owner reference set to itself'
    if not owners or (owners[0].get("kind"), owners[0].get("name")) != ("Node", node):
        return f'node "{node}" can only create pods with an owner reference set to itself'
    if not owners[0].get("controller"):
        return f'node "{node}" can only create pods with a controller owner reference set to itself'
    if owners[0].get("blockOwnerDeletion"):
        return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
    return ""

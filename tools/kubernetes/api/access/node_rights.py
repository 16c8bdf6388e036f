"""The rights of a node: what its kubelet needs for the pods that are bound to it.

Mirrors Kubernetes' node authorizer. A node reads the secrets, config maps, claims and volumes of
its own pods, asks for the tokens of their service accounts, and has its own Node, Lease and
CSINode. For other resources it has the rules of the role system:node; lists of pods and of slices
are not limited to those of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..store import Store
from ..types.api_documents import Document
from ..types.resources import BY_KIND, Kind
from .users import Requester

PODS, CLAIMS = BY_KIND["v1", "Pod"], BY_KIND["v1", "PersistentVolumeClaim"]
VOLUMES = BY_KIND["v1", "PersistentVolume"]
ATTACHMENTS = BY_KIND["storage.k8s.io/v1", "VolumeAttachment"]
SLICES = BY_KIND["resource.k8s.io/v1", "ResourceSlice"]
NODES, _PREFIX = "system:nodes", "system:node:"
LEASES = "kube-node-lease"
_READS, _WRITES = ("get", "list", "watch"), ("get", "create", "update", "patch", "delete")
_SECRETS = frozenset(("secret", "secretRef", "secretKeyRef", "nodePublishSecretRef"))
_MAPS = frozenset(("configMap", "configMapRef", "configMapKeyRef"))
Names = Iterator[str]
Check = Callable[[Store, str, "NodeAct"], str | None]


class NodeAct(NamedTuple):
    """What a node does to a resource."""

    verb: str
    subresource: str
    namespace: str
    name: str


def node_of(user: Requester) -> str | None:
    """Returns the name of the node that a user is, "" if it has no name; None for other users."""
    if NODES not in user.groups or not user.name.startswith(_PREFIX):
        return None
    return user.name.removeprefix(_PREFIX)


def node_refusal(store: Store, node: str, group: str, resource: str, act: NodeAct) -> str | None:
    """Returns why a node may not do something to a resource, "" if it may; None if the rules of the
    role system:node decide.
    """
    check = _CHECKS.get((group, resource))
    return None if check is None else check(store, node, act)


def _unless_get(act: NodeAct) -> str:
    if act.verb != "get":
        return "can only get individual resources of this type"
    return "cannot get subresource" if act.subresource else ""


def _said(node: str, act: NodeAct, *, related: bool) -> str:
    if not act.name:
        return "No Object name found"
    return "" if related else f"no relationship found between node '{node}' and this object"


def _related(store: Store, node: str, act: NodeAct, names: Callable[[Document], Names]) -> str:
    pods = _pods(store, node, act.namespace)
    return _said(node, act, related=any(act.name in names(pod) for pod in pods))


def _pods(store: Store, node: str, namespace: str) -> Iterator[Document]:
    for stored in store.list(PODS, namespace) if namespace else ():
        if stored.document["spec"].get("nodeName") == node:
            yield stored.document


def _is_on_node(store: Store, kind: Kind, node: str, act: NodeAct) -> bool:
    found = store.find(kind, act.namespace, act.name) or {}
    return (found.get("spec") or {}).get("nodeName") == node


def _of_contents(fields: frozenset[str]) -> Check:
    """Returns the check of a kind that pods name in these fields."""

    def check(store: Store, node: str, act: NodeAct) -> str:
        if act.verb not in _READS:
            return "can only read resources of this type"
        if act.subresource:
            return "cannot read subresource"
        if not act.namespace:
            return "can only read namespaced object of this type"
        return _related(store, node, act, _named(fields))

    return check


def _of_claim(store: Store, node: str, act: NodeAct) -> str:
    if act.subresource == "status":
        if act.verb not in ("update", "patch"):
            return "can only get/update/patch this type"
    elif why := _unless_get(act):
        return why
    return _related(store, node, act, _claims)


def _of_device_claim(store: Store, node: str, act: NodeAct) -> str:
    return _unless_get(act) or _related(store, node, act, _device_claims)


def _of_volume(store: Store, node: str, act: NodeAct) -> str:
    volume = store.find(VOLUMES, "", act.name) or {}
    claim = (volume.get("spec") or {}).get("claimRef") or {}
    pods = _pods(store, node, claim.get("namespace", ""))
    name = claim.get("name") or ""
    related = bool(name) and any(name in _claims(pod) for pod in pods)
    return _unless_get(act) or _said(node, act, related=related)


def _of_attachment(store: Store, node: str, act: NodeAct) -> str:
    related = _is_on_node(store, ATTACHMENTS, node, act)
    return _unless_get(act) or _said(node, act, related=related)


def _of_account(store: Store, node: str, act: NodeAct) -> str:
    if (act.verb, act.subresource) not in (("get", ""), ("create", "token")) or not act.name:
        return "can only create tokens for individual service accounts"
    return _related(store, node, act, _accounts)


def _of_lease(_: Store, node: str, act: NodeAct) -> str:
    if act.namespace != LEASES and act.verb in _WRITES:
        return f'can only access leases in the "{LEASES}" system namespace'
    return _own(node, act, "node lease")


def _of_csi_node(_: Store, node: str, act: NodeAct) -> str:
    return _own(node, act, "CSINode")


def _own(node: str, act: NodeAct, what: str) -> str:
    """Returns why a node may not access an object that is named like a node. Who creates one has no
    name yet; NodeRestriction reads it.
    """
    if act.verb not in _WRITES:
        return f"can only get, create, update, patch, or delete a {what}"
    if act.verb != "create" and act.name != node:
        return f"can only access {what} with the same name as the requesting node"
    return ""


def _of_slice(store: Store, node: str, act: NodeAct) -> str | None:
    if not act.name or act.verb == "create":
        return None
    return _said(node, act, related=_is_on_node(store, SLICES, node, act))


def _of_node(_: Store, node: str, act: NodeAct) -> str | None:
    if act.verb not in _READS or act.subresource or act.name == node:
        return None
    if not act.name:
        return f"node '{node}' cannot read all nodes, only its own Node object"
    return f"node '{node}' cannot read '{act.name}', only its own Node object"


def _of_pod(store: Store, node: str, act: NodeAct) -> str | None:
    if act.verb != "get" or act.subresource:
        return None
    return _said(node, act, related=_is_on_node(store, PODS, node, act))


def _named(fields: frozenset[str]) -> Callable[[Document], Names]:
    """Returns what reads the names that a pod has in these fields, wherever they are."""

    def names(pod: Document) -> Names:
        if fields is _SECRETS:
            yield from (each.get("name", "") for each in pod["spec"].get("imagePullSecrets") or ())
        yield from _found(pod["spec"], fields)

    return names


def _found(value: Any, fields: frozenset[str]) -> Names:
    if isinstance(value, Mapping):
        for key, part in value.items():
            if key in fields and isinstance(part, Mapping):
                yield part.get("name") or part.get("secretName") or ""
            else:
                yield from _found(part, fields)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _found(part, fields)


def _claims(pod: Document) -> Names:
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("ephemeral") is not None:
            yield f"{pod['metadata']['name']}-{volume['name']}"
        yield (volume.get("persistentVolumeClaim") or {}).get("claimName", "")


def _device_claims(pod: Document) -> Names:
    yield from (
        each.get("resourceClaimName", "") for each in pod["spec"].get("resourceClaims") or ()
    )
    status = pod.get("status") or {}
    yield from (
        each.get("resourceClaimName", "") for each in status.get("resourceClaimStatuses") or ()
    )


def _accounts(pod: Document) -> Names:
    yield pod["spec"].get("serviceAccountName", "")


_CHECKS: dict[tuple[str, str], Check] = {
    ("", "secrets"): _of_contents(_SECRETS),
    ("", "configmaps"): _of_contents(_MAPS),
    ("", "persistentvolumeclaims"): _of_claim,
    ("", "persistentvolumes"): _of_volume,
    ("", "serviceaccounts"): _of_account,
    ("", "nodes"): _of_node,
    ("", "pods"): _of_pod,
    ("coordination.k8s.io", "leases"): _of_lease,
    ("resource.k8s.io", "resourceclaims"): _of_device_claim,
    ("resource.k8s.io", "resourceslices"): _of_slice,
    ("storage.k8s.io", "csinodes"): _of_csi_node,
    ("storage.k8s.io", "volumeattachments"): _of_attachment,
}

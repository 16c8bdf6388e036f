"""The roles and bindings that every cluster starts with, as far as the server has their resources.

Users find the roles that they bind themselves (cluster-admin, admin, edit, view), what everybody
may do, and the rights of kube-scheduler.
"""

from __future__ import annotations

from ..types.api_documents import Document
from ..types.resources import Kind
from .rights import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from .users import AUTHENTICATED, MASTERS, UNAUTHENTICATED

_RBAC = "rbac.authorization.k8s.io"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_READ = "get list watch"
_WRITE = "create delete deletecollection patch update"
_INFO = "/healthz /livez /readyz /version /version/"


def _rule(verbs: str, groups: str, resources: str, names: str = "") -> Document:
    """Returns a rule; each text is a list of words. "core" is the group without a name."""
    rule: Document = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
    }
    return rule | {"resourceNames": names.split()} if names else rule


def _paths(verbs: str, urls: str) -> Document:
    return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}


_OWN_CORE = "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale"
_APPS = (
    "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets "
    "statefulsets/scale"
)
_CLAIMS = "resourceclaims resourceclaimtemplates"
_VIEW = (
    _rule(
        _READ,
        "core",
        f"{_OWN_CORE} bindings endpoints limitranges namespaces namespaces/status "
        "persistentvolumeclaims/status pods pods/log pods/status replicationcontrollers/status "
        "resourcequotas resourcequotas/status serviceaccounts services services/status",
    ),
    _rule(_READ, "core events.k8s.io", "events"),
    _rule(
        _READ,
        "apps",
        f"{_APPS} controllerrevisions daemonsets/status deployments/status replicasets/status "
        "statefulsets/status",
    ),
    _rule(_READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    _rule(_READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    _rule(_READ, "metrics.k8s.io", "nodes pods"),
    _rule(_READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    _rule(_READ, "resource.k8s.io", f"{_CLAIMS} resourceclaims/status"),
)
_EDIT = (
    _rule(_READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets"),
    _rule("impersonate", "core", "serviceaccounts"),
    _rule(
        _WRITE,
        "core",
        f"{_OWN_CORE} pods pods/attach pods/exec pods/portforward pods/proxy secrets "
        "serviceaccounts services",
    ),
    _rule("create", "core", "pods/eviction serviceaccounts/token"),
    _rule(_WRITE, "core events.k8s.io", "events"),
    _rule(_WRITE, "apps", _APPS),
    _rule(_WRITE, "autoscaling", "horizontalpodautoscalers"),
    _rule(_WRITE, "batch", "cronjobs jobs"),
    _rule(_WRITE, "policy", "poddisruptionbudgets"),
    _rule(f"{_READ} {_WRITE}", "coordination.k8s.io", "leases"),
    _rule(_WRITE, "resource.k8s.io", _CLAIMS),
)
_ADMIN = (
    _rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    _rule(f"{_READ} {_WRITE}", _RBAC, "rolebindings roles"),
)
_DELEGATED = (
    _rule("create", "authentication.k8s.io", "tokenreviews"),
    _rule("create", "authorization.k8s.io", "subjectaccessreviews"),
)
_KUBE_SCHEDULER = (
    _rule("create patch update", "core events.k8s.io", "events"),
    _rule("create", "coordination.k8s.io", "leases"),
    _rule(f"{_READ} update", "coordination.k8s.io", "leases", "kube-scheduler"),
    _rule(
        _READ,
        "core",
        "namespaces nodes persistentvolumeclaims persistentvolumes pods replicationcontrollers "
        "services",
    ),
    _rule("delete", "core", "pods"),
    _rule("create", "core", "bindings pods/binding"),
    _rule("patch update", "core", "pods/status"),
    _rule("update", "core", "pods/finalizers"),
    _rule(_READ, "apps", "replicasets statefulsets"),
    _rule(_READ, "policy", "poddisruptionbudgets"),
    *_DELEGATED,
    _rule(_READ, "storage.k8s.io", "csidrivers csinodes csistoragecapacities volumeattachments"),
    _rule(_READ, "resource.k8s.io", "deviceclasses devicetaintrules resourceslices"),
    _rule(
        f"{_READ} create delete patch update",
        "resource.k8s.io",
        "resourceclaims",
    ),
    _rule(f"{_READ} patch update", "resource.k8s.io", "resourceclaims/status"),
    _rule("patch update", "resource.k8s.io", "resourceclaims/binding"),
)
_CLUSTER_ROLES: dict[str, tuple[Document, ...]] = {
    "cluster-admin": (_rule("*", "*", "*"), _paths("*", "*")),
    "system:aggregate-to-view": _VIEW,
    "system:aggregate-to-edit": _EDIT,
    "system:aggregate-to-admin": _ADMIN,
    "system:auth-delegator": _DELEGATED,
    "system:basic-user": (
        _rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        _rule("create", "authentication.k8s.io", "selfsubjectreviews"),
    ),
    "system:discovery": (_paths("get", f"/api /api/* /apis /apis/* /openapi /openapi/* {_INFO}"),),
    "system:kube-scheduler": _KUBE_SCHEDULER,
    "system:public-info-viewer": (_paths("get", _INFO),),
    "system:volume-scheduler": (
        _rule(f"{_READ} patch update", "core", "persistentvolumeclaims persistentvolumes"),
        _rule(_READ, "storage.k8s.io", "storageclasses"),
    ),
}
_ROLES: dict[str, tuple[Document, ...]] = {
    "extension-apiserver-authentication-reader": (
        _rule(_READ, "core", "configmaps", "extension-apiserver-authentication"),
    ),
    "system::leader-locking-kube-scheduler": (
        _rule(f"{_READ} create update", "coordination.k8s.io", "leases"),
    ),
}


def _metadata(name: str, *aggregated: str) -> Document:
    labels = {f"{_RBAC}/aggregate-to-{role}": "true" for role in aggregated}
    return {"name": name, "labels": {**_LABELS, **labels}}


def _aggregating(name: str, *aggregated: str) -> Document:
    selector = {"matchLabels": {f"{_RBAC}/aggregate-to-{name}": "true"}}
    return {
        "metadata": _metadata(name, *aggregated),
        "aggregationRule": {"clusterRoleSelectors": [selector]},
    }


def _role(name: str, rules: tuple[Document, ...]) -> Document:
    target = name.removeprefix("system:aggregate-to-")
    metadata = _metadata(name, target) if target != name else _metadata(name)
    return {"metadata": metadata, "rules": list(rules)}


def _binding(name: str, kind: str, role: str, *subjects: str) -> Document:
    """Returns a binding to subjects such as "User x"."""
    return {
        "metadata": _metadata(name),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
        "subjects": [
            {"apiGroup": _RBAC, "kind": of_kind, "name": subject}
            for of_kind, subject in (text.split() for text in subjects)
        ],
    }


_EVERYBODY, _SCHEDULER = f"Group {AUTHENTICATED}", "User system:kube-scheduler"
_BOUND = {
    "cluster-admin": (f"Group {MASTERS}",),
    "system:basic-user": (_EVERYBODY,),
    "system:discovery": (_EVERYBODY,),
    "system:public-info-viewer": (_EVERYBODY, f"Group {UNAUTHENTICATED}"),
    "system:kube-scheduler": (_SCHEDULER,),
    "system:volume-scheduler": (_SCHEDULER,),
}

# The kind, the namespace and the document of each object.
FIRST_ROLES: tuple[tuple[Kind, str, Document], ...] = (
    *((CLUSTER_ROLES, "", _role(name, rules)) for name, rules in _CLUSTER_ROLES.items()),
    (CLUSTER_ROLES, "", _aggregating("view", "edit")),
    (CLUSTER_ROLES, "", _aggregating("edit", "admin")),
    (CLUSTER_ROLES, "", _aggregating("admin")),
    *(
        (CLUSTER_ROLE_BINDINGS, "", _binding(role, "ClusterRole", role, *subjects))
        for role, subjects in _BOUND.items()
    ),
    *((ROLES, "kube-system", _role(name, rules)) for name, rules in _ROLES.items()),
    *(
        (ROLE_BINDINGS, "kube-system", _binding(name, "Role", role, _SCHEDULER))
        for name, role in (
            (
                "system::extension-apiserver-authentication-reader",
                "extension-apiserver-authentication-reader",
            ),
            ("system::leader-locking-kube-scheduler", "system::leader-locking-kube-scheduler"),
        )
    ),
)

"""Rights: the rules that roles and their bindings give to a user (RBAC).

Mirrors Kubernetes' RBAC authorizer. The members of system:masters may do everything. Nodes have
rights of their own beside these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..rules.fields import printed_value
from ..store import Store
from ..types.api_documents import Document, RefusedError
from ..types.resources import BY_KIND, Kind
from .node_rights import NodeAct, node_of, node_refusal
from .users import ANONYMOUS, MASTERS, Requester, account_name

MOST_REMEMBERED = 4096  # users and namespaces
_GROUP = "rbac.authorization.k8s.io"
ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS = (
    BY_KIND[f"{_GROUP}/v1", kind]
    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
)


class Act(msgspec.Struct, frozen=True):
    """An action of a user on a resource or, if there is a `path`, on a path that is no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None

    @property
    def whole_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Verdict(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str = ""


class Grant(msgspec.Struct, frozen=True):
    """The rules that a binding gives to a user; if it gives none, `problem` is the reason."""

    source: str
    rules: Sequence[Document]
    problem: str = ""


def may_all(store: Store, user: Requester) -> bool:
    """True for users who may do everything. While the server is not secure, system:anonymous is
    among them, because users without credentials count as the administrator.
    """
    return MASTERS in user.groups or (user.name == ANONYMOUS and not store.secure)


def authorize(store: Store, user: Requester, act: Act) -> Verdict:
    if may_all(store, user):
        return Verdict(allowed=True)
    node = node_of(user)
    of_node = Verdict(allowed=False) if node is None else _as_node(store, node, act)
    if of_node.allowed:
        return of_node
    problems = []
    for grant in grants(store, user, act.namespace):
        if any(_allows(rule, act) for rule in grant.rules):
            return Verdict(allowed=True, reason=f"RBAC: allowed by {grant.source}")
        if grant.problem:
            problems.append(grant.problem)
    listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    reasons = [of_node.reason, f"RBAC: {listed}" if problems else ""]
    return Verdict(allowed=False, reason="\n".join(filter(None, reasons)))


def _as_node(store: Store, node: str, act: Act) -> Verdict:
    if not node:
        return Verdict(allowed=False, reason='unknown node for user "system:node:"')
    if act.path is None:
        doing = NodeAct(act.verb, act.subresource, act.namespace, act.name)
        why = node_refusal(store, node, act.group, act.resource, doing)
        if why is not None:
            return Verdict(allowed=not why, reason=why)
    role = store.find(CLUSTER_ROLES, "", "system:node") or {}
    return Verdict(allowed=any(_allows(rule, act) for rule in role.get("rules") or ()))


def check_right(store: Store, user: Requester, act: Act) -> None:
    """Raises RefusedError with 403 if the user may not do this."""
    verdict = authorize(store, user, act)
    if not verdict.allowed:
        raise forbidden(user, act, verdict.reason)


def forbidden(user: Requester, act: Act, reason: str = "") -> RefusedError:
    """Returns the refusal of an act. `reason` is the reason of the verdict."""
    details: Document = {"name": act.name, "group": act.group, "kind": act.resource}
    why = f"User {printed_value(user.name)} cannot {act.verb}"
    if act.path is not None:
        message = f"forbidden: {why} path {printed_value(act.path)}"
    else:
        plural = f"{act.resource}.{act.group}" if act.group else act.resource
        named = f"{plural} {printed_value(act.name)}" if act.name else plural
        where = f"in the namespace {printed_value(act.namespace)}" if act.namespace else ""
        message = (
            f"{named} is forbidden: {why} resource {printed_value(act.whole_resource)} "
            f"in API group {printed_value(act.group)} {where or 'at the cluster scope'}"
        )
    if reason:
        message += f": {reason}"
    return RefusedError(403, "Forbidden", message, {k: v for k, v in details.items() if v})


def grants(store: Store, user: Requester, namespace: str) -> Sequence[Grant]:
    """Returns the rules that each binding gives to the user, in a namespace or in the cluster. They
    are remembered until a role or a binding is written.
    """
    if store.grants is None:
        store.grants = {}
        for kind in (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS):
            _forget_at_write(store, kind)
    key = user.name, tuple(user.groups), namespace
    known: Sequence[Grant] | None = store.grants.get(key)
    if known is None:
        from .aggregated_roles import aggregate_roles  # few servers are secure

        store.after_writes(aggregate_roles, (CLUSTER_ROLES,))
        if len(store.grants) == MOST_REMEMBERED:
            store.grants.clear()
        known = store.grants[key] = tuple(_grants(store, user, namespace))
    return known


def _forget_at_write(store: Store, kind: Kind) -> None:
    def forget() -> None:
        if store.grants:
            store.grants.clear()
        store.at_next_write(kind, forget)

    store.at_next_write(kind, forget)


def _grants(store: Store, user: Requester, namespace: str) -> Iterator[Grant]:
    for kind, place in ((CLUSTER_ROLE_BINDINGS, ""), (ROLE_BINDINGS, namespace)):
        if kind.namespaced and not place:
            continue
        for stored in store.list(kind, place):
            binding = stored.document
            subject = _subject(binding, user)
            if subject is not None:
                yield _granted(store, binding, subject)


def _subject(binding: Document, user: Requester) -> Document | None:
    """Returns the subject of a binding that is the user."""
    here = binding["metadata"].get("namespace", "")
    for subject in binding.get("subjects") or ():
        name = subject.get("name", "")
        match subject.get("kind"):
            case "User":
                is_user = name == user.name
            case "Group":
                is_user = name in user.groups
            case "ServiceAccount":
                is_user = account_name(subject.get("namespace") or here, name) == user.name
            case _:
                is_user = False
        if is_user:
            return dict(subject)
    return None


def _granted(store: Store, binding: Document, subject: Document) -> Grant:
    metadata, reference = binding["metadata"], binding["roleRef"]
    namespace = metadata.get("namespace", "")
    name, kind = metadata["name"], reference["kind"]
    place = f"{name}/{namespace}" if namespace else name
    named = subject["name"]
    if subject["kind"] == "ServiceAccount":
        named = f"{named}/{subject.get('namespace') or namespace}"
    source = (
        f"{binding['kind']} {printed_value(place)} of {kind} {printed_value(reference['name'])} "
        f"to {subject['kind']} {printed_value(named)}"
    )
    role = (
        store.find(ROLES, namespace, reference["name"])
        if kind == "Role"
        else store.find(CLUSTER_ROLES, "", reference["name"])
    )
    if role is None:
        problem = f"{kind.lower()}.{_GROUP} {printed_value(reference['name'])} not found"
        return Grant(source, (), problem)
    return Grant(source, role.get("rules") or ())


def _allows(rule: Document, act: Act) -> bool:
    if not _has(rule, "verbs", act.verb):
        return False
    if act.path is not None:
        return any(covers_path(url, act.path) for url in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _has(rule, "apiGroups", act.group)
        and _is_resource(rule.get("resources") or (), act)
        and (not names or act.name in names)
    )


def _has(rule: Document, field: str, value: str) -> bool:
    values = rule.get(field) or ()
    return "*" in values or value in values


def _is_resource(resources: Sequence[str], act: Act) -> bool:
    if "*" in resources or act.whole_resource in resources:
        return True
    return bool(act.subresource) and f"*/{act.subresource}" in resources


def covers_path(url: str, path: str) -> bool:
    """True if a rule for this URL is one for the path."""
    return url in ("*", path) or (url.endswith("*") and path.startswith(url.rstrip("*")))

"""Escalation: a user who may write roles and bindings cannot grant what the user does not have.

Mirrors the policy-based storages of Kubernetes' RBAC. The right to `escalate` a role, or to `bind`
one, frees from the check; so does the group system:masters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..rules.fields import printed_value
from ..store import Store
from ..types.api_documents import Document, RefusedError
from ..types.resources import Kind
from .rights import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    Act,
    authorize,
    covers_path,
    grants,
    may_all,
)
from .users import Requester

ROLE_KINDS, BINDING_KINDS = (ROLES, CLUSTER_ROLES), (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
_EVERYTHING = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
# What the garbage collector changes grants nothing.
_COLLECTORS = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
_FIELDS = {
    "apiGroups": "APIGroups",
    "resources": "Resources",
    "nonResourceURLs": "NonResourceURLs",
    "resourceNames": "ResourceNames",
    "verbs": "Verbs",
}


def check_escalation(
    store: Store, user: Requester, kind: Kind, after: Document, before: Document | None
) -> None:
    """Raises RefusedError with 403 if a role or a binding would grant more than the user has, and
    with 404 if the role of a binding does not exist.
    """
    if may_all(store, user) or (before is not None and _is_collected(after, before)):
        return
    metadata = after["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    if kind in BINDING_KINDS:
        reference = after.get("roleRef") or {}
        if _may_bind(store, user, reference, namespace):
            return
        role = ROLES if reference.get("kind") == "Role" else CLUSTER_ROLES
        place = namespace if role is ROLES else ""
        granted = store.get(role, place, reference.get("name", "")).get("rules") or ()
        _check_held(store, user, kind, name, namespace, granted)
        return
    if authorize(
        store, user, Act("escalate", kind.group, kind.plural, "", namespace, name)
    ).allowed:
        return
    _check_held(store, user, kind, name, namespace, after.get("rules") or ())
    if _aggregates(after) or (before is not None and _aggregates(before)):
        why = "must have cluster-admin privileges to use the aggregationRule"
        _check_held(store, user, kind, name, namespace, _EVERYTHING, why)


def _may_bind(store: Store, user: Requester, reference: Document, namespace: str) -> bool:
    plurals = {"ClusterRole": CLUSTER_ROLES.plural, "Role": ROLES.plural}
    plural = plurals.get(reference.get("kind", ""))
    if plural is None:
        return False
    group, name = reference.get("apiGroup", ""), reference.get("name", "")
    return authorize(store, user, Act("bind", group, plural, "", namespace, name)).allowed


def _check_held(
    store: Store,
    user: Requester,
    kind: Kind,
    name: str,
    namespace: str,
    granted: Sequence[Document],
    why: str = "",
) -> None:
    held = [rule for grant in grants(store, user, namespace) for rule in grant.rules]
    missing = [
        part
        for rule in granted
        for part in _parts(rule)
        if not any(_covers(rule, part) for rule in held)
    ]
    if missing:
        listed = "\n".join(sorted(map(_printed, _compacted(missing))))
        groups = " ".join(map(printed_value, user.groups))
        why = why or (
            f"user {printed_value(user.name)} (groups=[{groups}]) is attempting to grant RBAC "
            f"permissions not currently held:\n{listed}"
        )
        details = {"name": name, "group": kind.group, "kind": kind.plural}
        message = f"{kind.resource} {printed_value(name)} is forbidden: {why}"
        raise RefusedError(403, "Forbidden", message, details)


def _parts(rule: Document) -> Iterator[Document]:
    """Yields rules that grant the same together, each for one verb on one resource or path."""
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in rule.get("verbs") or ():
                part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = rule.get("resourceNames")
                if names:
                    yield from ({**part, "resourceNames": [name]} for name in names)
                else:
                    yield part
    for url in rule.get("nonResourceURLs") or ():
        for verb in rule.get("verbs") or ():
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(rule: Document, part: Document) -> bool:
    """True if a rule grants what a part of another one does."""
    names, of_part = rule.get("resourceNames") or (), part.get("resourceNames") or ()
    return (
        _has(rule.get("verbs") or (), part["verbs"])
        and _has(rule.get("apiGroups") or (), part.get("apiGroups") or ())
        and all(
            _has_resource(rule.get("resources") or (), each) for each in part.get("resources") or ()
        )
        and all(
            any(covers_path(url, each) for url in rule.get("nonResourceURLs") or ())
            for each in part.get("nonResourceURLs") or ()
        )
        and (not names or (bool(of_part) and all(name in names for name in of_part)))
    )


def _has(values: Sequence[str], wanted: Sequence[str]) -> bool:
    return "*" in values or all(value in values for value in wanted)


def _has_resource(resources: Sequence[str], wanted: str) -> bool:
    _, slash, subresource = wanted.partition("/")
    return (
        "*" in resources or wanted in resources or (bool(slash) and f"*/{subresource}" in resources)
    )


def _compacted(parts: Sequence[Document]) -> Iterator[Document]:
    """Yields the parts; those that differ by their verb alone are one, but for paths."""
    verbs: dict[tuple[str, ...], Document] = {}
    for part in parts:
        if "nonResourceURLs" in part:
            yield part
            continue
        key = (*part["apiGroups"], *part["resources"], *part.get("resourceNames", ()))
        if key in verbs:
            verbs[key]["verbs"] += part["verbs"]
        else:
            verbs[key] = {**part, "verbs": [*part["verbs"]]}
    yield from verbs.values()


def _printed(rule: Document) -> str:
    shown = (
        f"{name}:[{' '.join(map(printed_value, rule[field]))}]"
        for field, name in _FIELDS.items()
        if rule.get(field)
    )
    return f"{{{', '.join(shown)}}}"


def _aggregates(role: Document) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _is_collected(after: Document, before: Document) -> bool:
    """True if a write changes nothing but what the garbage collector changes."""

    def rest(document: Document) -> Document:
        kept = {k: v for k, v in document["metadata"].items() if k not in _COLLECTORS}
        return {**document, "metadata": kept}

    return rest(after) == rest(before)

"""Rules for roles and their bindings."""

from __future__ import annotations

from collections.abc import Iterator

from berth.actors.scheduling.kube.names import dns_subdomain

from .fields import Document, invalid, required, unsupported

GROUP = "rbac.authorization.k8s.io"
_FORBIDDEN_NAMES = (".", "..")
_FORBIDDEN_PARTS = ("/", "%")


def path_segment(name: str) -> tuple[str, ...]:
    """Returns the reasons why a name cannot be a part of a path."""
    if name in _FORBIDDEN_NAMES:
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{part}'" for part in _FORBIDDEN_PARTS if part in name)


def role(kind: str, document: Document, _before: Document | None) -> Iterator[str]:
    for i, rule in enumerate(document.get("rules") or ()):
        yield from _rule(f"rules[{i}]", rule, namespaced=kind == "Role")
    aggregation = document.get("aggregationRule")
    if aggregation is not None:
        path, selectors = (
            "aggregationRule.clusterRoleSelectors",
            aggregation.get("clusterRoleSelectors") or (),
        )
        if not selectors:
            detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            yield required(path, detail)


def _rule(path: str, rule: Document, *, namespaced: bool) -> Iterator[str]:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        place = f"{path}.nonResourceURLs"
        if namespaced:
            yield invalid(place, urls, "namespaced rules cannot apply to non-resource URLs")
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(place, urls, detail)
        return
    if not rule.get("apiGroups"):
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def binding(kind: str, document: Document, before: Document | None) -> Iterator[str]:
    reference: Document = document.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if kind == "RoleBinding" else ("ClusterRole",)
    group, name = reference.get("apiGroup", ""), reference.get("name", "")
    if group != GROUP:
        yield unsupported("roleRef.apiGroup", group, (GROUP,))
    if reference.get("kind", "") not in kinds:
        yield unsupported("roleRef.kind", reference.get("kind", ""), kinds)
    if not name:
        yield required("roleRef.name")
    yield from (invalid("roleRef.name", name, message) for message in path_segment(name))
    for i, subject in enumerate(document.get("subjects") or ()):
        yield from _subject(f"subjects[{i}]", subject, namespaced=kind == "RoleBinding")
    if before is not None and before.get("roleRef") != document.get("roleRef"):
        shown = {"APIGroup": group, "Kind": reference.get("kind"), "Name": name}
        yield invalid("roleRef", shown, "cannot change roleRef")


def _subject(path: str, subject: Document, *, namespaced: bool) -> Iterator[str]:
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        yield required(f"{path}.name")
    match subject.get("kind", ""):
        case "ServiceAccount":
            if name:
                yield from (invalid(f"{path}.name", name, why) for why in dns_subdomain(name))
            if group:
                yield unsupported(f"{path}.apiGroup", group, ("",))
            if not namespaced and not subject.get("namespace"):
                yield required(f"{path}.namespace")
        case "User" | "Group":
            if group != GROUP:
                yield unsupported(f"{path}.apiGroup", group, (GROUP,))
        case kind:
            kinds = ("ServiceAccount", "User", "Group")
            yield unsupported(f"{path}.kind", kind, kinds)

"""Rules for roles and their bindings."""

from __future__ import annotations

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


def role(kind: str, document: Document) -> list[str]:
    problems: list[str] = []
    for i, rule in enumerate(document.get("rules") or ()):
        problems += _rule(f"rules[{i}]", rule, namespaced=kind == "Role")
    aggregation = document.get("aggregationRule")
    if aggregation is not None:
        path, selectors = (
            "aggregationRule.clusterRoleSelectors",
            aggregation.get("clusterRoleSelectors") or (),
        )
        if not selectors:
            detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            problems.append(required(path, detail))
    return problems


def _rule(path: str, rule: Document, *, namespaced: bool) -> list[str]:
    problems: list[str] = []
    if not rule.get("verbs"):
        problems.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        place = f"{path}.nonResourceURLs"
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            problems.append(invalid(place, urls, detail))
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            problems.append(invalid(place, urls, detail))
        return problems
    if not rule.get("apiGroups"):
        detail = "resource rules must supply at least one api group"
        problems.append(required(f"{path}.apiGroups", detail))
    if not rule.get("resources"):
        detail = "resource rules must supply at least one resource"
        problems.append(required(f"{path}.resources", detail))
    return problems


def binding(kind: str, document: Document, before: Document | None) -> list[str]:
    reference: Document = document.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if kind == "RoleBinding" else ("ClusterRole",)
    group, name = reference.get("apiGroup", ""), reference.get("name", "")
    problems = [] if group == GROUP else [unsupported("roleRef.apiGroup", group, (GROUP,))]
    if reference.get("kind", "") not in kinds:
        problems.append(unsupported("roleRef.kind", reference.get("kind", ""), kinds))
    if not name:
        problems.append(required("roleRef.name"))
    problems += [invalid("roleRef.name", name, message) for message in path_segment(name)]
    for i, subject in enumerate(document.get("subjects") or ()):
        problems += _subject(f"subjects[{i}]", subject, namespaced=kind == "RoleBinding")
    if before is not None and before.get("roleRef") != document.get("roleRef"):
        shown = {"APIGroup": group, "Kind": reference.get("kind"), "Name": name}
        problems.append(invalid("roleRef", shown, "cannot change roleRef"))
    return problems


def _subject(path: str, subject: Document, *, namespaced: bool) -> list[str]:
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    problems = [] if name else [required(f"{path}.name")]
    match subject.get("kind", ""):
        case "ServiceAccount":
            if name:
                problems += [invalid(f"{path}.name", name, why) for why in dns_subdomain(name)]
            if group:
                problems.append(unsupported(f"{path}.apiGroup", group, ("",)))
            if not namespaced and not subject.get("namespace"):
                problems.append(required(f"{path}.namespace"))
        case "User" | "Group":
            if group != GROUP:
                problems.append(unsupported(f"{path}.apiGroup", group, (GROUP,)))
        case kind:
            kinds = ("ServiceAccount", "User", "Group")
            problems.append(unsupported(f"{path}.kind", kind, kinds))
    return problems

"""The roles and bindings that every cluster starts with.

Users find the roles that they bind themselves (cluster-admin, admin, edit, view), what everybody
may do, and the rights of kube-scheduler. A secure server has the rights of nodes and controllers
too; without it nobody would ask for them.

The tables have an object to a line, and its rules below it: verbs, API groups, resources and names,
or verbs and paths. After a role's name stands the role that it is aggregated to; after a binding's
its role and its subjects. "core" is the group without a name. A line that begins with more than two
blanks continues the line before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..types.api_documents import Document
from ..types.resources import BY_KIND, Kind
from .first_role_table import TABLE

_RBAC = "rbac.authorization.k8s.io"
_LABEL = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_CONTINUATION = re.compile(r"(,?)\n {3,}")


def read_roles(table: str) -> Iterator[tuple[Kind, str, Document]]:
    """Yields the kind, the namespace and the document of each object in a table."""
    for text in _objects(table):
        first, *rules = text.split("\n")
        kind_name, place, *words = first.split(" ")
        namespace, _, name = place.rpartition("/")
        kind = BY_KIND[f"{_RBAC}/v1", kind_name]
        labels = {_aggregated(word[1:]): "true" for word in words if word[0] == "+"}
        document: Document = {
            "metadata": {"name": name, "labels": _LABEL | labels, "annotations": _ANNOTATIONS}
        }
        if kind_name.endswith("Binding"):
            document["roleRef"] = _reference(words[0])
            if words[1:]:
                document["subjects"] = [_subject(word) for word in words[1:]]
        elif rules[0].startswith("  aggregate "):
            selectors = [{"matchLabels": {_aggregated(rule.split()[1]): "true"}} for rule in rules]
            document["aggregationRule"] = {"clusterRoleSelectors": selectors}
        else:
            document["rules"] = [_rule(*rule.split()) for rule in rules]
        yield kind, namespace, document


def _objects(table: str) -> list[str]:
    joined = _CONTINUATION.sub(lambda found: "," if found[1] else " ", table.strip())
    return re.split(r"\n(?=\S)", joined)


def _aggregated(role: str) -> str:
    return f"{_RBAC}/aggregate-to-{role}"


def _rule(verbs: str, groups: str, resources: str, names: str = "") -> Document:
    if groups == "url":
        return {"verbs": verbs.split(","), "nonResourceURLs": resources.split(",")}
    rule: Document = {
        "verbs": verbs.split(","),
        "apiGroups": ["" if group == "core" else group for group in groups.split(",")],
        "resources": resources.split(","),
    }
    return rule | {"resourceNames": names.split(",")} if names else rule


def _reference(word: str) -> Document:
    kind, _, name = word.partition(":")
    return {"apiGroup": _RBAC, "kind": kind, "name": name}


def _subject(word: str) -> Document:
    kind, _, name = word.partition(":")
    if kind != "ServiceAccount":
        return {"apiGroup": _RBAC, "kind": kind, "name": name}
    namespace, _, name = name.partition("/")
    return {"kind": kind, "namespace": namespace, "name": name}


FIRST_ROLES = tuple(read_roles(TABLE))


def roles_of_components() -> tuple[tuple[Kind, str, Document], ...]:
    """Returns the roles and bindings of nodes, controllers and other components."""
    from .component_role_table import TABLE as OF_COMPONENTS

    return tuple(read_roles(OF_COMPONENTS))

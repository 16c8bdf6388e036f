"""Aggregated roles: ClusterRoles whose rules are those of the roles that they select.

Mirrors Kubernetes' controller of the aggregation of roles.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..ownership.updates import FieldWrite
from ..rules.fields import selects
from ..store import Store
from ..types.api_documents import Document
from ..types.resources import BY_KIND

ROLES = BY_KIND["rbac.authorization.k8s.io/v1", "ClusterRole"]
_AGGREGATOR = "clusterrole-aggregation-controller"


def aggregate_roles(store: Store) -> None:
    """Gives the aggregated roles their rules. One may be aggregated to another."""
    roles = {stored.document["metadata"]["name"]: stored.document for stored in store.list(ROLES)}
    labelled = _by_label(roles)
    gathered = {
        name: [each for each in _gathered(roles, labelled, selectors) if each != name]
        for name, role in roles.items()
        if (selectors := (role.get("aggregationRule") or {}).get("clusterRoleSelectors"))
    }
    rules = {name: role.get("rules") or [] for name, role in roles.items()}
    before = dict(rules)
    for _ in gathered:  # the longest way from one to another
        news = {name: _united(rules, others) for name, others in gathered.items()}
        if news == {name: rules[name] for name in gathered}:
            break
        rules |= news
    for name in gathered:
        if rules[name] != before[name]:
            _write(store, name, rules[name])


def _write(store: Store, name: str, rules: list[Document]) -> None:
    """Gives a role these rules, as its controller applies them."""
    from ..ownership.applies import applied  # few servers read roles

    write = FieldWrite(store.catalog, ROLES, _AGGREGATOR, "", store.outside.now())
    live = store.stored(ROLES, "", name)
    named = {"apiVersion": ROLES.api_version, "kind": ROLES.kind}
    document = {**named, "metadata": {"name": name}, "rules": rules}
    _, entries = applied(write, live, document, force=True)
    store.update(ROLES, {**live.document, "rules": rules}, entries)


def _by_label(roles: dict[str, Document]) -> dict[tuple[str, str], list[str]]:
    """Returns the names of the roles that have a label with a value."""
    labelled: dict[tuple[str, str], list[str]] = {}
    for name, role in roles.items():
        for label in (role["metadata"].get("labels") or {}).items():
            labelled.setdefault(label, []).append(name)
    return labelled


def _gathered(
    roles: dict[str, Document],
    labelled: dict[tuple[str, str], list[str]],
    selectors: list[Document],
) -> Iterator[str]:
    """Yields the names of the roles that one of the selectors selects, in the order of these."""
    for selector in selectors:
        first = next(iter((selector.get("matchLabels") or {}).items()), None)
        for name in roles if first is None else labelled.get(first, ()):
            if selects(selector, roles[name]["metadata"].get("labels") or {}):
                yield name


def _united(rules: dict[str, list[Document]], names: list[str]) -> list[Document]:
    """Returns the rules of some roles, each once."""
    told = {
        msgspec.json.encode(rule, order="sorted"): rule for name in names for rule in rules[name]
    }
    return list(told.values())

"""From a stored CustomResourceDefinition to the kinds of a catalog.

A definition is served once its names are accepted: they may not be those of another definition of
its group. Mirrors the controllers naming and establishing of k8s.io/apiextensions-apiserver, which
here act at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .api_documents import Document, StoredObject
from .catalog import Catalog
from .custom_decoding import decoded
from .custom_type import CustomType
from .resources import Kind
from .structural import OPEN, Structural, structural_of
from .webhook_conversion import ConversionWebhook

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"  # the finalizer that deletes the objects
_NAMES = ("plural", "singular", "kind", "listKind")


def condition(definition: Document, name: str) -> Document | None:
    """Returns a condition of a definition."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == name), None)


def is_true(definition: Document, name: str) -> bool:
    found = condition(definition, name)
    return found is not None and found.get("status") == "True"


def followed(
    catalog: Catalog, definition: Document, *, gone: bool, webhooks: bool = False
) -> tuple[Catalog, Kind | None, Callable[[Document], Document]]:
    """Returns the catalog that serves what a definition says, the kind under which its objects are
    stored, if what is served changes, and a function that reads these objects anew.
    """
    name = definition["metadata"]["name"]
    after = served_catalog(catalog, name, None if gone else definition, webhooks=webhooks)
    if after is catalog:
        return catalog, None, lambda document: document
    kinds = {kind.api_version: kind for kind in _defined(after, name)}
    hubs = [kind.stored_as for kind in (*kinds.values(), *_defined(catalog, name))]

    def read(document: Document) -> Document:
        kind = kinds.get(document["apiVersion"])
        if kind is None or kind.custom is None:
            return document
        return decoded(document, kind.custom.schema).document

    return after, hubs[0], read


def reread(catalog: Catalog, stored: StoredObject) -> StoredObject:
    """Returns a custom object of an earlier run as its definition says now."""
    document = stored.document
    place = document["apiVersion"], document["kind"]
    kind = next((each for each in catalog.added if (each.api_version, each.kind) == place), None)
    if kind is None or kind.custom is None:
        return stored
    after = decoded(document, kind.custom.schema).document
    return (
        stored
        if after is document
        else StoredObject(after, stored.revision, entries=stored.entries)
    )


def _defined(catalog: Catalog, name: str) -> list[Kind]:
    return [kind for kind in catalog.added if kind.custom and kind.custom.definition == name]


def served_catalog(
    catalog: Catalog, name: str, definition: Document | None, *, webhooks: bool = False
) -> Catalog:
    """Returns a catalog that serves what a definition of this name says; without a definition,
    nothing of it. It is the same catalog if nothing changes.
    """
    old = _defined(catalog, name)
    if definition is not None and not is_true(definition, "Established"):
        definition = None
    if definition is None:
        return catalog.replacing(old, ()) if old else catalog
    new = kinds_of(definition, old[0].stored_as if old else None, webhooks=webhooks)
    if [_told(kind) for kind in old] == [_told(kind) for kind in new]:
        return catalog
    return catalog.replacing(old, new)


def _told(kind: Kind) -> tuple[Any, ...]:
    """Returns all that a kind has from its definition."""
    custom = kind.custom
    assert custom is not None
    names = custom.singular, custom.list_kind, custom.categories
    return (
        kind.plural,
        kind.kind,
        kind.short,
        kind.namespaced,
        names,
        custom.version,
        custom.conversion,
        custom.webhook is not None,
    )


def kinds_of(
    definition: Document, hub: Kind | None = None, *, webhooks: bool = False
) -> list[Kind]:
    """Returns a kind for each version. `hub` is the kind under which the objects are stored, if
    there is one. With `webhooks`, the one of the definition converts objects.
    """
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    group, is_namespaced = spec["group"], spec["scope"] == "Namespaced"
    plural, kind_name = names["plural"], names["kind"]
    hub = hub or Kind(group, "", plural, kind_name, is_namespaced)
    kinds, schemas = [], _schemas(spec)
    conversion = spec.get("conversion") or {}
    asked = webhooks and conversion.get("strategy") == "Webhook"
    webhook = ConversionWebhook(conversion.get("webhook") or {}) if asked else None
    for version in spec["versions"]:
        subresources = version.get("subresources") or {}
        kinds.append(
            Kind(
                group,
                version["name"],
                plural,
                kind_name,
                is_namespaced,
                tuple(names.get("shortNames") or ()),
                status="status" in subresources,
                scale="scale" in subresources,
                stored_as=hub,
                custom=_custom_type(definition, version, schemas, webhook),
            )
        )
    return kinds


def _schemas(spec: Document) -> dict[str, Structural]:
    """Returns the schemas of the versions by their names."""
    schemas = {}
    for version in spec["versions"]:
        schema: Document | None = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None or spec.get("preserveUnknownFields"):
            schema = {**(schema or {}), OPEN: True}
        schemas[version["name"]] = structural_of(schema)
    return schemas


def _custom_type(
    definition: Document,
    version: Document,
    schemas: Mapping[str, Structural],
    webhook: ConversionWebhook | None,
) -> CustomType:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    stored = next(each["name"] for each in spec["versions"] if each.get("storage"))
    api_version = f"{spec['group']}/{version['name']}"
    warning = version.get("deprecationWarning") or f"{api_version} {names['kind']} is deprecated"
    return CustomType(
        definition=definition["metadata"]["name"],
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        categories=tuple(names.get("categories") or ()),
        version=version,
        schema=schemas[version["name"]],
        conversion=spec.get("conversion") or {},
        is_served=bool(version.get("served")),
        stored_version=f"{spec['group']}/{stored}",
        stored_schema=schemas[stored],
        deprecation=warning if version.get("deprecated") else "",
        webhook=webhook,
    )


def settled(definition: Document, others: Iterable[Document], now: str) -> Document:
    """Returns a definition with its accepted names, and the conditions NamesAccepted and
    Established.

    `others` are the other definitions of its group. It is the same object if nothing changes.
    """
    names, status = definition["spec"]["names"], definition.get("status") or {}
    accepted: Document = status.get("acceptedNames") or {}
    if names == accepted and is_true(definition, "Established"):
        return definition
    resources, kinds = _taken(others)
    news, reason, message = dict(accepted), "", ""
    for field in _NAMES:
        wanted = names.get(field, "")
        taken = kinds if field.lower().endswith("kind") else resources
        if wanted != accepted.get(field, "") and wanted in taken:
            reason = f"{field[0].upper()}{field[1:]}Conflict"
            message = f'"{wanted}" is already in use'
        else:
            news[field] = wanted
    shorts, had = names.get("shortNames") or [], accepted.get("shortNames") or []
    used = [name for name in shorts if name not in had and name in resources]
    if used:
        problems = [f'"{name}" is already in use' for name in used]
        reason = "ShortNamesConflict"
        message = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    else:
        news["shortNames"] = shorts
    news["categories"] = names.get("categories") or []
    news = {field: value for field, value in news.items() if value or field in ("plural", "kind")}
    good = not reason
    conditions = [
        _condition(
            "NamesAccepted",
            good,
            *(("NoConflicts", "no conflicts found") if good else (reason, message)),
            now,
        ),
    ]
    if not is_true(definition, "Established"):
        why = (
            ("InitialNamesAccepted", "the initial names have been accepted")
            if good
            else ("NotAccepted", "not all names are accepted")
        )
        conditions.append(_condition("Established", good, *why, now))
    after = {**status, "acceptedNames": news, "conditions": _merged(status, conditions)}
    return definition if after == status else {**definition, "status": after}


def _taken(others: Iterable[Document]) -> tuple[set[str], set[str]]:
    """Returns the names of resources, and of kinds, that definitions have."""
    resources, kinds = set[str](), set[str]()
    for other in others:
        names = (other.get("status") or {}).get("acceptedNames") or {}
        shorts = names.get("shortNames") or ()
        resources |= {names.get("plural", ""), names.get("singular", ""), *shorts}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources, kinds


def _condition(name: str, good: bool, reason: str, message: str, now: str) -> Document:
    return {
        "lastTransitionTime": now,
        "message": message,
        "reason": reason,
        "status": "True" if good else "False",
        "type": name,
    }


def _merged(status: Document, news: list[Document]) -> list[Document]:
    """Returns the conditions with new ones; a condition keeps its time while its status stays."""
    kept = {each.get("type", ""): each for each in status.get("conditions") or ()}
    for new in news:
        old = kept.get(new["type"])
        same = old is not None and old["status"] == new["status"]
        time = {"lastTransitionTime": old["lastTransitionTime"]} if old and same else {}
        kept[new["type"]] = {**new, **time}
    return [*kept.values()]


def with_condition(
    definition: Document, name: str, reason: str, message: str, now: str
) -> Document:
    """Returns a definition with a condition that is True."""
    status = definition.get("status") or {}
    conditions = _merged(status, [_condition(name, True, reason, message, now)])
    return {**definition, "status": {**status, "conditions": conditions}}

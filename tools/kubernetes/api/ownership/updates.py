"""What a create, update or patch makes of the entries of an object.

The writer owns what it adds and changes. The others lose that, and what the write removes. Most
writes repeat what was written before to another object, so the results are remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..types.api_documents import ENTRIES, Document
from ..types.catalog import Catalog
from ..types.conversion import served_form
from ..types.document_cache import cached_by_document
from ..types.field_entries import (
    EntryTemplate,
    FieldEntries,
    compacted_entries,
    mark,
    template_of,
)
from ..types.resources import Kind
from ..types.schema import TYPES
from ..types.status_metadata import status_metadata
from .comparison import differences
from .custom_types import custom_type
from .field_sets import SELF, FieldSet, item_step, united, without, without_all
from .managers import (
    UPDATE,
    ManagedFieldsError,
    Managers,
    Owned,
    entry_rows,
    manager_of,
    read_managers,
    shared_fields,
    with_fewer_updaters,
)
from .merge_types import MergeType, type_of

# What no entry names.
UNOWNED: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {SELF: {}}
    | {
        f"f:{field}": {}
        for field in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            ENTRIES,
            "resourceVersion",
        )
    },
}
_COUNTED = {"deprecated.daemonset.template.generation": "0"}  # which a DaemonSet always gets
# Where steps name something of the object alone: its owners, its IPs.
_OWN_ITEMS = (("f:metadata", "f:ownerReferences"), ("f:status", "f:podIPs"))
_UID = ("uid",)
_MOST_NAMES = 16  # of an object, besides those that it no longer has
_OF_RESIZE = ("resources", "resizePolicy")
_MOST = 1024
_ENCODER = msgspec.msgpack.Encoder()
_METADATA = type_of(TYPES["ObjectMeta"])
# The fields of metadata that a key below tells apart, or that no entry names.
_KEYED = frozenset(
    (
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "generateName",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
    )
)
_new_fields: dict[MergeType, Callable[[Document], FieldSet]] = {}
_of_spec: dict[int, tuple[Document, FieldSet]] = {}
_of_metadata: dict[Any, FieldSet] = {}
_first: dict[Any, tuple[FieldSet, FieldSet, EntryTemplate]] = {}
_next: dict[Any, tuple[EntryTemplate | None, EntryTemplate | None]] = {}


class FieldWrite(msgspec.Struct, frozen=True):
    """A write of a manager to an object of a kind, or to a subresource of it, at a time."""

    catalog: Catalog
    kind: Kind
    manager: str
    subresource: str
    now: str

    @property
    def of(self) -> MergeType:
        return merge_type(self.catalog, self.kind)


def merge_type(catalog: Catalog, kind: Kind) -> MergeType:
    """Returns the type of the objects of a kind."""
    if kind.custom is not None:
        return custom_type(kind.custom)
    return type_of(catalog.types.get(kind.type_name))


def first_entries(write: FieldWrite, document: Document) -> FieldEntries | None:
    """Returns the entries of a new object, which the writer owns."""
    metadata = document["metadata"]
    if write.kind.kind == "DaemonSet":
        metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **_COUNTED}}
    owners = metadata.get("ownerReferences")
    names = [item_step(_UID, owner, {}) for owner in owners if owner.get("uid")] if owners else []
    of_metadata = _metadata_fields(metadata, names)
    if write.kind.kind == "Pod" and document.keys() <= {"apiVersion", "kind", "metadata", "spec"}:
        others = _spec_fields(write, document["spec"])
    else:
        others = _other_fields(write, document)
    key = id(of_metadata), id(others), write.kind, write.manager, write.now
    known = _first.get(key)
    if known is not None and known[0] is of_metadata and known[1] is others:
        template = known[2]
    else:
        fields = {**({"f:metadata": of_metadata} if of_metadata else {}), **others}
        if not fields:
            return None
        version = write.kind.api_version
        manager = manager_of(write.manager, UPDATE, version, write.subresource)
        template = template_of(entry_rows({manager: Owned(version, fields, write.now)}))
        if len(_first) >= _MOST:
            _first.clear()
        _first[key] = of_metadata, others, template
    return FieldEntries(template, tuple(names)) if names else template.alone


def changed_entries(
    write: FieldWrite, before: Document | None, after: Document, had: FieldEntries | None
) -> FieldEntries | None:
    """Returns the entries of an object after an update, from those that it `had`."""
    if before is not None and had is None:
        return None  # nobody tracks the object
    removed, changed = _differing(write, write.kind, before, after)
    if write.subresource != "status":
        removed, changed = _owned(write, removed), _owned(write, changed)
    if not removed and not changed:
        return had
    names = [] if had is None else [*had.names]
    removed, changed = _marked(removed, names), _marked(changed, names)
    template = None if had is None else had.template
    key = id(template), write, _ENCODER.encode((removed, changed))
    known = _next.get(key)
    if known is not None and known[0] is template:
        result = known[1]
    else:
        managers = {} if template is None else read_managers(template.entries, is_own=True)
        managers = _after_update(write, before, after, managers, removed, changed, names)
        result = template_of(entry_rows(managers)) if managers else None
        if len(_next) >= _MOST:
            _next.clear()
        _next[key] = template, result
    if result is None:
        return None
    if len(names) > _MOST_NAMES:  # most of them are of earlier writes
        return compacted_entries(FieldEntries(result, tuple(names)).listed())
    return FieldEntries(result, tuple(names)) if names else result.alone


def _owned(write: FieldWrite, fields: FieldSet) -> FieldSet:
    """Returns, of the fields that a write changes, those that somebody can own."""
    kept = kept_fields(write, fields) if fields else fields
    return kept if UNOWNED.keys().isdisjoint(kept) else without(kept, UNOWNED)


def entries_of_client(entries: Any) -> FieldEntries | None:
    """Returns the entries that a client sends; None if they cannot be read."""
    try:
        return compacted_entries(entry_rows(read_managers(entries)))
    except (ManagedFieldsError, AttributeError, TypeError):
        return None


def kept_fields(write: FieldWrite, fields: FieldSet) -> FieldSet:
    """Returns, of the fields that a write names, those that it can change."""
    match write.subresource:
        case "":
            return without_all(fields, {"f:status": {}}) if write.kind.status else fields
        case "status":
            return _of_status(write.kind, fields)
        case "finalize" | "scale":
            return without_all(fields, {"f:status": {}})
        case "approval":
            return without_all(fields, {"f:spec": {}, "f:status": {"f:certificate": {}}})
        case "resize":
            return _in_containers(fields, ("f:containers", "f:initContainers"), _OF_RESIZE)
        case "ephemeralcontainers":
            return _in_containers(fields, ("f:ephemeralContainers",), ())
        case _:
            return fields


def take_fields(
    write: FieldWrite,
    before: Document | None,
    after: Document,
    managers: Managers,
    removed: FieldSet,
    changed: FieldSet,
    names: list[str] | None = None,
) -> Managers:
    """Returns the managers without what a write takes from them. With `names`, their fields have
    marks in place of these.

    `removed` and `changed` are the fields in the version of the write. A manager that has no fields
    left, or whose version is no longer served, has no entry.
    """
    versions = {write.kind.api_version: (removed, changed)}
    result: Managers = {}
    for manager, owned in managers.items():
        version = owned.api_version
        if version not in versions:
            converted = _converted(write, version, before, after)
            if converted is None:
                continue
            if names is not None:
                converted = _marked(converted[0], names), _marked(converted[1], names)
            versions[version] = converted
        gone, news = versions[version]
        fields = without(without(owned.fields, news), gone)
        if fields:
            result[manager] = owned._replace(fields=fields)
    return result


def other_version(write: FieldWrite, version: str) -> Kind | None:
    """Returns the kind in another version of its group; None if it is not served."""
    kind = write.kind
    other = write.catalog.named(version, kind.kind)
    if other is None or (other.stored_as or other) is not (kind.stored_as or kind):
        return None
    return other


def _converted(
    write: FieldWrite, version: str, before: Document | None, after: Document
) -> tuple[FieldSet, FieldSet] | None:
    kind = other_version(write, version)
    if kind is None:
        return None
    removed, changed = (kept_fields(write, each) for each in _differing(write, kind, before, after))
    return removed, changed


def _differing(
    write: FieldWrite, kind: Kind, before: Document | None, after: Document
) -> tuple[FieldSet, FieldSet]:
    """Returns the fields that a write removes and changes, in a version of its kind."""
    live = {} if before is None else served_form(kind, before)
    news = served_form(kind, after)
    if write.subresource == "status":
        live, news = _written_with_status(kind, live, news)
    return differences(merge_type(write.catalog, kind), live, news)


def _of_status(kind: Kind, fields: FieldSet) -> FieldSet:
    kept = {step: node for step, node in fields.items() if step == "f:status"}
    names = {f"f:{field}" for field in status_metadata(kind)}
    metadata = {s: node for s, node in fields.get("f:metadata", {}).items() if s in names}
    return {"f:metadata": metadata, **kept} if metadata else kept


def _written_with_status(kind: Kind, *documents: Document) -> list[Document]:
    """Returns the parts of an object before and after that a write of its status can change."""
    parts: list[Document] = [
        {"status": each["status"]} if "status" in each else {} for each in documents
    ]
    metadata: list[Document] = [each.get("metadata") or {} for each in documents]
    names = [n for n in status_metadata(kind) if metadata[0].get(n) != metadata[1].get(n)]
    if names:
        for part, whole in zip(parts, metadata, strict=True):
            part["metadata"] = {name: whole[name] for name in names if name in whole}
    return parts


def _after_update(
    write: FieldWrite,
    before: Document | None,
    after: Document,
    managers: Managers,
    removed: FieldSet,
    changed: FieldSet,
    names: list[str],
) -> Managers:
    result = take_fields(write, before, after, managers, removed, changed, names)
    if changed:
        version = write.kind.api_version
        manager = manager_of(write.manager, UPDATE, version, write.subresource)
        had = result.get(manager)
        fields = changed if had is None else united(changed, had.fields)
        # Kubernetes sets no time when it gives the replicas of a Scale to a manager
        before_it = managers.get(manager)
        untimed = None if before_it is None else before_it.time
        time = untimed if write.subresource == "scale" else write.now
        result[manager] = Owned(version, fields, time)
    return with_fewer_updaters(result)


def _marked(fields: FieldSet, names: list[str]) -> FieldSet:
    """Returns fields with marks in place of names of the object alone. Adds the new ones to
    `names`.
    """
    for first, second in _OWN_ITEMS:
        above = fields.get(first)
        items = above.get(second) if above else None
        if not above or not items:
            continue
        marked: FieldSet = {}
        for step in sorted(items):
            if step != SELF and step not in names:
                names.append(step)
            marked[SELF if step == SELF else mark(names.index(step))] = items[step]
        fields = {**fields, first: {**above, second: marked}}
    return fields


def _in_containers(fields: FieldSet, lists: tuple[str, ...], names: tuple[str, ...]) -> FieldSet:
    """Returns the fields of containers with these names; all of them without names."""
    kept: FieldSet = {}
    for step, items in fields.get("f:spec", {}).items():
        if step not in lists:
            continue
        below = {
            item: part
            for item, node in items.items()
            if (part := {f"f:{n}": node[f"f:{n}"] for n in names if f"f:{n}" in node})
        }
        if not names:
            kept[step] = items
        elif below:
            kept[step] = below
    return {"f:spec": kept} if kept else {}


def _metadata_fields(metadata: Document, owners: list[str]) -> FieldSet:
    """Returns the fields of a new object's metadata that its writer owns. `owners` are the steps
    to its owners.
    """
    if not metadata.keys() <= _KEYED:
        return _differing_metadata(metadata, owners)
    key = (
        tuple(metadata.get("labels") or ()),
        tuple(metadata.get("annotations") or ()),
        len(owners),
        tuple(metadata.get("finalizers") or ()),
        bool(metadata.get("generateName")),
    )
    fields = _of_metadata.get(key)
    if fields is None:
        if len(_of_metadata) >= _MOST:
            _of_metadata.clear()
        fields = _of_metadata[key] = _differing_metadata(metadata, owners)
    return fields


def _differing_metadata(metadata: Document, owners: list[str]) -> FieldSet:
    _, changed = differences(_METADATA, {}, metadata)
    fields = without(changed, UNOWNED["f:metadata"])
    return _marked({"f:metadata": fields}, owners)["f:metadata"] if fields else fields


def _spec_fields(write: FieldWrite, spec: Document) -> FieldSet:
    """Returns the fields of a new pod's spec.

    The specs of pods from one template are one object (see NormalForm), whose fields are found by
    its identity.
    """
    known = _of_spec.get(id(spec))
    if known is not None and known[0] is spec:
        return known[1]
    _, changed = differences(write.of, {}, {"spec": spec})
    if len(_of_spec) >= _MOST:
        _of_spec.clear()
    _of_spec[id(spec)] = spec, changed
    return changed


def _other_fields(write: FieldWrite, document: Document) -> FieldSet:
    """Returns the fields of a new object beside its metadata."""
    of = write.of
    find = _new_fields.get(of)
    if find is None:
        find = _new_fields[of] = cached_by_document(
            lambda each: shared_fields(differences(of, {}, each)[1])
        )
    served = served_form(write.kind, document)
    others = {key: value for key, value in served.items() if key not in _ENVELOPE}
    if write.kind.status:
        others.pop("status", None)
    return find(others)


_ENVELOPE = ("apiVersion", "kind", "metadata")

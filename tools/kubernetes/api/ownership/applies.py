"""Server-side apply: what it makes of an object and of its entries, and the conflicts.

The applied document is merged into the object. What the manager applied before and leaves out now
goes, unless somebody else owns it. A field that another manager owns and that the apply would
change is a conflict, unless the apply is forced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..types.api_documents import ENTRIES, Document, RefusedError, StoredObject
from ..types.conversion import served_form, stored_form
from ..types.field_entries import FieldEntries, compacted_entries
from .comparison import differences, named_fields
from .field_sets import (
    FieldSet,
    FieldSetError,
    common,
    contains,
    path_text,
    paths,
    united,
    without,
)
from .managers import (
    APPLY,
    UPDATE,
    Manager,
    Managers,
    Owned,
    entry_rows,
    identifier,
    manager_of,
    read_managers,
)
from .merging import merged, stripped, with_named_fields
from .updates import (
    UNOWNED,
    FieldWrite,
    kept_fields,
    merge_type,
    other_version,
    take_fields,
)
from .wellformed import apply_problems

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"  # whose applies follow those of client-side apply
BEFORE = "before-first-apply"  # the manager of what nobody tracked before

Conflict = tuple[Manager, tuple[str, ...]]


def applied(
    write: FieldWrite, live: StoredObject | None, document: Document, *, force: bool
) -> tuple[Document, FieldEntries | None]:
    """Returns the object that an apply makes of the live one, None if there is none, and its
    entries. It is in the version of the write, and has not got its defaults.

    Raises RefusedError: 400 for a document that has entries of its own or is of another kind, 409
    for conflicts, 500 for a document that does not fit its type.
    """
    _check_document(write, document)
    had: Document = {} if live is None else served_form(write.kind, live.document)
    managers: Managers = {}
    if live is not None and live.entries is not None:
        managers = read_managers(live.entries.listed(), is_own=True)
    elif live is not None:
        managers = _first_managers(write, had)
    manager = manager_of(write.manager, APPLY, "", write.subresource)
    stored = None if live is None else live.document
    try:
        attempt = _Apply(write, stored, had, document, manager)
        result, managers = attempt.carried_out(managers, force)
    except FieldSetError as unfit:
        named = _name_text(write, had)
        message = f"failed to create typed live object ({named}): {unfit}"
        raise RefusedError(500, "", message) from None
    metadata = dict(result.get("metadata") or {})
    if write.manager == KUBECTL and (metadata.get("annotations") or {}).get(LAST_APPLIED):
        annotations = {**metadata["annotations"], LAST_APPLIED: _last_applied(document)}
        metadata["annotations"] = annotations
    return {**result, "metadata": metadata}, compacted_entries(entry_rows(managers))


class _Apply:
    """An apply of a document to an object. `had` is the live object in the version of the write."""

    def __init__(
        self,
        write: FieldWrite,
        live: Document | None,
        had: Document,
        document: Document,
        manager: Manager,
    ) -> None:
        self._write = write
        self._live = live
        self._had = had
        self._document = document
        self._manager = manager
        self._of = write.of

    def carried_out(self, managers: Managers, force: bool) -> tuple[Document, Managers]:
        """Returns the object and its managers. Raises RefusedError with 409 for conflicts."""
        write, manager = self._write, self._manager
        last = managers.get(manager)
        fields = kept_fields(write, named_fields(self._of, self._document))
        now = Owned(write.kind.api_version, fields, write.now)
        others = {each: owned for each, owned in managers.items() if each != manager}
        result: Document = merged(self._of, self._had, self._document)
        if last is not None:
            result = self._pruned(result, {**others, manager: now}, last)
        removed, changed = (
            kept_fields(write, each) for each in differences(self._of, self._had, result)
        )
        after = stored_form(write.kind, result)
        conflicts = [] if force else self._conflicts(others, changed, after)
        if conflicts:
            allowed = self._from_client_side() if write.manager == KUBECTL else {}
            conflicts = [each for each in conflicts if not contains(allowed, each[1])]
            if conflicts:
                raise conflict_refusal(conflicts)
        left = take_fields(write, self._live, after, others, removed, changed)
        owned = without(fields, UNOWNED)
        if owned:
            if result == self._had:  # an apply that changes nothing has no time
                now = now._replace(time=None if last is None else last.time)
            left[manager] = now._replace(fields=owned)
        return result, left

    def _conflicts(self, others: Managers, changed: FieldSet, after: Document) -> list[Conflict]:
        """Returns the fields that other managers own and that the apply changes."""
        write, found = self._write, list[Conflict]()
        versions: dict[str, FieldSet] = {write.kind.api_version: changed}
        for manager in sorted(others, key=identifier):
            owned = others[manager]
            version = owned.api_version
            if version not in versions:
                kind = other_version(write, version)
                if kind is None:
                    continue
                live = {} if self._live is None else served_form(kind, self._live)
                of = merge_type(write.catalog, kind)
                _, news = differences(of, live, served_form(kind, after))
                versions[version] = kept_fields(write, news)
            both = common(owned.fields, versions[version])
            found += [(manager, path) for path in paths(both)]
        return found

    def _pruned(self, result: Document, managers: Managers, last: Owned) -> Document:
        """Returns the object without what its manager applied last, and what nobody owns now."""
        kind = other_version(self._write, last.api_version)
        if kind is None:
            return result
        of = merge_type(self._write.catalog, kind)
        whole = self._in_version(result, last.api_version)
        last_fields = with_named_fields(of, last.fields)
        pruned = stripped(of, whole, last_fields)
        by_version: dict[str, FieldSet] = {}
        for owned in managers.values():
            had = by_version.get(owned.api_version, {})
            by_version[owned.api_version] = united(had, owned.fields)
        for version in sorted(by_version, key=lambda each: each != last.api_version):
            pruned = self._with_owned(whole, pruned, last.api_version, version, by_version[version])
        pruned_fields = with_named_fields(of, named_fields(of, pruned))
        whole_fields = with_named_fields(of, named_fields(of, whole))
        gone = common(without(whole_fields, pruned_fields), last_fields)
        return self._in_version(stripped(of, whole, gone), self._write.kind.api_version, kind)

    def _with_owned(
        self, whole: Document, pruned: Document, at: str, version: str, owned: FieldSet
    ) -> Document:
        """Returns the pruned object with those fields of the whole one that are owned in a version.
        Both are in the version `at`.
        """
        kind, here = other_version(self._write, version), other_version(self._write, at)
        if kind is None or here is None:
            return pruned
        of = merge_type(self._write.catalog, kind)
        whole, pruned = (served_form(kind, stored_form(here, each)) for each in (whole, pruned))
        of_whole, of_pruned = (
            with_named_fields(of, named_fields(of, each)) for each in (whole, pruned)
        )
        kept = united(of_pruned, with_named_fields(of, owned))
        back: Document = stripped(of, whole, without(of_whole, kept))
        return served_form(here, stored_form(kind, back))

    def _in_version(self, document: Document, version: str, of: Any = None) -> Document:
        """Returns a document of one version of the kind in another."""
        kind = other_version(self._write, version)
        if kind is None:
            return document
        return served_form(kind, stored_form(of or self._write.kind, document))

    def _from_client_side(self) -> FieldSet:
        """Returns the fields that client-side apply set last, and that are still as it set them."""
        text = ((self._had.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
        try:
            last = msgspec.json.decode(text) if text else None
        except ValueError:
            last = None
        if not isinstance(last, dict) or last.get("apiVersion") != self._write.kind.api_version:
            return {}
        if apply_problems(self._of, last):
            return {}
        fields = named_fields(self._of, last)
        for found in differences(self._of, last, self._had):
            fields = without(fields, found)
        return fields


def conflict_refusal(conflicts: Sequence[Conflict]) -> RefusedError:
    """Returns the refusal with 409 of an apply, with a cause for each conflict."""
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_manager_text(manager)}",
            "field": path_text(path),
        }
        for manager, path in conflicts
    ]
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        what = f"1 conflict: conflict with {_manager_text(manager)}: {path_text(path)}"
    else:
        lines: list[str] = []
        for manager in dict.fromkeys(manager for manager, _ in conflicts):
            lines.append(f"conflicts with {_manager_text(manager)}:")
            lines += [f"- {path_text(path)}" for each, path in conflicts if each == manager]
        what = f"{len(conflicts)} conflicts: " + "\n".join(lines)
    return RefusedError(409, "Conflict", f"Apply failed with {what}", {"causes": causes})


def _manager_text(manager: Manager) -> str:
    text = msgspec.json.encode(manager.name).decode()
    if manager.subresource:
        text = f'{text} with subresource "{manager.subresource}"'
    return f"{text} using {manager.api_version}" if manager.operation == UPDATE else text


def _check_document(write: FieldWrite, document: Document) -> None:
    """Raises RefusedError for a document that cannot be applied."""
    kind = write.kind
    told = document.get("apiVersion"), document.get("kind")
    sent = tuple(value if isinstance(value, str) else "" for value in told)
    if sent != (kind.api_version, kind.kind):
        named = _kind_text(*sent)
        raise RefusedError(400, "BadRequest", f"invalid object type: {named}")
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and metadata.get(ENTRIES) is not None:
        raise RefusedError(400, "BadRequest", "metadata.managedFields must be nil")
    problems = apply_problems(write.of, document)
    if problems:
        named = _name_text(write, document)
        why = problems[0] if len(problems) == 1 else "errors:\n  " + "\n  ".join(problems)
        message = f"failed to create typed patch object ({named}): {why}"
        raise RefusedError(500, "", message)


def _name_text(write: FieldWrite, document: Document) -> str:
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    place = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
    return f"{place}; {_kind_text(write.kind.api_version, write.kind.kind)}"


def _kind_text(api_version: str, kind: str) -> str:
    return f"{'' if '/' in api_version else '/'}{api_version}, Kind={kind}"


def _first_managers(write: FieldWrite, had: Document) -> Managers:
    """Returns the manager of all fields of an object that nobody tracked."""
    _, fields = differences(write.of, {}, had)
    fields = without(kept_fields(write, fields), UNOWNED)
    if not fields:
        return {}
    version = write.kind.api_version
    manager = manager_of(BEFORE, UPDATE, version, write.subresource)
    return {manager: Owned(version, fields, write.now)}


def _last_applied(document: Document) -> str:
    """Returns a document as the annotation of client-side apply holds it."""
    metadata = dict(document.get("metadata") or {})
    if annotations := dict(metadata.get("annotations") or {}):
        annotations.pop(LAST_APPLIED, None)
        metadata["annotations"] = annotations
    sent = {**document, "metadata": metadata}
    return msgspec.json.encode(sent, order="sorted").decode() + "\n"

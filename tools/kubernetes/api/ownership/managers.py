"""The entries of managedFields: the managers of an object, and the fields that each owns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ..types.field_entries import Entry
from .field_sets import FieldSet, FieldSetError, ordered, read, united

APPLY, UPDATE = "Apply", "Update"
MOST_UPDATERS = 10  # that have an entry of their own
ANCIENT = "ancient-changes"
_MOST = 4096
_ENCODER = msgspec.json.Encoder()
_sets: dict[bytes, FieldSet] = {}


class ManagedFieldsError(ValueError):
    """Entries that Kubernetes could not read."""


class Manager(NamedTuple):
    """What tells an entry from the others. `api_version` is "" for an entry of an apply, because a
    manager has one, whatever version it applies.
    """

    name: str
    operation: str
    api_version: str
    subresource: str


class Owned(NamedTuple):
    """The fields that a manager owns, in an API version, and the time of its last write."""

    api_version: str
    fields: FieldSet
    time: str | None


Managers = dict[Manager, Owned]


def manager_of(name: str, operation: str, api_version: str, subresource: str) -> Manager:
    version = "" if operation == APPLY else api_version
    return Manager(name or "unknown", operation, version, subresource)


def read_managers(entries: Sequence[Entry], *, is_own: bool = False) -> Managers:
    """Returns the managers in the entries of an object. Raises ManagedFieldsError.

    The sets of a client are brought into the form of the server's own.
    """
    managers: Managers = {}
    for i, entry in enumerate(entries):
        operation, version = entry.get("operation"), entry.get("apiVersion")
        if operation not in (APPLY, UPDATE):
            raise ManagedFieldsError("operation must be `Apply` or `Update`")
        if not version:
            raise ManagedFieldsError("apiVersion must not be empty")
        kind = entry.get("fieldsType")
        if kind != "FieldsV1":
            problem = f'invalid fieldsType "{kind}"' if kind else "missing fieldsType"
            raise ManagedFieldsError(f"{problem} in managed fields entry {i}")
        fields = entry.get("fieldsV1") or {}
        if not is_own:
            try:
                fields = read(fields)
            except FieldSetError as problem:
                raise ManagedFieldsError(f"error decoding set: {problem}") from None
        name, subresource = entry.get("manager", ""), entry.get("subresource", "")
        manager = Manager(name, operation, "" if operation == APPLY else version, subresource)
        managers[manager] = Owned(version, fields, entry.get("time"))
    return managers


def entry_rows(managers: Mapping[Manager, Owned]) -> list[Entry]:
    """Returns the entries of managers, in the order in which Kubernetes writes them."""
    rows = sorted(
        managers.items(),
        key=lambda row: (
            row[0].operation,
            row[1].time or "",
            row[0].name,
            row[1].api_version,
            row[0].subresource,
        ),
    )
    return [_entry(manager, owned) for manager, owned in rows]


def shared_fields(fields: FieldSet) -> FieldSet:
    """Returns the one copy of a set, in the order in which Kubernetes writes it."""
    key = _ENCODER.encode(fields)
    shared = _sets.get(key)
    if shared is None:
        if len(_sets) >= _MOST:
            _sets.clear()
        shared = _sets[key] = ordered(fields)
    return shared


def with_fewer_updaters(managers: Managers) -> Managers:
    """Returns the managers, the oldest of too many that updated put together, for each version."""
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    left = len(updaters)
    if left <= MOST_UPDATERS:
        return managers
    updaters.sort(key=lambda manager: (managers[manager].time or "", identifier(manager)))
    result = dict(managers)
    first: dict[str, Manager] = {}
    for manager in updaters:
        if left <= MOST_UPDATERS:
            break
        owned = result[manager]
        version = owned.api_version
        if version not in first:
            first[version] = manager
            continue
        bucket = Manager(ANCIENT, UPDATE, version, "")
        if bucket not in result:
            result[bucket] = result.pop(first[version])
        fields = united(owned.fields, result[bucket].fields)
        result[bucket] = Owned(version, fields, owned.time)
        if manager != bucket:
            del result[manager]
        left -= 1
    return result


def identifier(manager: Manager) -> str:
    """Returns the text by which Kubernetes sorts managers."""
    name, operation, version, subresource = manager
    parts: dict[str, Any] = {"manager": name, "operation": operation}
    if version:
        parts["apiVersion"] = version
    if subresource:
        parts["subresource"] = subresource
    return msgspec.json.encode(parts).decode()


def _entry(manager: Manager, owned: Owned) -> Entry:
    entry: Entry = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": owned.api_version,
    }
    if owned.time is not None:
        entry["time"] = owned.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": shared_fields(owned.fields)}
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry

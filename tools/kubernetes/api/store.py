"""The store: objects as JSON documents under one revision counter, with a history for watchers.

A document is never changed in place: every write stores a new one, which is encoded at most once
however many clients read it. Watchers read the history of a kind from a revision on. A revision
older than the history is compacted: a client that asks for it must list again. Mirrors the part of
etcd that the API server's watch cache shows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import EllipsisType
from typing import Any, Protocol

import msgspec

from .ledger import Ledger
from .time_and_chance import TimeAndChance
from .types.admission_plugins import DEFAULT_PLUGINS
from .types.api_documents import ENTRIES, Document, RefusedError, StoredObject, names_of
from .types.catalog import CURRENT_CATALOG, Catalog
from .types.field_entries import FieldEntries, compacted_entries
from .types.releases import Release
from .types.resources import BY_KIND, Kind

Key = tuple[str, str]
HISTORY = 100_000
MOST_ENDED = 16  # kinds whose history is kept after their definitions are gone
RECENT = 1000  # events whose documents are kept as they are; of older ones the JSON is enough
DEFINITIONS = BY_KIND["apiextensions.k8s.io/v1", "CustomResourceDefinition"]


class StoreEvent(msgspec.Struct, frozen=True):
    """A write of one type: ADDED, MODIFIED or DELETED.

    `after` is the object after the write (for DELETED, its last form), `before` the object that the
    write replaced or deleted. `renews` is the key of a lease if only its renewTime changes.
    `is_heartbeat` is True for a node if only the lastHeartbeatTime of conditions changes.
    """

    type: str
    after: StoredObject
    before: StoredObject | None
    renews: Key | None = None
    is_heartbeat: bool = False


class Shelf:
    """The objects of one kind and their history."""

    def __init__(self, history: int, compacted: int) -> None:
        self.objects: dict[Key, StoredObject] = {}
        self.order: list[Key] | None = None  # the sorted keys; None after one was added or removed
        self.history: deque[StoreEvent] = deque(maxlen=history)
        self.compacted = compacted  # the last revision that was dropped from the history
        self.latest = 0  # the revision of the last write
        # To be called once, at the next write; a dictionary, as most of them give up before it.
        self.waiting: dict[Callable[[], None], None] = {}

    def sorted_keys(self) -> list[Key]:
        if self.order is None:
            self.order = sorted(self.objects)
        return self.order

    def keep(self, stored: StoredObject) -> None:
        """Adds or replaces an object."""
        key = names_of(stored.document)
        if key not in self.objects:
            self.order = None
        self.objects[key] = stored

    def remember(self, event: StoreEvent) -> None:
        """Adds an event to the history."""
        history, self.latest = self.history, event.after.revision
        if len(history) == history.maxlen and history:
            self.compacted = history[0].after.revision
        history.append(event)
        if len(history) > RECENT and (replaced := history[-RECENT].before) is not None:
            replaced.pack()

    def wake(self) -> None:
        """Wakes the tasks that wait for the next write."""
        if self.waiting:
            waiting, self.waiting = self.waiting, {}
            for wake in waiting:
                wake()


class TokenSigner(Protocol):
    """A key with its algorithm, as JSON Web Signatures name it."""

    @property
    def algorithm(self) -> str: ...
    @property
    def key_id(self) -> str: ...
    def sign(self, text: bytes) -> bytes: ...
    def is_signed(self, text: bytes, signature: bytes) -> bool: ...
    def public_keys(self) -> list[Document]: ...


class Store:
    """The objects of all kinds. Calls `journal` with the kind and the event of every write, before
    anything changes.

    `outside` gives objects their times, uids and generated names. A write fails if the journal
    raises. `catalog` says which kinds and fields are served, `plugins` which admission plugins run.
    While it is not `secure`, who shows no credentials is the administrator. `token_signer` signs
    tokens, if there is one. `root_certificate` is the certificate, in PEM, of the authority that
    signed the server's; "" without TLS.
    """

    def __init__(
        self,
        outside: TimeAndChance,
        history: int = HISTORY,
        journal: Callable[[Kind, StoreEvent], None] | None = None,
    ) -> None:
        self.outside = outside
        self.revision = 1
        self.catalog = CURRENT_CATALOG
        self._asks_webhooks = False
        self.plugins = DEFAULT_PLUGINS
        self.secure = False
        self.token_signer: TokenSigner | None = None
        self.root_certificate = ""
        self.is_configured = False  # see writes/first_configuration.py
        # What the rules of access/rights.py have found, by user and namespace.
        self.grants: dict[tuple[str, tuple[str, ...], str], Any] | None = None
        # The revisions at which objects were completed that depend on others, by what does that.
        self._completed: dict[Callable[[Store], None], tuple[int, ...]] = {}
        # What quotas count, by namespace, where there are any; None until it is counted.
        self.ledgers: dict[str, Ledger | None] = {}
        self._history = history
        self._journal = journal
        self._shelves: dict[Kind, Shelf] = {}
        self._ended: deque[Kind] = deque()  # kinds whose definitions are gone
        self._compacted = 0  # for kinds that have no shelf yet

    @property
    def release(self) -> Release:
        """The release whose kinds and fields are served, beside the added kinds."""
        return self.catalog.release

    @release.setter
    def release(self, release: Release) -> None:
        self.catalog = Catalog(release, self.catalog.added)

    def fork(self, journal: Callable[[Kind, StoreEvent], None] | None = None) -> Store:
        """Returns a store with the same objects, but no history and no journal of this one.

        Writing to it does not change this one.
        """
        other = Store(self.outside, 0, journal)
        other.revision = self.revision
        other.catalog, other.plugins = self.catalog, self.plugins
        other._asks_webhooks = self._asks_webhooks
        other.secure, other.token_signer = self.secure, self.token_signer
        other.root_certificate = self.root_certificate
        other.ledgers, other._completed = dict.fromkeys(self.ledgers), dict(self._completed)
        for kind, shelf in self._shelves.items():
            there = other._shelf(kind)
            there.objects, there.order = dict(shelf.objects), shelf.order
            there.latest = shelf.latest
        return other

    def has_before(self, written: Iterable[tuple[Kind, StoreEvent]]) -> bool:
        """True if the objects that were written to a fork are here as they were there before."""
        there: dict[tuple[Kind, Key], StoredObject | None] = {}
        for kind, event in written:
            key = names_of(event.after.document)
            place = kind.stored_as or kind, key
            if there.get(place, self.lookup(kind, *key)) is not event.before:
                return False
            there[place] = None if event.type == "DELETED" else event.after
        return True

    def adopt(
        self, fork: Store, written: Sequence[tuple[Kind, StoreEvent]]
    ) -> Mapping[int, StoredObject]:
        """Writes here what was written to a fork. Returns the objects as they are here by the
        revisions that they have there.
        """
        here = {}
        for kind, event in written:
            after = event.after
            before = self.lookup(kind, *names_of(after.document))
            here[after.revision] = self._put(
                kind, event.type, after.document, before, after.entries
            )
        if written:  # the sums of quotas are those of the fork
            self.ledgers = dict.fromkeys({**self.ledgers, **fork.ledgers})
        return here

    def restore(self, kind: Kind, document: Document) -> None:
        """Puts back an object of an earlier run at its own revision, without an event."""
        metadata = dict(document["metadata"])
        revision = int(metadata["resourceVersion"])
        entries = compacted_entries(metadata.pop(ENTRIES, None) or [])
        stored = StoredObject({**document, "metadata": metadata}, revision, None, None, entries)
        self.put_back(kind, names_of(document), stored)

    def put_back(self, kind: Kind, key: Key, stored: StoredObject) -> None:
        """Restores an object whose document nobody has read yet."""
        shelf = self._shelf(kind)
        shelf.objects[key] = stored
        shelf.order = None
        shelf.latest = max(shelf.latest, stored.revision)
        self.revision = max(self.revision, stored.revision)
        if kind is DEFINITIONS:
            self._serve(stored.document)

    def repeat(self, kind: Kind, event: StoreEvent) -> None:
        """Makes a write that another store has made after the same writes."""
        if self._journal is not None:
            self._journal(kind, event)
        self.revision = event.after.revision
        shelf = self._shelf(kind)
        shelf.keep(event.after)
        shelf.remember(event)

    def compact(self) -> None:
        """Drops the history: watches from an earlier revision are answered with 410."""
        self._compacted = self.revision
        for shelf in self._shelves.values():
            shelf.history.clear()
            shelf.compacted = self.revision

    def compact_to(self, revision: int) -> None:
        """Drops the events up to a revision. Kinds that have none stay as they are."""
        for shelf in self._shelves.values():
            history = shelf.history
            while history and history[0].after.revision <= revision:
                shelf.compacted = history.popleft().after.revision

    def everything(self) -> Iterator[tuple[Kind, StoredObject]]:
        return (
            (kind, stored)
            for kind, shelf in self._shelves.items()
            for stored in list(shelf.objects.values())
        )

    def lookup(self, kind: Kind, namespace: str, name: str) -> StoredObject | None:
        """Returns an object with its revision, if there is one."""
        shelf = self._shelves.get(kind.stored_as or kind)
        return None if shelf is None else shelf.objects.get((namespace, name))

    def find(self, kind: Kind, namespace: str, name: str) -> Document | None:
        """Returns the document of an object, if there is one."""
        stored = self.lookup(kind, namespace, name)
        return None if stored is None else stored.document

    def count(self, kind: Kind) -> int:
        """Returns the number of objects of a kind."""
        shelf = self._shelves.get(kind)
        return 0 if shelf is None else len(shelf.objects)

    def latest(self, kind: Kind) -> int:
        """Returns the revision of the last write of a kind; 0 if there was none."""
        shelf = self._shelves.get(kind)
        return 0 if shelf is None else shelf.latest

    def after_writes(self, complete: Callable[[Store], None], sources: Collection[Kind]) -> None:
        """Calls what completes objects, if an object of these kinds was written since it was called
        last.
        """
        if self._completed.get(complete) != tuple(map(self.latest, sources)):
            complete(self)
            self._completed[complete] = tuple(map(self.latest, sources))

    def has(self, kind: Kind) -> bool:
        """True if there is an object of this kind."""
        shelf = self._shelves.get(kind)
        return shelf is not None and bool(shelf.objects)

    def stored(self, kind: Kind, namespace: str, name: str) -> StoredObject:
        """Returns an object with its revision. Raises RefusedError with 404."""
        stored = self.lookup(kind, namespace, name)
        if stored is None:
            details = {"name": name, "group": kind.group, "kind": kind.plural}
            raise RefusedError(404, "NotFound", f'{kind.resource} "{name}" not found', details)
        return stored

    def get(self, kind: Kind, namespace: str, name: str) -> Document:
        """Returns the document of an object. Raises RefusedError with 404."""
        return self.stored(kind, namespace, name).document

    def list(
        self, kind: Kind, namespace: str = "", after: Key | None = None
    ) -> Iterator[StoredObject]:
        """Yields the objects in the order of namespace and name; "" is all namespaces.

        With `after`, only the objects that follow this key are included.
        """
        shelf = self._shelf(kind)
        return _range(shelf.objects, shelf.sorted_keys(), namespace, after)

    def list_at(
        self, kind: Kind, revision: int, namespace: str = "", after: Key | None = None
    ) -> Iterator[StoredObject]:
        """Yields the objects as they were at a revision, like `list`; 0 is the latest.

        Raises RefusedError with 410 for a compacted revision.
        """
        undone: dict[Key, StoredObject | None] = {}
        for event in reversed(self.since(kind, revision) if revision else ()):
            undone[names_of(event.after.document)] = event.before
        if not undone:
            return self.list(kind, namespace, after)
        shelf = self._shelf(kind)
        past = {**shelf.objects, **undone}
        objects = {key: stored for key, stored in past.items() if stored is not None}
        order = shelf.sorted_keys() if objects.keys() == shelf.objects.keys() else sorted(objects)
        return _range(objects, order, namespace, after)

    def create(
        self, kind: Kind, document: Document, entries: FieldEntries | None = None
    ) -> StoredObject:
        """Adds an object with its managedFields. Raises RefusedError with 409 if the name is
        taken.
        """
        key = names_of(document)
        there = self._shelf(kind).objects.get(key)
        if there is not None:
            details = {"name": key[1], "group": kind.group, "kind": kind.plural}
            message = f'{kind.resource} "{key[1]}" already exists'
            if "deletionTimestamp" in there.document["metadata"]:
                message = f"object is being deleted: {message}"
            raise RefusedError(409, "AlreadyExists", message, details)
        return self._put(kind, "ADDED", document, None, entries)

    def update(
        self, kind: Kind, document: Document, entries: FieldEntries | EllipsisType | None = ...
    ) -> StoredObject:
        """Replaces an object and its managedFields. Without `entries` it keeps those.

        Raises RefusedError: 404 if it does not exist, 409 if the document's resourceVersion is not
        the latest.
        """
        namespace, name = names_of(document)
        before = self.stored(kind, namespace, name)
        latest = before.document["metadata"]["resourceVersion"]
        if (document["metadata"].get("resourceVersion") or latest) != latest:
            raise _outdated(kind, name)
        if entries is ... or (entries is not None and entries.differs_in_times(before.entries)):
            kept = before.entries
        else:
            kept = entries
        if (
            kept == before.entries
            and document.get("spec") == before.document.get("spec")  # these differ most often
            and document.get("status") == before.document.get("status")
            and {
                **document,
                "metadata": {**document["metadata"], "resourceVersion": latest},
            }
            == before.document
        ):
            return before
        kept = before.entries if entries is ... else entries
        return self._put(kind, "MODIFIED", document, before, kept)

    def renew(self, kind: Kind, namespace: str, names: Iterable[str], time: str) -> Sequence[str]:
        """Sets the renewTime of leases, and nothing else. Returns the names of the leases that do
        not exist.
        """
        shelf, journal = self._shelf(kind), self._journal
        objects, missing = shelf.objects, []
        try:
            for name in names:
                key = namespace, name
                before = objects.get(key)
                if before is None:
                    missing.append(name)
                    continue
                after = before.renewed(time, self.revision + 1)
                event = StoreEvent("MODIFIED", after, before, key)
                if journal is not None:
                    journal(kind, event)
                self.revision = after.revision
                shelf.remember(event)
                objects[key] = after
        finally:
            shelf.wake()
        return missing

    def heartbeat(
        self, kind: Kind, name: str, version: str, conditions: Collection[str], time: str
    ) -> StoredObject:
        """Sets the lastHeartbeatTime of conditions of a node, given by their types, and nothing
        else. Raises RefusedError: 404 if the node does not exist, 409 if it has another version.
        """
        before = self.stored(kind, "", name)
        node = before.document
        if node["metadata"]["resourceVersion"] != version:
            raise _outdated(kind, name)
        status = node["status"]
        held = status["conditions"]
        beaten = [
            {**each, "lastHeartbeatTime": time} if each["type"] in conditions else each
            for each in held
        ]
        if beaten == held:
            return before
        after = {**node, "status": {**status, "conditions": beaten}}
        return self._put(kind, "MODIFIED", after, before, before.entries, is_heartbeat=True)

    def delete(self, kind: Kind, namespace: str, name: str) -> StoredObject:
        """Removes an object. Raises RefusedError with 404."""
        before = self.stored(kind, namespace, name)
        return self._put(kind, "DELETED", before.document, before, before.entries)

    def since(self, kind: Kind, revision: int) -> Sequence[StoreEvent]:
        """Returns the events of a kind after a revision, oldest first.

        Raises RefusedError with 410 if the history does not reach back that far.
        """
        self.check_known(kind, revision)
        fresh: list[StoreEvent] = []
        for event in reversed(self._shelf(kind).history):
            if event.after.revision <= revision:
                break
            fresh.append(event)
        fresh.reverse()
        return fresh

    def compacted(self, kind: Kind) -> int:
        """Returns the last revision that the history of a kind no longer has."""
        return self._shelf(kind).compacted

    def check_known(self, kind: Kind, revision: int) -> None:
        """Raises RefusedError with 410 for a compacted revision, and for a revision above the
        present one, which comes from another store.
        """
        compacted = self._shelf(kind).compacted
        if revision < compacted:
            raise RefusedError(
                410, "Expired", f"too old resource version: {revision} ({compacted})"
            )
        if revision > self.revision:
            raise RefusedError(
                410, "Expired", f"too large resource version: {revision}, current: {self.revision}"
            )

    def at_next_write(self, kind: Kind, wake: Callable[[], None]) -> None:
        """Calls `wake` once, at the next write of a kind."""
        self._shelf(kind).waiting[wake] = None

    def call_off(self, kind: Kind, wake: Callable[[], None]) -> None:
        """Takes back what `at_next_write` was asked for."""
        self._shelf(kind).waiting.pop(wake, None)

    def _shelf(self, kind: Kind) -> Shelf:
        kind = kind.stored_as or kind
        shelf = self._shelves.get(kind)
        if shelf is None:
            shelf = self._shelves[kind] = Shelf(self._history, self._compacted)
        return shelf

    def _put(
        self,
        kind: Kind,
        happened: str,
        document: Document,
        before: StoredObject | None,
        entries: FieldEntries | None,
        *,
        is_heartbeat: bool = False,
    ) -> StoredObject:
        revision = self.revision + 1
        metadata = {**document["metadata"], "resourceVersion": str(revision)}
        written = StoredObject({**document, "metadata": metadata}, revision, None, None, entries)
        event = StoreEvent(happened, written, before, None, is_heartbeat)
        if self._journal is not None:
            self._journal(kind, event)
        self.revision = revision
        shelf = self._shelf(kind)
        if happened == "DELETED":
            del shelf.objects[names_of(document)]
            shelf.order = None
        else:
            shelf.keep(written)
        shelf.remember(event)
        shelf.wake()
        if kind is DEFINITIONS:
            self._serve(document, gone=happened == "DELETED")
        return written

    def ask_conversion_webhooks(self) -> None:
        """Converts custom objects by webhooks from now on, where their definitions say so."""
        self._asks_webhooks = True
        for stored in list(self.list(DEFINITIONS)):
            self._serve(stored.document)

    def _serve(self, definition: Document, *, gone: bool = False) -> None:
        """Serves what a definition of a custom kind says; nothing of it once it is gone.

        Objects of the kind are then read as the definition says now.
        """
        from .types.custom_definitions import followed  # most stores have no custom kinds

        self.catalog, hub, read = followed(
            self.catalog, definition, gone=gone, webhooks=self._asks_webhooks
        )
        shelf = None if hub is None else self._shelves.get(hub)
        if hub is None or shelf is None:
            return
        self.ledgers = dict.fromkeys(self.ledgers)
        if gone:  # its watches have yet to read the end of its history
            self._ended.append(hub)
            if len(self._ended) > MOST_ENDED:
                self._shelves.pop(self._ended.popleft(), None)
        for key, stored in shelf.objects.items():
            document = read(stored.document)
            if document is not stored.document:
                shelf.objects[key] = StoredObject(document, stored.revision, entries=stored.entries)
        shelf.wake()


def _range(
    objects: Mapping[Key, StoredObject], order: list[Key], namespace: str, after: Key | None
) -> Iterator[StoredObject]:
    """Yields the objects of a namespace, "" for all, after a key."""
    first = max((namespace, ""), after or ("", ""))
    at = (
        bisect_right(order, after)
        if after is not None and after >= first
        else bisect_left(order, first)
    )
    for key in islice(order, at, None):
        if namespace and key[0] != namespace:
            return
        stored = objects.get(key)  # it may have been deleted meanwhile
        if stored is not None:
            yield stored


def _outdated(kind: Kind, name: str) -> RefusedError:
    message = (
        f'Operation cannot be fulfilled on {kind.resource} "{name}": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return RefusedError(409, "Conflict", message, details)

"""The API server's objects in random histories: the events of watches, lists of earlier revisions,
and the contents of the journal.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from berth.tools.cluster.apiserver.journal import Journal
from berth.tools.kubernetes.api.requests.list_pages import list_page
from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.examples import examples

MAPS, PODS = BY_KIND["v1", "ConfigMap"], BY_KIND["v1", "Pod"]
KINDS = st.sampled_from([MAPS, PODS])
SPACES = st.sampled_from(["default", "kube-system"])
NAMES = st.sampled_from(["a", "b", "c"])
WORDS = st.sampled_from(["x", "y"])
Key = tuple[str, str, str]
Contents = dict[Key, dict[str, Any]]


def contents(store: Store) -> Contents:
    documents: Contents = {}
    for kind, stored in store.everything():
        metadata = stored.document["metadata"]
        documents[kind.kind, metadata.get("namespace", ""), metadata["name"]] = stored.document
    return documents


class StoreHistory(RuleBasedStateMachine):
    """`past` maps each revision that is not compacted to the objects at that revision."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "journal")
        self.journal = Journal(self.path)
        self.past: dict[int, Contents] = {}
        self.uids: set[str] = set()

    @property
    def store(self) -> Store:
        return self.journal.store

    @initialize()
    def seed(self) -> None:
        Api(self.store).seed()
        self.store.compact()
        self.remember()

    def remember(self) -> None:
        self.past[self.store.revision] = contents(self.store)

    @rule(kind=KINDS, space=SPACES, name=NAMES, label=WORDS, finalizer=st.booleans())
    def create(self, kind: Any, space: str, name: str, label: str, finalizer: bool) -> None:
        metadata = {
            "name": name,
            "labels": {"l": label},
            **({"finalizers": ["berth.dev/f"]} if finalizer else {}),
        }
        spec = {"spec": {"containers": [{"name": "c", "image": "i"}]}} if kind is PODS else {}
        taken = self.store.find(kind, space, name) is not None
        if taken:
            with pytest.raises(RefusedError, match="already exists"):
                Api(self.store).create(kind, space, {"metadata": metadata, **spec})
        else:
            created = Api(self.store).create(kind, space, {"metadata": metadata, **spec})
            assert created.document["metadata"]["uid"] not in self.uids
            self.uids.add(created.document["metadata"]["uid"])
        self.remember()

    @rule(kind=KINDS, space=SPACES, name=NAMES, label=WORDS, stale=st.booleans())
    def update(self, kind: Any, space: str, name: str, label: str, stale: bool) -> None:
        before = self.store.find(kind, space, name)
        if before is None:
            return
        revision = self.store.revision
        metadata = {**before["metadata"], "labels": {"l": label}}
        if stale:
            metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) - 1)
            with pytest.raises(RefusedError, match="the object has been modified"):
                Api(self.store).update(kind, space, name, {**before, "metadata": metadata}, "")
            assert self.store.revision == revision
        else:
            Api(self.store).update(kind, space, name, {**before, "metadata": metadata}, "")
            same = before["metadata"]["labels"] == {"l": label}
            assert (self.store.revision == revision) == same, (
                "a write that changes nothing got a new revision"
            )
        self.remember()

    @rule(kind=KINDS, space=SPACES, name=NAMES, label=WORDS, release=st.booleans())
    def patch(self, kind: Any, space: str, name: str, label: str, release: bool) -> None:
        if self.store.find(kind, space, name) is None:
            return
        body = {"metadata": {"labels": {"l": label}, **({"finalizers": None} if release else {})}}
        Api(self.store).patch(kind, space, name, body, MERGE, "")
        document = self.store.find(kind, space, name)
        assert document is None or not release or "deletionTimestamp" not in document["metadata"]
        self.remember()

    @rule(kind=KINDS, space=SPACES, name=NAMES)
    def delete(self, kind: Any, space: str, name: str) -> None:
        before = self.store.find(kind, space, name)
        if before is None:
            return
        Api(self.store).delete(kind, space, name, DeleteOptions())
        after = self.store.find(kind, space, name)
        assert (after is not None) == bool(before["metadata"].get("finalizers"))
        self.remember()

    @rule()
    def compact(self) -> None:
        self.store.compact()
        self.past.clear()
        self.remember()

    @rule()
    def restart(self) -> None:
        before, revision = contents(self.store), self.store.revision
        self.journal.__exit__(None, None, None)
        self.journal = Journal(self.path)
        assert contents(self.store) == before
        assert self.store.revision == revision
        self.past.clear()
        self.remember()

    @rule(name=NAMES, label=WORDS, cut=st.integers(1, 50))
    def crash_within_a_write(self, name: str, label: str, cut: int) -> None:
        """The last line is cut off: the server restarts with its state before that write."""
        if self.store.find(MAPS, "default", name) is None:
            return
        before, revision = contents(self.store), self.store.revision
        Api(self.store).patch(
            MAPS, "default", name, {"metadata": {"annotations": {"a": label}}}, MERGE, ""
        )
        written = self.store.revision > revision
        self.journal.__exit__(None, None, None)
        raw = self.path.read_bytes()
        self.path.write_bytes(raw[:-cut] if written else raw)
        self.journal = Journal(self.path)
        assert contents(self.store) == before
        assert self.store.revision == revision
        self.past.clear()
        self.remember()

    @invariant()
    def a_watcher_ends_up_with_what_is_listed(self) -> None:
        now = contents(self.store)
        for revision, then in self.past.items():
            seen, last = dict(then), revision
            for kind in (MAPS, PODS):
                last = revision
                for event in self.store.since(kind, revision):
                    metadata = event.after.document["metadata"]
                    key = (kind.kind, metadata["namespace"], metadata["name"])
                    assert int(metadata["resourceVersion"]) == event.after.revision > last
                    last = event.after.revision
                    assert (event.type == "ADDED") == (key not in seen)
                    assert (event.before is None) == (key not in seen)
                    if event.type == "DELETED":
                        del seen[key]
                    else:
                        seen[key] = event.after.document
            assert seen == now

    @invariant()
    def a_list_shows_a_revision_as_it_was(self) -> None:
        for revision, then in self.past.items():
            for kind in (MAPS, PODS):
                for space in ("", "default"):
                    expected = [
                        document
                        for (of, within, _), document in sorted(then.items())
                        if of == kind.kind and space in ("", within)
                    ]
                    seen = self.store.list_at(kind, revision, space)
                    assert [stored.document for stored in seen] == expected

    @rule(data=st.data(), kind=KINDS, limit=st.integers(1, 3))
    def list_in_pages(self, data: st.DataObject, kind: Any, limit: int) -> None:
        """The first page was read at an earlier revision; since then objects have changed."""
        revision = data.draw(st.sampled_from(sorted(self.past)))
        query = {"resourceVersion": str(revision), "limit": str(limit)}
        seen: list[Any] = []
        while True:
            page = list_page(self.store, kind, "", query, None)
            assert page.revision == revision
            seen += [stored.document for stored in page.items]
            if not page.token:
                break
            assert len(page.items) == limit
            query = {"continue": page.token, "limit": str(limit)}
        then = sorted(self.past[revision].items())
        assert seen == [document for (of, _, _), document in then if of == kind.kind]

    @invariant()
    def what_is_forgotten_or_yet_to_come_is_expired(self) -> None:
        if not self.past:
            return
        for revision in (min(self.past) - 1, self.store.revision + 1):
            for kind in (MAPS, PODS, BY_KIND["v1", "Secret"]):
                with pytest.raises(RefusedError) as refused:
                    self.store.since(kind, revision)
                assert refused.value.code == 410

    def teardown(self) -> None:
        self.journal.__exit__(None, None, None)
        self.folder.cleanup()


TestStoreHistory = StoreHistory.TestCase
TestStoreHistory.settings = examples(0.4)

"""The store and its journal, for cases that the random histories of tests/properties do
not reach.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from berth.tools.cluster.apiserver.journal import Journal
from berth.tools.cluster.apiserver.kept_errors import JournalError
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from tests.kit.documents import thing
from tests.kit.stores import fresh_store

MAPS = BY_KIND["v1", "ConfigMap"]
SECRETS = BY_KIND["v1", "Secret"]


def config_map(name: str, **data: str) -> dict[str, object]:
    return thing("ConfigMap", name, "n", data=data)


def test_a_full_history_forgets_its_oldest_events() -> None:
    store = fresh_store(history=2)
    revisions = [store.create(MAPS, config_map(name)).revision for name in "abc"]
    assert [event.after.revision for event in store.since(MAPS, revisions[0])] == revisions[1:]
    with pytest.raises(RefusedError, match="too old resource version: 1 ") as refused:
        store.since(MAPS, 1)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    assert list(store.since(SECRETS, 1)) == [], "each kind has a separate history"


def test_events_up_to_a_revision_are_compacted() -> None:
    store = fresh_store()
    revisions = [store.create(MAPS, config_map(name)).revision for name in "abc"]
    store.compact_to(revisions[1])
    assert [event.after.revision for event in store.since(MAPS, revisions[1])] == revisions[2:]
    with pytest.raises(RefusedError, match="too old resource version"):
        store.since(MAPS, revisions[0])
    assert list(store.since(SECRETS, 1)) == [], "a kind without events has lost nothing"


def test_the_documents_of_old_events_are_made_from_their_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("berth.tools.kubernetes.api.store.RECENT", 2)
    store = fresh_store()
    first = store.create(MAPS, config_map("a", k="0"))
    begun = first.document
    assert json.loads(first.raw) == begun, "somebody has read it"
    for number in range(1, 5):
        store.update(MAPS, config_map("a", k=str(number)))
    events = store.since(MAPS, 0)
    assert events[1].before is first
    assert first.document == begun
    assert first.document is not begun, "it is kept twice"
    assert [event.after.document["data"]["k"] for event in events] == [*"01234"]


def test_writes_to_a_fork_leave_the_store_unchanged() -> None:
    store = fresh_store()
    store.create(MAPS, config_map("a"))
    fork = store.fork()
    fork.create(MAPS, config_map("b"))
    fork.delete(MAPS, "n", "a")
    assert [stored.document["metadata"]["name"] for stored in store.list(MAPS)] == ["a"]
    assert store.revision == 2


def test_names_are_listed_in_order_and_within_a_namespace() -> None:
    store = fresh_store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a", "y")):
        store.create(MAPS, {"metadata": {"namespace": namespace, "name": name}})
    every = [
        (s.document["metadata"]["namespace"], s.document["metadata"]["name"])
        for s in store.list(MAPS)
    ]
    assert every == [("a", "y"), ("a", "z"), ("b", "x")]
    assert [s.document["metadata"]["name"] for s in store.list(MAPS, "a", after=("a", "y"))] == [
        "z"
    ]


def test_one_server_at_a_time_may_open_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "objects"
    with Journal(path), pytest.raises(JournalError, match="another server is using this file"):
        Journal(path)
    with Journal(path) as journal:
        assert journal.store.revision == 1


def test_the_journal_is_compacted(tmp_path: Path) -> None:
    path = tmp_path / "objects"
    with Journal(path) as journal:
        for number in range(50):
            journal.store.create(MAPS, config_map("a", number=str(number)))
            journal.store.delete(MAPS, "n", "a")
        journal.store.create(MAPS, config_map("kept"))
    assert len(path.read_bytes().splitlines()) == 102
    with Journal(path) as journal:
        assert len(path.read_bytes().splitlines()) == 2
        assert journal.store.revision == 102
        assert journal.store.get(MAPS, "n", "kept")["metadata"]["resourceVersion"] == "102"
        assert journal.store.create(MAPS, config_map("next")).revision == 103


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON",
        b"[]",
        b'{"type":"ADDED"}',
        b'{"type":"ADDED","object":{"metadata":{}}}',
        json.dumps(
            {"type": "ADDED", "object": {**config_map("a"), "metadata": {"resourceVersion": "x"}}}
        ).encode(),
        b'{"type":"ADDED","object":{"apiVersion":"v1","kind":"Boat","metadata":{"name":"a","resourceVersion":"3"}}}',
    ],
)
def test_an_invalid_line_is_an_error_and_the_file_stays_unchanged(
    tmp_path: Path, line: bytes
) -> None:
    path = tmp_path / "objects"
    with Journal(path) as journal:
        journal.store.create(MAPS, config_map("a"))
    path.write_bytes(before := path.read_bytes() + line + b"\n")
    with pytest.raises(JournalError, match="line 3: not a write of an API server"):
        Journal(path)
    assert path.read_bytes() == before


def test_a_file_that_is_not_a_journal_stays_unchanged(tmp_path: Path) -> None:
    """Its last line is not the cut-off line of a journal."""
    path = tmp_path / "notes"
    for content in (b"hello", b"\x00\x01\xff", b'{"type":"ADDED","obj', b'{"ty'):
        path.write_bytes(content)
        if content.startswith(b"{"):
            with Journal(path) as journal:
                assert not list(journal.store.everything())
        else:
            with pytest.raises(JournalError, match="notes, line 1: not a write of an API server"):
                Journal(path)
            assert path.read_bytes() == content

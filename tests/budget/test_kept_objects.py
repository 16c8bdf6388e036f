"""What many objects cost an API server, in calls: to load, to list, and to show to many watchers.

The bounds are a quarter above what was measured. At a tenth of a microsecond for a call, 100,000
objects are loaded in a second, and a list of 50,000 pods takes a tenth of one.
"""

from __future__ import annotations

from pathlib import Path

from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.journal import Journal
from berth.tools.cluster.apiserver.journal_replay import replay
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.call_counts import calls_of
from tests.kit.documents import pod
from tests.kit.stores import fresh_store

PODS = BY_KIND["v1", "Pod"]
MANY = 1000
MOST_TO_LOAD = 13.8  # calls for an object
MOST_TO_LIST = 12.6


def fill(store: Store) -> None:
    api = Api(store)
    api.seed()
    for number in range(MANY):
        api.create(PODS, "default", pod(f"p{number}"))


def test_a_journal_is_loaded_without_decoding_its_objects(tmp_path: Path) -> None:
    path = tmp_path / "objects"
    with Journal(path) as journal:
        fill(journal.store)
    lines = path.read_bytes().splitlines(keepends=True)
    store = fresh_store()
    assert calls_of(lambda: replay(lines, store, "objects")) / len(lines) < MOST_TO_LOAD
    loaded = store.stored(PODS, "default", "p7")
    assert loaded._document is None
    assert loaded.document["metadata"]["name"] == "p7"


def test_a_list_costs_little_for_each_object() -> None:
    store = fresh_store()
    fill(store)
    server = Server(store)
    request = HttpRequest("GET", "/api/v1/pods", {}, {"host": "localhost"}, b"")
    server.answer(request)
    assert calls_of(lambda: server.answer(request)) / MANY < MOST_TO_LIST

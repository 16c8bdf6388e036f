"""A bookmark says what changed in a snapshot since it was read."""

from __future__ import annotations

import msgspec
import pytest

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import Assume, NodeAdded, NodeUpdated, Nominate
from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.model.bookmark import NOTHING, Bookmark
from berth.actors.scheduling.model.change_log import MAX_CHANGES
from tests.kit.structs import pod_info as pod


def node(name: str, **labels: str) -> Node:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Node)


@pytest.fixture
def cache() -> CacheState:
    cache = CacheState()
    for name in ("a", "b", "c"):
        cache.handle(NodeAdded(node(name)))
    return cache


def test_nothing_changes_by_itself(cache: CacheState) -> None:
    bookmark = Bookmark(cache.snapshot())
    assert bookmark.turn(cache.snapshot()) is NOTHING
    assert bookmark.same_nodes(cache.snapshot())


def test_a_pod_changes_its_row_and_no_node(cache: CacheState) -> None:
    bookmark = Bookmark(cache.snapshot())
    cache.handle(Assume(pod("p"), "b"))
    snapshot = cache.snapshot()
    changes = bookmark.turn(snapshot)
    assert changes is not None
    assert (changes.rows, changes.nodes) == ({snapshot.columns.row_of["b"]}, set())
    assert bookmark.same_nodes(snapshot)
    assert bookmark.turn(snapshot) is NOTHING


def test_a_label_changes_the_node(cache: CacheState) -> None:
    bookmark = Bookmark(cache.snapshot())
    cache.handle(NodeUpdated(node("c"), node("c", disk="ssd")))
    snapshot = cache.snapshot()
    assert not bookmark.same_nodes(snapshot)
    changes = bookmark.turn(snapshot)
    assert changes is not None
    assert changes.rows == changes.nodes == {snapshot.columns.row_of["c"]}


def test_a_nomination_names_the_node(cache: CacheState) -> None:
    bookmark = Bookmark(cache.snapshot())
    cache.handle(Nominate(pod("p"), "a"))
    snapshot = cache.snapshot()
    changes = bookmark.turn(snapshot)
    assert changes is not None
    assert (changes.rows, changes.nominated) == (set(), {"a"})
    row_of = snapshot.columns.row_of
    assert changes.rows_with(snapshot.columns, "b", "gone") == {row_of["a"], row_of["b"]}


def test_a_new_node_is_too_much(cache: CacheState) -> None:
    bookmark = Bookmark(cache.snapshot())
    cache.handle(NodeAdded(node("d")))
    snapshot = cache.snapshot()
    assert bookmark.turn(snapshot) is None
    assert not bookmark.same_nodes(snapshot)


def test_more_changes_than_the_log_keeps_are_too_much(cache: CacheState) -> None:
    snapshot = cache.snapshot()
    bookmark = Bookmark(snapshot)
    for _ in range(2 * MAX_CHANGES + 1):
        snapshot.nominations.put(pod("p"), "a")
    assert bookmark.turn(snapshot) is None
    assert bookmark.turn(snapshot) is None, "it does not move before the changes are known"

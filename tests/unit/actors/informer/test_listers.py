"""Listers: what plugins read outside of decisions, and how they wait for a change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import nan
from typing import Any
from unittest.mock import patch

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.informer import listers
from berth.actors.informer.listers import MOST_INDEXES, Listers, selected
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.cache import AssumeObject, CacheMessage, RestoreObject
from berth.actors.scheduling.framework.handle import ObjectKey
from berth.actors.scheduling.framework.status import SUCCESS, Status, error
from berth.actors.scheduling.kube.meta import ObjectMeta, key
from berth.actors.scheduling.model.cluster_objects import UnlistedError
from berth.plugin import Node, PersistentVolumeClaim
from tests.kit.clock import VirtualClock
from tests.kit.inbox import Inbox


class Informer:
    def __init__(self, problem: str = "") -> None:
        self.items: dict[str, Any] = {}
        self.problem = problem

    def objects(self) -> Mapping[str, Any]:
        return self.items

    def unlisted(self) -> str:
        return self.problem


def claim(name: str = "c", namespace: str = "ns", **labels: str) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels))


class Setting:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.cache: Inbox[CacheMessage] = Inbox("cache")
        self.listers = Listers(Mailboxes(cache=self.cache), self.clock)
        self.claims, self.nodes = Informer(), Informer()
        self.listers.follow(PersistentVolumeClaim, self.claims)
        self.listers.follow(Node, self.nodes)
        self.checks = 0
        self.answer: Status | Sequence[ObjectKey] = [(PersistentVolumeClaim, "ns", "c")]
        self.results: list[tuple[float, Status | None]] = []

    def put(self, item: Any) -> None:
        kind = type(item)
        (self.nodes if kind is Node else self.claims).items[key(item)] = item
        self.listers.changed(kind, item)

    def remove(self, item: Any) -> None:
        del self.claims.items[key(item)]
        self.listers.changed(type(item), item)

    def check(self) -> Status | Sequence[ObjectKey]:
        self.checks += 1
        return self.answer

    async def wait(self, seconds: float = 60.0) -> None:
        answer = await self.listers.wait_for(self.check, seconds)
        self.results.append((self.clock.now(), answer))


@pytest.fixture
def setting() -> Setting:
    return Setting()


@asynccontextmanager
async def waiting(setting: Setting, seconds: float = 60.0) -> AsyncIterator[anyio.CancelScope]:
    async with anyio.create_task_group() as group:
        group.start_soon(setting.wait, seconds)
        await setting.clock.settle()
        yield group.cancel_scope
        await setting.clock.settle()
        group.cancel_scope.cancel()


# ------------------------------------------------------------------------------------------ reading


def test_look_ups(setting: Setting) -> None:
    stored, node = claim(), Node(metadata=ObjectMeta(name="a"))
    setting.put(stored)
    setting.put(node)
    listers = setting.listers
    assert listers.get(PersistentVolumeClaim, "c", "ns") is stored
    assert listers.get(PersistentVolumeClaim, "c") is None
    assert listers.get(Node, "a") is node
    assert list(listers.every(PersistentVolumeClaim)) == [stored]


@pytest.mark.parametrize("read", [lambda it: it.get(Node, "a"), lambda it: it.every(Node)])
def test_kinds_that_are_not_listed(setting: Setting, read: Callable[[Listers], object]) -> None:
    setting.listers.follow(Node, Informer("not listed yet"))
    with pytest.raises(UnlistedError, match="not listed yet"):
        read(setting.listers)
    with pytest.raises(UnlistedError, match="no enabled plugin names Node in its lookups"):
        read(Listers(Mailboxes(), setting.clock))


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=2)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("nm"), st.sampled_from("1234"), st.none() | LABELS),
            st.tuples(st.sampled_from(["", "n", "m"]), LABELS),
        ),
        max_size=30,
    )
)
def test_selections_have_the_present_objects_with_these_labels(
    steps: list[tuple[str, str, dict[str, str] | None] | tuple[str, dict[str, str]]],
) -> None:
    setting = Setting()
    for step in steps:
        if len(step) == 3:
            namespace, name, labels = step
            item = claim(name, namespace, **(labels or {}))
            setting.put(item)
            if labels is None:
                setting.remove(item)
        else:
            found = setting.listers.select(PersistentVolumeClaim, *step)
            every = setting.listers.every(PersistentVolumeClaim)
            expected = selected(every, *step)
            assert sorted(map(key, found)) == sorted(map(key, expected))
            assert {id(item) for item in found} == {id(item) for item in expected}


def test_a_selection_looks_at_the_objects_with_the_label(setting: Setting) -> None:
    for number in range(100):
        setting.put(claim(str(number), group=str(number % 50)))
    wanted = {"group": "7", "zone": "a"}
    assert not setting.listers.select(PersistentVolumeClaim, "ns", wanted)
    with patch.object(listers, "selected", wraps=selected) as looked:
        setting.listers.select(PersistentVolumeClaim, "ns", wanted)
        assert len(looked.call_args.args[0]) == 2


def test_only_so_many_labels_are_indexed(setting: Setting) -> None:
    for number in range(2 * MOST_INDEXES):
        item = claim(**{f"l{number}": ""})
        setting.put(item)
        assert setting.listers.select(PersistentVolumeClaim, "", {f"l{number}": ""}) == [item]
    assert len(setting.listers._indexes[PersistentVolumeClaim]) == MOST_INDEXES


def test_assumptions_go_to_the_cache(setting: Setting) -> None:
    assumed = claim()
    setting.listers.assume(assumed)
    setting.listers.restore(assumed)
    assert setting.cache.take() == [AssumeObject(assumed), RestoreObject(assumed)]
    assert setting.listers.get(PersistentVolumeClaim, "c", "ns") is None


# ------------------------------------------------------------------------------------------ waiting


async def test_a_status_needs_no_wait(setting: Setting) -> None:
    setting.answer = SUCCESS
    await setting.wait(0.0)
    assert setting.results == [(0.0, SUCCESS)]


async def test_a_change_of_the_object_ends_the_wait(setting: Setting) -> None:
    async with waiting(setting):
        setting.put(claim("d"))
        setting.put(claim("c", "other"))
        setting.put(Node(metadata=ObjectMeta(name="c", namespace="ns")))
        await setting.clock.advance(20.0)
        assert setting.checks == 1
        setting.put(claim())
        await setting.clock.settle()
        assert setting.checks == 2
        assert not setting.results
        setting.answer = error("gone")
        setting.put(claim())
        await setting.clock.settle()
    assert setting.results == [(20.0, setting.answer)]
    assert setting.checks == 3


async def test_changes_before_the_task_runs_are_one(setting: Setting) -> None:
    async with waiting(setting):
        setting.put(claim())
        setting.put(claim())
        await setting.clock.settle()
        assert setting.checks == 2


async def test_the_keys_may_change(setting: Setting) -> None:
    async with waiting(setting):
        setting.answer = [(Node, "", "a"), (Node, "", "b"), (Node, "", "b")]
        setting.put(claim())
        await setting.clock.settle()
        setting.put(claim())
        await setting.clock.settle()
        assert setting.checks == 2
        setting.answer = SUCCESS
        setting.put(Node(metadata=ObjectMeta(name="b")))
    assert setting.results == [(0.0, SUCCESS)]


@pytest.mark.parametrize("seconds", [0.0, 60.0])
async def test_the_wait_ends_in_time(setting: Setting, seconds: float) -> None:
    async with waiting(setting, seconds):
        if seconds:
            await setting.clock.advance(30.0)
            setting.put(claim())  # the time goes on
            await setting.clock.advance(29.0)
            assert not setting.results
        await setting.clock.advance(1.0)
    assert setting.results == [(seconds, None)]


async def test_a_wait_of_no_number_of_seconds_is_over_at_once(setting: Setting) -> None:
    assert await setting.listers.wait_for(list, nan) is None


async def test_several_tasks_wait_for_one_object(setting: Setting) -> None:
    async with waiting(setting, 5.0), waiting(setting, 50.0) as second:
        await setting.clock.advance(10.0)
        assert setting.results == [(5.0, None)]
        setting.answer = SUCCESS
        setting.put(claim())
        await setting.clock.settle()
        assert setting.results == [(5.0, None), (10.0, SUCCESS)]
        second.cancel()
    setting.put(claim())  # nobody waits any more


async def test_a_cancelled_wait_leaves_nothing_behind(setting: Setting) -> None:
    async with waiting(setting) as scope:
        scope.cancel()
    setting.put(claim())
    await setting.clock.advance(100.0)
    assert not setting.results
    assert setting.checks == 1


async def test_a_check_that_raises_ends_the_wait(setting: Setting) -> None:
    def check() -> Status:
        raise UnlistedError("not listed yet")

    with pytest.raises(UnlistedError):
        await setting.listers.wait_for(check, 10.0)

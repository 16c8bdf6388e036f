"""The feed: whole at first, then deltas; bounded for each viewer, and at rest without any."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from berth.tools.answers.feed.feed import (
    MOST_ROWS,
    MOST_VIEWERS,
    MOST_WAITING,
    ROWS_AT_FIRST,
    Board,
    Feed,
    Frame,
    TooManyViewersError,
    Viewer,
)
from berth.tools.answers.feed.feed_source import NodeGone, PodGone
from tests.kit.clock import VirtualClock
from tests.kit.page import FilledSource, node_of, pod_of


@asynccontextmanager
async def running(source: FilledSource) -> AsyncIterator[tuple[Feed, VirtualClock]]:
    clock = VirtualClock()
    feed = Feed(source, clock)
    async with anyio.create_task_group() as group:
        group.start_soon(feed.run)
        yield feed, clock
        group.cancel_scope.cancel()


class Reading:
    """Reads the events of a viewer, as a browser does."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self.events: list[tuple[str, Any]] = []

    async def run(self) -> None:
        async for event in self._viewer.events():
            name, data = event.decode().removesuffix("\n\n").split("\n")
            self.events.append((name[7:], json.loads(data[6:])))

    def take(self, name: str) -> list[Any]:
        taken = [data for event, data in self.events if event == name]
        self.events.clear()
        return taken


def test_a_row_that_changes_often_is_in_a_frame_once_and_as_it_is_last() -> None:
    board = Board()
    for change in (node_of("a"), node_of("a", cordoned=True), pod_of("x/p"), PodGone("x/p")):
        board.put(change)
    assert board.take() == Frame(nodes=[node_of("a", cordoned=True)], gone_pods=["x/p"])
    for unchanged in (node_of("a", cordoned=True), PodGone("x/p"), NodeGone("b")):
        board.put(unchanged)
    assert board.take() is None


def test_many_rows_come_in_several_frames() -> None:
    board = Board()
    for number in range(MOST_ROWS + 1):
        board.put(node_of(f"n{number}"))
    first, second = board.take(), board.take()
    assert first is not None
    assert second is not None
    assert (len(first.nodes), len(second.nodes)) == (MOST_ROWS, 1)
    sizes = [len(frame.nodes) for frame in board.whole()]
    assert sizes == [ROWS_AT_FIRST] * (MOST_ROWS // ROWS_AT_FIRST) + [1]


async def test_viewers_who_come_at_once_get_their_first_frames_in_turn() -> None:
    nodes = [node_of(f"n{number}") for number in range(ROWS_AT_FIRST * 3)]
    async with running(FilledSource(*nodes)) as (feed, _), anyio.create_task_group() as group:
        with ExitStack() as stack:
            stack.enter_context(feed.viewer())
            await wait_all_tasks_blocked()
            readings = [Reading(stack.enter_context(feed.viewer())) for _ in range(8)]
            for reading in readings:
                group.start_soon(reading.run)
            most = before = 0
            while before < 8 * 3:
                await checkpoint()
                frames = sum(name == "frame" for each in readings for name, _ in each.events)
                most, before = max(most, frames - before), frames
            assert most <= 2
            group.cancel_scope.cancel()


async def test_a_viewer_gets_everything_and_then_what_changes() -> None:
    source = FilledSource(node_of("a"), pod_of("x/p"))
    async with running(source) as (feed, clock), anyio.create_task_group() as group:
        with feed.viewer() as viewer:
            reading = Reading(viewer)
            group.start_soon(reading.run)
            await clock.advance(0.2)
            assert reading.events[0] == ("begin", None)
            frames = reading.take("frame")
            assert [row[0] for frame in frames for row in frame.get("nodes", [])] == ["a"]
            assert [row[0] for frame in frames for row in frame.get("pods", [])] == ["x/p"]
            source.put(pod_of("x/p", "a"), NodeGone("a"))
            await clock.advance(0.2)
            assert [list(frame) for frame in reading.take("frame")] == [["pods", "goneNodes"]]
            source.put(PodGone("x/p"))
            await clock.advance(0.2)
            assert reading.take("frame") == [{"gonePods": ["x/p"]}]
            await clock.advance(3.0)
            assert len(reading.take("glance")) == 3
        group.cancel_scope.cancel()


async def test_nothing_is_followed_without_viewers() -> None:
    source = FilledSource(node_of("a"))
    async with running(source) as (feed, clock):
        await clock.advance(5)
        assert source.following == 0
        for _ in range(2):
            with feed.viewer():
                await clock.advance(0.2)
                assert source.following == 1
            await clock.advance(0.2)
            assert source.following == 0


async def test_who_reads_too_slowly_is_dropped_and_others_are_not() -> None:
    source = FilledSource(node_of("a"))
    async with running(source) as (feed, clock), anyio.create_task_group() as group:
        with feed.viewer() as slow, feed.viewer() as quick:
            group.start_soon(Reading(quick).run)
            for number in range(MOST_WAITING + 2):
                source.put(node_of(f"n{number}"))
                await clock.advance(0.1)
            assert slow.scope.cancel_called
            assert not quick.scope.cancel_called
        group.cancel_scope.cancel()


async def test_there_are_at_most_so_many_viewers() -> None:
    feed = Feed(FilledSource(), VirtualClock())
    with ExitStack() as stack:
        for _ in range(MOST_VIEWERS):
            stack.enter_context(feed.viewer())
        with pytest.raises(TooManyViewersError):
            stack.enter_context(feed.viewer())

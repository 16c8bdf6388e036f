"""A plugin that fails for one pod blocks no other pod. The failure is reported, and the pod is
tried again.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from berth.actors.messages.recorder import RecordEvent, SetUnschedulable
from berth.plugin import (
    SUCCESS,
    CycleState,
    NodeFilterPlugin,
    NodeInfo,
    Plugin,
    Pod,
    PodInfo,
    PostBindPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    Status,
)
from tests.kit.logs import capture_logs
from tests.kit.pipeline import Pipeline, pipeline
from tests.kit.structs import node, pod


class Door(PreEnqueuePlugin):
    name = "Door"
    broken: ClassVar[bool]

    def pre_enqueue(self, pod: Pod) -> Status:
        if self.broken and pod.metadata.name == "odd":
            raise OSError("no disk")
        return SUCCESS


class Leaving(PreBindPlugin):
    name = "Leaving"

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        if info.pod.metadata.name == "odd":
            raise SystemExit(3)
        return SUCCESS


async def told(running: Pipeline) -> list[tuple[str, str]]:
    """Returns the failures that users can read. Conditions and events must agree."""
    messages = running.recorder.take()
    conditions = [
        (m.pod.metadata.name, m.reason, m.message)
        for m in messages
        if isinstance(m, SetUnschedulable)
    ]
    events = [
        (m.regarding.name, m.note)
        for m in messages
        if isinstance(m, RecordEvent) and m.reason == "FailedScheduling"
    ]
    assert [(name, message) for name, _, message in conditions] == events
    assert {reason for _, reason, _ in conditions} <= {"SchedulerError"}
    return events


async def test_pre_enqueue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Door, "broken", True, raising=False)
    async with pipeline(Door) as running:
        with capture_logs():
            await running.add_pod(pod("odd"))
            await running.add_pod(pod("good"))
            await running.add_node(node("a"))
            await running.clock.advance(60)
            assert await told(running) == [
                ("odd", 'running PreEnqueue plugin "Door": OSError: no disk')
            ]
            assert running.store.bound == [("good", "a")]
            monkeypatch.setattr(Door, "broken", False)
            await running.add_node(node("b"))
            await running.clock.advance(1)
        assert [name for name, _ in running.store.bound] == ["good", "odd"]


class Waiting(PreBindPlugin):
    """A plugin that waits for a future that is already cancelled."""

    name = "Waiting"

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        if info.pod.metadata.name == "odd":
            abandoned = asyncio.get_running_loop().create_future()
            abandoned.cancel()
            await abandoned
        return SUCCESS


class Looking(NodeFilterPlugin, PostBindPlugin):
    """A plugin that reads a cancelled future's result, in Filter and in PostBind."""

    name = "Looking"

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        if info.pod.metadata.name == "odd":
            raise asyncio.CancelledError
        return SUCCESS

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None:
        raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (Leaving, 'running PreBind plugin "Leaving": SystemExit: 3'),
        (Waiting, 'running PreBind plugin "Waiting": CancelledError'),
        (Looking, 'running "Looking" filter plugin: CancelledError (node a)'),
    ],
)
async def test_an_exit_or_a_cancellation_raised_by_a_plugin_is_its_failure(
    plugin: type[Plugin], text: str
) -> None:
    async with pipeline(plugin) as running:
        with capture_logs():
            await running.add_pod(pod("odd"))
            await running.add_pod(pod("good"))
            await running.add_node(node("a"))
            await running.add_pod(pod("late"))
            await running.clock.advance(2)
            assert running.store.bound == [("good", "a"), ("late", "a")]
            assert (await told(running))[0] == ("odd", text)

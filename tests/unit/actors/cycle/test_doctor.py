"""The doctor finds a pod that a plugin forgot, wakes none, and rests a hundred times as long as it
works.
"""

from __future__ import annotations

import pytest

from berth.actors.client.extender.calls import Extenders
from berth.actors.cycle.doctor import NOBODY_DUE, REST, Doctor, fitting
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.cache import CacheMessage, ReturnSnapshot, TakeSnapshot
from berth.actors.messages.queue import (
    CountQueued,
    Examined,
    NextParked,
    ParkedPod,
    QueueMessage,
    QueueStatistics,
)
from berth.actors.runtime.ask import ask
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.plugins.node_resources_fit import NodeResourcesFit
from berth.actors.wiring.profiles import profiles_of
from berth.config.load import from_mapping
from berth.tools.answers.explain.plugin_handle import ReadOnlyHandle
from tests.kit import documents
from tests.kit.clock import VirtualClock
from tests.kit.inbox import Inbox
from tests.kit.pipeline import Pipeline, pipeline
from tests.kit.snapshots import snapshot_of
from tests.kit.structs import node, pod
from tests.kit.tasks import started


async def counted(running: Pipeline) -> QueueStatistics:
    return await ask(running.queue, CountQueued)


@pytest.mark.parametrize("deaf", [True, False])
async def test_a_pod_that_no_hint_wakes_is_forgotten(
    deaf: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if deaf:
        monkeypatch.setattr(NodeResourcesFit, "events_to_register", lambda self: ())
    async with pipeline() as running:
        await running.add_node(node("n", "2"))
        await running.add_pod(pod("big", "4"))
        await running.add_pod(pod("giant", "90"))
        await running.clock.advance(1.0)
        await running.add_node(node("large", "8"))
        await running.clock.advance(65.0)
        assert (await counted(running)).forgotten == 0
        await running.clock.advance(20.0)
        counts = await counted(running)
    assert (counts.forgotten, counts.unschedulable) == ((1, 2) if deaf else (0, 1))


def test_the_node_on_which_the_pod_fitted_before_is_tried_first() -> None:
    profile = profiles_of(from_mapping(None), ReadOnlyHandle())["default-scheduler"]
    nodes = [documents.node(name, "2") for name in "abc"]
    cluster, info = snapshot_of(nodes), PodInfo(pod("p", "1"))
    tried = [fitting(profile, info, cluster, first) for first in ("", "b", "c", "gone")]
    assert tried == ["a", "b", "c", "a"]


async def test_it_rests_a_hundred_times_as_long_as_it_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]

    def slow(*_: object) -> str:
        now[0] += 2.0
        return "n"

    class Slow(VirtualClock):
        def now(self) -> float:
            return super().now() + now[0]

    monkeypatch.setattr("berth.actors.cycle.doctor.fitting", slow)
    clock = Slow()
    queue: Inbox[QueueMessage] = Inbox("queue")
    cache: Inbox[CacheMessage] = Inbox("cache")
    mailboxes = Mailboxes(queue=queue, cache=cache)
    profiles = profiles_of(from_mapping(None), ReadOnlyHandle())
    parked = ParkedPod(PodInfo(pod("p", "1")), 1, frozenset({"Fit"}))
    async with started(Doctor(mailboxes, profiles, Extenders(), clock).run):
        await clock.settle()
        (order,) = queue.take()
        assert isinstance(order, NextParked)
        order.reply.set(None)
        await clock.advance(NOBODY_DUE - 0.1)
        assert queue.take() == []
        await clock.advance(0.1)
        (order,) = queue.take()
        assert isinstance(order, NextParked)
        order.reply.set(parked)
        await clock.settle()
        (take,) = cache.take()
        assert isinstance(take, TakeSnapshot)
        take.reply.set(Snapshot())
        await clock.settle()
        assert queue.take() == [Examined(parked, "n")]
        assert cache.take() == [ReturnSnapshot()]
        await clock.advance(2.0 * REST - 0.1)
        assert queue.take() == []
        await clock.advance(0.1)
        assert len(queue.take()) == 1
    mailboxes.close()

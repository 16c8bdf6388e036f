"""Rounds of pods leave few reference cycles behind. The collector sets old objects aside; for a
long time, only their reference counts free them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import msgspec
import pytest

from berth.actors.client.rest import ApiError
from berth.actors.messages.cache import AssignedPodDeleted
from berth.actors.messages.queue import PodNoLongerPending
from berth.plugin import Code, CycleState, Node, PermitPlugin, PodInfo, Status
from tests.kit.pipeline import Pipeline, pipeline
from tests.kit.structs import pod

PODS, ROUNDS = 10, 8
NODE = {
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": 100, "memory": "8Gi", "pods": 110}},
}


class Slow(PermitPlugin):
    """A plugin that makes each pod wait, one in ten until its time is over."""

    name = "Slow"

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 5.0


@pytest.fixture
def collected_by_hand() -> Iterator[None]:
    gc.unfreeze()
    gc.collect()  # the cycles of other tests, which something may have set aside
    gc.disable()
    yield
    gc.unfreeze()
    gc.freeze()  # as the tests began
    gc.enable()


async def live(running: Pipeline, number: int) -> None:
    """Creates pods that wait on Permit, are bound or refused by the API server, and go."""
    pods = [pod(f"p-{number}-{i}", 1_000 if i == 1 else 1) for i in range(PODS)]
    running.store.refusals.append(ApiError(500, "InternalError", "internal error"))
    for item in pods:
        await running.add_pod(item)
    await running.clock.advance(0)
    gc.collect()
    gc.freeze()  # while they are being bound
    for _ in range(20):
        for waiting in list(running.in_binding.each()):
            if not waiting.info.key.endswith("0"):
                running.in_binding.allow(waiting.info.uid, "Slow")
        await running.clock.advance(1)
    for name in [name for name in running.store.pods if name.startswith(f"ns/p-{number}-")]:
        last = running.store.pods.pop(name)
        if last.spec.node_name:
            running.cache.tell(AssignedPodDeleted(last))
        else:
            running.queue.tell(PodNoLongerPending(last))
    running.recorder.take()
    await running.clock.advance(20)
    gc.collect()


@pytest.mark.full("long")
@pytest.mark.usefixtures("collected_by_hand")
async def test_rounds_of_pods_leave_few_cycles_behind() -> None:
    async with pipeline(Slow) as running:
        await running.add_node(msgspec.convert(NODE, Node))
        left = []
        for begin in (0, ROUNDS):
            for number in range(begin, begin + ROUNDS):
                await live(running, number)
            gc.unfreeze()
            left.append(gc.collect())
        assert len(running.store.bound) > PODS * ROUNDS
        # The first half may find cycles of other tests.
        assert min(left) < ROUNDS, f"cycles are left by each round: {left}"

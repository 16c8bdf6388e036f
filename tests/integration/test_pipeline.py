"""Pods through queue, cycle, cache and binding, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from berth.actors.messages.recorder import SetUnschedulable
from berth.plugin import (
    PODS_TO_ACTIVATE,
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    CycleState,
    NodeFilterPlugin,
    NodeInfo,
    PermitPlugin,
    PodInfo,
    Registration,
    ReservePlugin,
    Resource,
    Status,
    unschedulable,
)
from tests.kit.pipeline import pipeline
from tests.kit.queue import place_of, story_of
from tests.kit.structs import node, pod


class Gatekeeper(PermitPlugin, ReservePlugin):
    """Makes every pod wait for at most ten seconds, and records the reservations."""

    name = "Gatekeeper"
    reserved: set[str] = set()  # noqa: RUF012 - one set for the test to look at

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self.reserved.add(info.key)
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        self.reserved.discard(info.key)

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 10.0


@pytest.mark.parametrize("verdict", ["allow", "reject", "nothing"])
async def test_a_waiting_pod_is_allowed_or_rejected(verdict: str) -> None:
    Gatekeeper.reserved = set()
    async with pipeline(Gatekeeper) as running:
        await running.add_node(node("n"))
        await running.add_pod(pod("p", cpu="1"))
        await running.clock.advance(5)
        assert running.store.bound == []
        assert Gatekeeper.reserved == {"ns/p"}
        assert running.nominated() == [("p", "n")]
        match verdict:
            case "allow":
                assert running.in_binding.allow("p", "Gatekeeper")
            case "reject":
                assert running.in_binding.reject("p", "Gatekeeper", "not today")
        await running.clock.advance(5.5)
        assert running.store.bound == ([("p", "n")] if verdict == "allow" else [])
        assert Gatekeeper.reserved == ({"ns/p"} if verdict == "allow" else set())
        if verdict != "allow":
            reason = (
                "not today"
                if verdict == "reject"
                else "rejected due to timeout after waiting 10s at plugin Gatekeeper"
            )
            message = f"0/1 nodes are available: 1 {reason}."
            assert message in [
                m.message for m in running.recorder.take() if isinstance(m, SetUnschedulable)
            ]


class Pair(NodeFilterPlugin, ReservePlugin):
    """Rejects a follower until its leader is placed, which activates the follower. It registers no
    event.
    """

    name = "Pair"
    led: set[str] = set()  # noqa: RUF012 - one set for the test to look at

    def events_to_register(self) -> Sequence[Registration]:
        return ()

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS if info.key == "ns/leader" or self.led else unschedulable("no leader yet")

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self.led.add(info.key)
        state.write(PODS_TO_ACTIVATE, {"ns/follower"})
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        self.led.discard(info.key)


async def test_a_plugin_activates_pods_when_another_is_placed() -> None:
    Pair.led = set()
    async with pipeline(Pair) as running:
        await running.add_node(node("n"))
        await running.add_pod(pod("follower", cpu="1"))
        await running.clock.advance(20)
        assert place_of(running.queue_state, "ns/follower") == "unschedulable"
        await running.add_pod(pod("leader", cpu="1"))
        await running.clock.advance(0)
        assert running.store.bound == [("leader", "n"), ("follower", "n")]


class Later(NodeFilterPlugin):
    """Waits until a node of another name is added; the pod is then tried without backoff."""

    name = "Later"

    def events_to_register(self) -> Sequence[Registration]:
        return (Registration(ClusterEvent(Resource.NODE, Action.ADD)),)

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS if node.name == "late" else Status(Code.PENDING, ("not this one",))


async def test_a_pod_that_is_pending_for_a_plugin_does_not_back_off() -> None:
    async with pipeline(Later) as running:
        await running.add_node(node("early"))
        await running.add_pod(pod("p", cpu="1"))
        await running.clock.advance(0.1)
        assert place_of(running.queue_state, "ns/p") == "unschedulable"
        await running.add_node(node("late"))
        await running.clock.advance(0)
        assert running.store.bound == [("p", "late")]
        expected = ["active", "unschedulable", "active"]
        assert [step.queue for step in story_of(running.queue_state, "ns/p")] == expected

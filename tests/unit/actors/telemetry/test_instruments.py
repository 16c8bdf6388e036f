"""The instruments, as a running scheduler uses them in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest

from berth.actors.messages.cache import CacheStatistics
from berth.actors.messages.queue import QueueMeasures, QueueStatistics
from berth.actors.scheduling.framework.measuring import PRE_ENQUEUE
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.telemetry.instruments import Instruments
from berth.actors.telemetry.measures import Registry
from berth.actors.telemetry.records import PointRecord
from berth.config.feature_gates import DEFAULTS, defaults_of
from berth.config.options import Options
from berth.config.versions import VERSIONS
from berth.plugin import (
    Code,
    CycleState,
    PermitPlugin,
    PodInfo,
    ReservePlugin,
    Status,
    error,
    unschedulable,
)
from tests.kit.daemon import Daemon, daemon, node, pod
from tests.kit.instruments import Reader
from tests.kit.pipeline import pipeline

PROFILE = "default-scheduler"


class Watched(Daemon):
    def __init__(self, gates: Mapping[str, bool] = DEFAULTS) -> None:
        super().__init__()
        self.instruments = Instruments(Registry(), self.clock.now, gates)
        self.read = Reader(self.instruments.registry)

    async def numbers(self, name: str) -> dict[tuple[str, ...], float]:
        await self.instruments.registry.refresh()
        return {labels: n for labels, n in self.read.numbers(name).items() if n}


@asynccontextmanager
async def scheduler(cpu: str = "4", gates: Mapping[str, bool] = DEFAULTS) -> AsyncIterator[Watched]:
    running, options = Watched(gates), Options(feature_gates=gates)
    async with daemon(options=options, existing=running, instruments=running.instruments):
        running.put_node("n", cpu)
        await running.advance(1)
        yield running


async def test_a_bound_pod() -> None:
    async with scheduler() as running:
        running.put_pod("p")
        await running.advance(2)
        assert running.node_of("p") == "n"
        numbers = running.numbers
        assert await numbers("schedule_attempts_total") == {("scheduled", PROFILE): 1}
        assert await numbers("scheduling_attempt_duration_seconds") == {("scheduled", PROFILE): 1}
        assert await numbers("scheduling_algorithm_duration_seconds") == {(): 1}
        assert await numbers("pod_scheduling_attempts") == {(): 1}
        assert await numbers("pod_scheduling_sli_duration_seconds") == {("1",): 1}
        assert await numbers("queue_incoming_pods_total") == {("active", "UnschedulablePodAdd"): 1}
        assert await numbers("cache_size") == {("nodes",): 1, ("pods",): 1}
        assert await numbers("framework_extension_point_duration_seconds") == {
            (point, status, PROFILE): 1
            for point, status in (
                ("PreEnqueue", "Success"),
                ("PreFilter", "Success"),
                ("Filter", "Success"),  # One node fits, which is not scored.
                ("Reserve", "Success"),
                ("Permit", "Success"),
                ("PreBindPreFlight", "Skip"),
                ("PreBind", "Success"),
                ("Bind", "Success"),
                ("PostBind", "Success"),
            )
        }
        events = await numbers("event_handling_duration_seconds")
        assert events["UnschedulablePodAdd",] == events["AssignedPodAdd",] == 1
        assert await numbers("batch_attempts_total") == {(PROFILE, "no_hint"): 1}
        assert not await numbers("pending_pods")
        assert not await numbers("goroutines")


async def test_a_pod_is_counted_as_an_entity_and_its_events_are_named_as_in_1_37() -> None:
    async with scheduler(gates=defaults_of(VERSIONS[37])) as running:
        running.put_pod("p")
        running.put_pod("large", "8")
        await running.advance(2)
        numbers = running.numbers
        incoming = await numbers("queue_incoming_entities_total")
        assert incoming["active", "UnscheduledPodAdd", "pod"] == 2
        assert incoming == {
            (queue, event, "pod"): number
            for (queue, event), number in (await numbers("queue_incoming_pods_total")).items()
        }
        assert await numbers("queued_entities") == {("unschedulable", "pod"): 1}
        assert set(running.read.numbers("queued_entities")) == {
            (queue, "pod") for queue in ("active", "backoff", "gated", "unschedulable")
        }
        assert (await numbers("event_handling_duration_seconds"))["UnscheduledPodAdd",] == 2


@pytest.mark.parametrize(
    ("minor", "name", "labels"),
    [
        (36, "resourceclaim_creates_total", ()),
        (37, "dynamic_resource_allocation_resourceclaim_creates_total", ("false", "", "Pod")),
    ],
)
def test_claims_are_counted_by_the_family_of_the_version(
    minor: int, name: str, labels: tuple[str, ...]
) -> None:
    instruments = Instruments(Registry(), lambda: 0.0, defaults_of(VERSIONS[minor]))
    instruments.claim_created(success=True)
    instruments.claim_created(success=False)
    read = Reader(instruments.registry).numbers(name)
    assert read == {("success", *labels): 1, ("failure", *labels): 1}


async def test_every_kind_of_series_that_shows_zero_is_there_from_the_start() -> None:
    async with scheduler() as running:
        await running.instruments.registry.refresh()
        read = running.read
        expected = {("active",), ("backoff",), ("gated",), ("unschedulable",)}
        assert set(read.numbers("pending_pods")) == expected
        assert set(read.numbers("goroutines")) >= {("binding",), ("Filter",), ("Score",)}
        evaluations = read.numbers("plugin_evaluation_total")
        assert evaluations["NodeResourcesFit", "Score", PROFILE] == 0
        assert evaluations["VolumeZone", "PreFilter", PROFILE] == 0
        assert read.numbers("inflight_events") == {("PodPopped",): 0}
        assert read.numbers("leader_election_master_status") == {("kube-scheduler",): 0}


async def test_nodes_are_scored_and_plugins_counted_and_timed() -> None:
    async with scheduler() as running:
        running.put_node("m")
        await running.advance(1)
        running.put_pod("p")
        await running.advance(2)
        points = await running.numbers("framework_extension_point_duration_seconds")
        assert points["PreScore", "Success", PROFILE] == points["Score", "Success", PROFILE] == 1
        evaluations = await running.numbers("plugin_evaluation_total")
        assert evaluations["NodeResourcesFit", "PreFilter", PROFILE] == 1
        assert evaluations["NodeResourcesFit", "Filter", PROFILE] == 2
        assert evaluations["NodeResourcesFit", "Score", PROFILE] == 2
        assert ("NodePorts", "Filter", PROFILE) not in evaluations  # It returned SKIP in PreFilter.
        timed = await running.numbers("plugin_execution_duration_seconds")
        assert timed["NodeResourcesFit", "PreFilter", "Success"] == 1
        assert timed["NodeResourcesFit", "Score", "Success"] == 1
        assert timed["NodePorts", "PreFilter", "Skip"] == 1
        assert timed["DefaultBinder", "Bind", "Success"] == 1
        assert timed["SchedulingGates", "PreEnqueue", "Success"] == 1


async def test_one_attempt_in_ten_times_its_plugins() -> None:
    async with scheduler("64") as running:
        for i in range(100):
            running.put_pod(f"p{i}", "10m")
        await running.advance(2)
        timed = await running.numbers("plugin_execution_duration_seconds")
        assert timed["DefaultBinder", "Bind", "Success"] == 10
        hints = await running.numbers("batch_attempts_total")
        assert hints[PROFILE, "hint_used"] > 90
        assert await running.numbers("store_schedule_results_duration_seconds") == {(PROFILE,): 1}


async def test_an_unschedulable_pod() -> None:
    async with scheduler() as running:
        running.put_pod("p", "16")
        await running.advance(2)
        numbers = running.numbers
        assert await numbers("schedule_attempts_total") == {("unschedulable", PROFILE): 1}
        assert await numbers("pending_pods") == {("unschedulable",): 1}
        assert await numbers("unschedulable_pods") == {("NodeResourcesFit", PROFILE): 1}
        assert await numbers("preemption_attempts_total") == {(): 1}
        assert await numbers("preemption_victims") == {}
        assert await numbers("pod_scheduling_attempts") == {}
        points = await numbers("framework_extension_point_duration_seconds")
        assert points["PostFilter", "Unschedulable", PROFILE] == 1
        assert points["Filter", "Success", PROFILE] == 1
        incoming = await numbers("queue_incoming_pods_total")
        assert incoming["unschedulable", "ScheduleAttemptFailure"] == 1
        running.put_node("big", "32")
        await running.advance(15)
        assert running.node_of("p") == "big"
        assert await numbers("pod_scheduling_sli_duration_seconds") == {("2",): 1}
        assert not await numbers("unschedulable_pods")
        hints = await numbers("queueing_hint_execution_duration_seconds")
        assert hints["NodeResourcesFit", "NodeAdd", "Queue"] == 1
        assert running.read.distribution("pod_scheduling_attempts").sum == 2


async def test_a_gated_pod() -> None:
    async with scheduler() as running:
        running.put_pod("p", spec={"schedulingGates": [{"name": "example.com/wait"}]})
        await running.advance(2)
        numbers = running.numbers
        assert await numbers("pending_pods") == {("gated",): 1}
        assert await numbers("unschedulable_pods") == {("SchedulingGates", PROFILE): 1}
        incoming = await numbers("queue_incoming_pods_total")
        assert incoming == {("unschedulable", "UnschedulablePodAdd"): 1}
        assert not await numbers("schedule_attempts_total")


async def test_a_preemption() -> None:
    async with scheduler() as running:
        running.put_pod("low", "3", {"priority": 1})
        await running.advance(2)
        running.put_pod("high", "3", {"priority": 9})
        await running.advance(2)
        numbers = running.numbers
        assert await numbers("preemption_attempts_total") == {(): 1}
        assert running.read.distribution("preemption_victims").sum == 1
        assert await numbers("preemption_goroutines_execution_total") == {("success",): 1}
        assert await numbers("preemption_goroutines_duration_seconds") == {("success",): 1}
        points = await numbers("framework_extension_point_duration_seconds")
        assert points["PostFilter", "Success", PROFILE] == 1


def counted(number: int) -> dict[str, dict[tuple[str, str], int]]:
    return {PROFILE: {("Filter", "Fit"): number}}


def test_counters_go_on_when_profiles_are_replaced() -> None:
    instruments = Instruments(Registry(), lambda: 0.0)
    queue = QueueMeasures(QueueStatistics(0, 0, 0, 0, 0, 0, 0), {}, {}, {})
    cache = CacheStatistics(0, 0, 0, 0, 0)
    for number in (5, 7, 2, 3):  # Two profiles, each read twice.
        instruments.count(queue, cache, counted(number))
    evaluations = Reader(instruments.registry).numbers("plugin_evaluation_total")
    assert evaluations == {("Fit", "Filter", PROFILE): 10}


async def test_durations_are_those_of_the_clock() -> None:
    """The inputs of the usual queries: latencies by result, the SLI, and the waits."""
    async with scheduler() as running:
        running.put_pod("p", "16")
        await running.advance(2)
        running.put_node("big", "32")
        await running.advance(15)
        sli = running.read.distribution("pod_scheduling_sli_duration_seconds", "2")
        assert 1 <= sli.sum <= 12
        ended = running.read.distribution(
            "scheduling_attempt_duration_seconds", "scheduled", PROFILE
        )
        assert ended.sum < 1


class Waits(PermitPlugin):
    name = "Waits"

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 30.0


class Fails(ReservePlugin):
    name = "Fails"

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return error("no")

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        pass


class Rejects(ReservePlugin):
    name = "Rejects"

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return unschedulable("not here")

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        pass


async def test_a_wait_on_permit() -> None:
    async with pipeline(Waits) as running:
        read = Reader(running.instruments.registry)
        await running.add_node(msgspec.convert(node("n"), Node))
        await running.add_pod(msgspec.convert(pod("p"), Pod))
        await running.clock.advance(5)
        assert read.numbers("goroutines")["binding",] == 1
        await running.clock.advance(30)
        wait = read.distribution("permit_wait_duration_seconds", "Unschedulable")
        assert (wait.count, wait.sum) == (1, 30)
        assert read.numbers("goroutines")["binding",] == 0
        assert read.numbers("schedule_attempts_total") == {("unschedulable", PROFILE): 1}
        running.instruments.settle()
        points = read.numbers("framework_extension_point_duration_seconds")
        assert points["Permit", "Wait", PROFILE] == 1
        assert points["Unreserve", "Success", PROFILE] == 1


@pytest.mark.parametrize(
    ("plugin", "result", "status"),
    [(Fails, "error", "Error"), (Rejects, "unschedulable", "Unschedulable")],
)
async def test_a_plugin_that_refuses(plugin: type[ReservePlugin], result: str, status: str) -> None:
    async with pipeline(plugin) as running:
        read = Reader(running.instruments.registry)
        await running.add_node(msgspec.convert(node("n"), Node))
        await running.add_pod(msgspec.convert(pod("p"), Pod))
        await running.clock.settle()
        assert read.numbers("schedule_attempts_total") == {(result, PROFILE): 1}
        running.instruments.settle()
        points = read.numbers("framework_extension_point_duration_seconds")
        assert points["Reserve", status, PROFILE] == 1


async def test_calls_of_pre_enqueue_are_counted_though_nothing_else_is_measured() -> None:
    """Pods that stay gated are asked about again and again: what is noted of that must not grow."""
    running = Daemon()
    instruments = Instruments(Registry(), running.clock.now)
    gate = instruments.gate(PROFILE)
    async with anyio.create_task_group() as group:
        await group.start(instruments.run, running.clock)
        for _ in range(20):
            for _ in range(100):
                gate.took(PRE_ENQUEUE, running.clock.now())
            await running.clock.advance(60)
        assert isinstance(gate, PointRecord)
        assert len(gate.marks) < 1000
        group.cancel_scope.cancel()

"""The binding cycle: its preparations, how it is undone, and changes to the pod by others
meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import anyio
import pytest

from berth.actors.binding.writes import MOST, MOST_OF_NAMESPACE
from berth.actors.messages.binding import StopBinding
from berth.actors.messages.cache import AssignedPodAdded, AssumedPodDeleted
from berth.actors.messages.queue import PodNoLongerPending
from berth.actors.messages.recorder import (
    RecorderMessage,
    RecordEvent,
    SetNominatedNode,
    SetUnschedulable,
)
from berth.actors.runtime.ask import ask
from berth.plugin import (
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    PermitPlugin,
    Pod,
    PodInfo,
    PostBindPlugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    ReservePlugin,
    Status,
    error,
    unschedulable,
)
from tests.kit.instruments import Reader
from tests.kit.logs import capture_logs
from tests.kit.pipeline import Pipeline, pipeline
from tests.kit.queue import place_of
from tests.kit.structs import node, pod

UNSUPPORTED = "which is unsupported. It is supposed to return Success, Skip, or Error status"
NODE = node("n", 1)


class Diary:
    """The calls of a test's plugins, and the answers that they give."""

    did: ClassVar[list[str]] = []
    answers: ClassVar[dict[str, Status]] = {}
    gate: ClassVar[anyio.Event]
    undone: ClassVar[anyio.Event]

    @classmethod
    def note(cls, what: str) -> Status:
        cls.did.append(what)
        return cls.answers.get(what, SUCCESS)


@pytest.fixture(autouse=True)
async def diary() -> None:
    Diary.did = []
    Diary.answers = {}
    Diary.gate = anyio.Event()
    Diary.undone = anyio.Event()
    Diary.undone.set()


class First(ReservePlugin, PreBindPlugin, PostBindPlugin):
    name = "First"

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return Diary.note("reserve first")

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        Diary.note("unreserve first")

    def pre_bind_pre_flight(
        self, state: CycleState, info: PodInfo, node: str
    ) -> Status | PreBindPreFlightResult:
        return Diary.answers.get("flight first", PreBindPreFlightResult(allow_parallel=True))

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        Diary.note("begin first")
        await Diary.gate.wait()
        return Diary.note("end first")

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None:
        Diary.note("post-bind")


class Second(ReservePlugin, PreBindPlugin):
    name = "Second"

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return Diary.note("reserve second")

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        Diary.note("unreserve second")

    def pre_bind_pre_flight(
        self, state: CycleState, info: PodInfo, node: str
    ) -> Status | PreBindPreFlightResult:
        return Diary.answers.get("flight second", PreBindPreFlightResult(allow_parallel=True))

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return Diary.note("begin second")

    async def roll_back(self, state: CycleState, info: PodInfo, node: str) -> None:
        await Diary.undone.wait()
        Diary.note("roll back second")
        if Diary.answers.get("roll back second"):
            raise OSError("disk full")


class Gate(PermitPlugin):
    """A plugin that makes each pod wait for a minute, and allows the pods that already wait."""

    name = "Gate"

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        for waiting in self.handle.waiting.each():
            Diary.note(f"{info.pod.metadata.name} sees {waiting.info.pod.metadata.name}")
            self.handle.waiting.allow(waiting.info.uid, self.name)
        return Status(Code.WAIT), 60.0


class Door(PermitPlugin):
    """A plugin that makes each pod wait for ten minutes."""

    name = "Door"

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 600.0


class Gang(PermitPlugin):
    """Allows all waiting pods once they are twice as many as may be written at a time."""

    name = "Gang"

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        waiting = self.handle.waiting.each()
        if len(waiting) < 2 * MOST_OF_NAMESPACE - 1:
            return Status(Code.WAIT), 60.0
        for other in waiting:
            self.handle.waiting.allow(other.info.uid, self.name)
        return SUCCESS, 0.0


def unschedulable_messages(told: list[RecorderMessage]) -> Iterator[str]:
    return (message.message for message in told if isinstance(message, SetUnschedulable))


async def started(running: Pipeline, *pods: Pod) -> None:
    await running.add_node(NODE)
    for item in pods:
        await running.add_pod(item)
    await running.clock.advance(0)
    await running.clock.settle()


async def stopped(running: Pipeline, reason: str) -> bool:
    """Returns the binding actor's answer to a preemption of the pod p."""
    answer: bool = await ask(
        running.binding, lambda reply: StopBinding(reply, "p", "DefaultPreemption", reason)
    )
    return answer


def assumed(running: Pipeline) -> int:
    return running.cache_state.statistics().assumed_pods


def in_flight(running: Pipeline) -> int:
    return running.queue_state.statistics().in_flight


async def test_pre_bind_plugins_run_at_the_same_time_after_the_nomination() -> None:
    async with pipeline(First, Second) as running:
        await started(running, pod("p", "1"))
        assert Diary.did == ["reserve first", "reserve second", "begin first", "begin second"]
        assert running.nominated() == [("p", "n")]
        assert running.store.bound == []
        Diary.gate.set()
        await running.clock.advance(0)
        assert Diary.did[-2:] == ["end first", "post-bind"]
        assert running.store.bound == [("p", "n")]
        assert (assumed(running), in_flight(running)) == (0, 0)


async def test_without_its_gate_no_node_is_announced_and_every_pre_bind_plugin_runs() -> None:
    Diary.answers = {"flight first": SKIP, "flight second": error("no flight")}
    async with pipeline(First, Second, NominatedNodeNameForExpectation=False) as running:
        Diary.gate.set()
        await started(running, pod("p", "1"))
        assert Diary.did[2:] == ["begin first", "end first", "begin second", "post-bind"]
        assert running.nominated() == []
        assert running.store.bound == [("p", "n")]


async def test_a_plugin_that_skips_pre_bind_is_not_called_and_nothing_is_nominated() -> None:
    Diary.answers = {"flight first": SKIP, "flight second": SKIP}
    async with pipeline(First, Second) as running:
        await started(running, pod("p", "1"))
        assert Diary.did == ["reserve first", "reserve second", "post-bind"]
        assert running.nominated() == []
        assert running.store.bound == [("p", "n")]


@pytest.mark.parametrize(
    ("answers", "undone", "reason", "message"),
    [
        (
            {"reserve second": unschedulable("full")},
            ["unreserve second", "unreserve first"],
            "Unschedulable",
            "0/1 nodes are available: 1 full.",
        ),
        (
            {"flight first": unschedulable("what")},
            ["unreserve second", "unreserve first", "roll back second"],
            "SchedulerError",
            f'PreBindPreFlight First returned "Unschedulable", {UNSUPPORTED}',
        ),
        (
            {"begin second": error("disk")},
            ["unreserve second", "unreserve first", "roll back second"],
            "SchedulerError",
            'running PreBind plugin "Second": disk',
        ),
        (
            {"begin second": error("disk"), "roll back second": error("raises")},
            ["unreserve second", "unreserve first", "roll back second"],
            "SchedulerError",
            'running PreBind plugin "Second": disk',
        ),
    ],
    ids=["reserve", "pre-flight", "pre-bind", "roll-back"],
)
async def test_a_failed_step_is_undone_in_reverse_reported_and_tried_again(
    answers: dict[str, Status], undone: list[str], reason: str, message: str
) -> None:
    Diary.answers = dict(answers)
    async with pipeline(First, Second) as running:
        await started(running, pod("p", "1"))
        assert Diary.did[-len(undone) :] == undone
        assert "end first" not in Diary.did, "not cancelled when the other plugin failed"
        assert assumed(running) == 0
        told = running.recorder.take()
        conditions = [item for item in told if isinstance(item, SetUnschedulable)]
        assert [(item.reason, item.message, item.nominated_node) for item in conditions] == [
            (reason, message, "")
        ]
        nominated = [item.nominated_node for item in told if isinstance(item, SetNominatedNode)]
        assert nominated == (["n"] if "begin second" in answers else [])
        Diary.answers = {}
        Diary.gate.set()
        await running.clock.advance(400)
        assert running.store.bound == [("p", "n")]
        assert in_flight(running) == 0


async def test_the_time_of_pre_bind_is_measured() -> None:
    async with pipeline(First) as running:
        await started(running, pod("p", "1"))
        await running.clock.advance(3)
        Diary.gate.set()
        await running.clock.settle()
        running.instruments.settle()
        name, profile = "framework_extension_point_duration_seconds", "default-scheduler"
        measured = Reader(running.instruments.registry).distribution(
            name, "PreBind", "Success", profile
        )
        assert (measured.count, measured.sum) == (1, 3.0)


async def test_the_permit_of_the_next_pod_sees_the_waiting_pod() -> None:
    async with pipeline(Gate) as running:
        await running.add_node(node("other", 1))
        await started(running, pod("p", "1"), pod("q", "1"))
        assert Diary.did == ["q sees p"]
        assert [name for name, _ in running.store.bound] == ["p"]
        await running.clock.advance(61)
        assert (
            "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin Gate."
            in [*unschedulable_messages(running.recorder.take())]
        )


async def test_a_pod_waits_for_the_plugin_that_has_not_allowed_it_yet() -> None:
    async with pipeline(Gate, Door) as running:
        await running.add_node(node("other", 1))
        await started(running, pod("p", "1"), pod("q", "1"))  # The gate allows p.
        await running.clock.advance(599)
        assert "Door" not in "".join(unschedulable_messages(running.recorder.take()))
        await running.clock.advance(2)
        (message,) = (m for m in unschedulable_messages(running.recorder.take()) if "Door" in m)
        assert message.endswith("rejected due to timeout after waiting 10m0s at plugin Door.")


@pytest.mark.parametrize(
    ("plugin", "message"),
    [(Gate, "waiting on permit for pod: preempted"), (First, "preempted by DefaultPreemption")],
    ids=["waiting", "pre-bind"],
)
async def test_a_preempted_binding_frees_its_room_and_is_tried_again(
    plugin: type[Gate | First], message: str
) -> None:
    async with pipeline(plugin) as running:
        await started(running, pod("p", "1"))
        assert assumed(running) == 1
        assert await stopped(running, "preempted")
        await running.clock.settle()
        assert assumed(running) == 0
        assert place_of(running.queue_state, "ns/p") == "backoff"
        assert list(unschedulable_messages(running.recorder.take())) == [message]
        assert not await stopped(running, "too late")


@pytest.mark.parametrize("plugin", [Gate, First], ids=["waiting", "pre-bind"])
async def test_a_pod_deleted_while_it_is_bound_frees_its_room_at_once(
    plugin: type[Gate | First],
) -> None:
    async with pipeline(plugin) as running:
        await started(running, pod("p", "1"), pod("q", "1"))
        assert place_of(running.queue_state, "ns/q") in ("unschedulable", "backoff")
        running.cache.tell(AssumedPodDeleted(running.store.pods["ns/p"]))
        running.queue.tell(PodNoLongerPending(running.store.pods.pop("ns/p")))
        await running.clock.settle()
        assert place_of(running.queue_state, "ns/p") == "outside"
        await running.clock.advance(3)
        assert [item.info.key for item in running.in_binding.each()] == (
            ["ns/q"] if plugin is Gate else []
        )
        assert assumed(running) == 1
        assert running.cache_state.statistics().pods == 1


async def test_a_recreated_pod_is_not_mistaken_for_the_old_one() -> None:
    async with pipeline(First) as running:
        await started(running, pod("p", "1", uid="old"))
        running.cache.tell(AssumedPodDeleted(running.store.pods["ns/p"]))
        running.queue.tell(PodNoLongerPending(running.store.pods["ns/p"]))
        await running.add_pod(pod("p", "1", uid="new"))
        await running.clock.advance(0)
        assert assumed(running) == 1
        Diary.answers = {"end first": error("the old one fails, both do once")}
        Diary.gate.set()
        await running.clock.advance(0)
        Diary.answers = {}
        await running.clock.advance(5)
        assert running.store.bound == [("p", "n")]
        assert running.store.pods["ns/p"].metadata.uid == "new"
        assert (assumed(running), in_flight(running)) == (0, 0)


@pytest.mark.parametrize("node", ["n", "elsewhere"])
@pytest.mark.parametrize("when", ["pre-bind", "roll-back"])
async def test_what_a_pod_holds_is_given_back_if_somebody_else_binds_it(
    node: str, when: str
) -> None:
    async with pipeline(First, Second) as running:
        await started(running, pod("p", "1"))
        Diary.answers = {"end first": error("timed out")}
        if when == "roll-back":
            Diary.undone = anyio.Event()
            Diary.gate.set()
            await running.clock.settle()
            assert assumed(running) == 0
        running.queue.tell(PodNoLongerPending(running.store.pods["ns/p"]))
        running.cache.tell(AssignedPodAdded(pod("p", "1", node=node)))
        Diary.undone.set()
        Diary.gate.set()
        with capture_logs() as logs:
            await running.clock.advance(30)
        assert [line for line in logs if line["event"] == "refused"] == [], "its room was not freed"
        assert Diary.did[-3:] == ["unreserve second", "unreserve first", "roll back second"]
        told = running.recorder.take()
        assert [item for item in told if isinstance(item, RecordEvent)] == []
        assert list(unschedulable_messages(told)) == []
        assert (assumed(running), in_flight(running)) == (0, 0)
        assert running.cache_state.statistics().pods == 1
        assert place_of(running.queue_state, "ns/p") == "outside"
        assert running.store.bound == []


async def test_pods_beyond_the_api_servers_rate_stay_in_the_queue() -> None:
    """If the process or the API server stopped, hundreds of running bindings would have to be
    undone at once.
    """
    async with pipeline() as running:
        running.store.ready = anyio.Event()
        for i in range(MOST_OF_NAMESPACE + 100):
            await running.add_node(node(f"n{i}", 1))
        await started(running, *(pod(f"p{i}") for i in range(MOST_OF_NAMESPACE + 50)))
        taken = running.store.under_way
        assert MOST_OF_NAMESPACE <= taken == assumed(running) < MOST_OF_NAMESPACE + 10
        assert running.queue_state.statistics().active == MOST_OF_NAMESPACE + 50 - taken
        # A pod of another namespace does not wait for them.
        await running.add_pod(pod("other", namespace="innocent"))
        await running.clock.advance(0)
        await running.clock.settle()
        assert running.store.under_way == taken + 1
        running.store.ready.set()
        await running.clock.advance(0)
        assert running.store.most <= taken + 1
        assert len(running.store.bound) == MOST_OF_NAMESPACE + 51


@pytest.mark.full("long")
async def test_the_bindings_of_many_namespaces_make_the_cycle_wait() -> None:
    async with pipeline() as running:
        running.store.ready = anyio.Event()
        for i in range(MOST + 100):
            await running.add_node(node(f"n{i}", 1))
        await started(running, *(pod(f"p{i}", namespace=f"ns{i % 9}") for i in range(MOST + 50)))
        assert running.store.under_way == MOST + 1  # the last one before the cycle stops
        assert running.queue_state.statistics().active == 49
        running.store.ready.set()
        await running.clock.advance(0)
        assert len(running.store.bound) == MOST + 50


@pytest.mark.full("long")
async def test_waiting_pods_do_not_block_the_placement_of_others() -> None:
    """A group of any size may wait for its last pod."""
    async with pipeline(Gang) as running:
        for i in range(2 * MOST_OF_NAMESPACE):
            await running.add_node(node(f"n{i}", 1))
        await started(running, *(pod(f"p{i}") for i in range(2 * MOST_OF_NAMESPACE)))
        assert len(running.store.bound) == 2 * MOST_OF_NAMESPACE

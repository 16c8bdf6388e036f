"""The queue's rules, one at a time: order, backoff, flushes, gates, events in flight, stories."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from berth.actors.messages.order import Answer
from berth.actors.messages.queue import (
    Activate,
    AttemptFailed,
    ClusterChanged,
    Done,
    FlushBackoff,
    FlushUnschedulable,
    NextPod,
    PendingPodAdded,
    PendingPodDeleted,
    PendingPodUpdated,
    Place,
    QueuedPod,
    QueueMessage,
    ShowStory,
    StoryStep,
)
from berth.actors.queue.effects import Effect, HandOut, Moved
from berth.actors.queue.queues import QueueRules
from berth.actors.queue.state import QueueState
from berth.actors.scheduling.framework.events import (
    Action,
    ClusterEvent,
    Hint,
    Registration,
    Resource,
)
from berth.actors.scheduling.framework.status import SUCCESS, Status, unresolvable
from berth.actors.scheduling.kube.core import Node, Pod, Toleration
from tests.kit.handle import Nowhere
from tests.kit.queue import place_of, story_of

NODE_ADDED = ClusterChanged(ClusterEvent(Resource.NODE, Action.ADD), None, Node())
POD_GONE = ClusterChanged(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), Pod(), None)
REGISTERED = {
    "Nodes": (Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),),
    "Pods": (Registration(ClusterEvent(Resource.POD, Action.DELETE)),),
    "Itself": (Registration(ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE)),),
    "Deaf": (),
    "Door": (Registration(ClusterEvent(Resource.POD, Action.DELETE), lambda *_: Hint.SKIP),),
}


def make_pod(name: str, priority: int = 0, uid: str = "") -> Pod:
    document = {
        "metadata": {"namespace": "ns", "name": name, "uid": uid or name},
        "spec": {"schedulerName": "s", "priority": priority},
    }
    return msgspec.convert(document, Pod)


class Harness:
    def __init__(self, max_unschedulable: float = 60.0, *, pop_from_backoff: bool = True) -> None:
        self.shut = False
        self.state = QueueState(
            QueueRules(
                lambda info, at: (-info.priority, at),
                self.gate,
                {"s": REGISTERED},
                max_unschedulable=max_unschedulable,
                pop_from_backoff=pop_from_backoff,
            )
        )
        self.now = 0.0

    def gate(self, pod: Pod) -> Status:
        return unresolvable("shut").by("Door") if self.shut else SUCCESS

    def send(self, message: QueueMessage) -> Sequence[Effect]:
        effects = self.state.handle(message, self.now)
        self.state.validate()
        return effects

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.send(PendingPodAdded(pod))

    def pop(self) -> QueuedPod:
        effects = self.send(NextPod(Nowhere()))
        return next(effect.pod for effect in effects if isinstance(effect, HandOut))

    def fail(
        self, queued: QueuedPod, *plugins: str, pending: str = "", error: bool = False
    ) -> Sequence[Effect]:
        assert error != bool(plugins or pending)
        return self.send(
            AttemptFailed(queued, frozenset(plugins), frozenset([pending] if pending else []))
        )

    def park(self, name: str, *plugins: str, priority: int = 0) -> None:
        self.add(make_pod(name, priority))
        self.fail(self.pop(), *plugins)
        assert self.where(name) == "unschedulable"

    def where(self, name: str) -> str:
        return place_of(self.state, f"ns/{name}")


@pytest.fixture
def queue() -> Harness:
    return Harness()


def test_pods_are_handed_out_by_the_sort_key_then_in_order_of_arrival(queue: Harness) -> None:
    queue.add(make_pod("low"), make_pod("first", 5), make_pod("second", 5), make_pod("top", 9))
    queue.send(PendingPodUpdated(make_pod("low"), make_pod("low", 7)))
    assert [queue.pop().info.pod.metadata.name for _ in range(4)] == [
        "top",
        "low",
        "first",
        "second",
    ]


def test_a_pod_that_failed_comes_after_pods_of_the_same_priority(queue: Harness) -> None:
    queue.add(make_pod("a"))
    queue.now = 1
    queue.add(make_pod("b"))
    queue.fail(queue.pop(), error=True)
    queue.now = 3
    queue.send(FlushBackoff())
    again = queue.pop(), queue.pop()
    assert [pod.info.pod.metadata.name for pod in again] == ["b", "a"]
    assert (again[1].attempts, again[1].enqueued_at, again[1].first_attempt_at) == (2, 1.0, 0.0)


def backoffs(queue: Harness, attempts: int, *, error: bool) -> list[float]:
    """The seconds that the pod backs off after each of this many failed attempts."""
    seconds = []
    for _ in range(attempts):
        queue.fail(queue.pop(), *([] if error else ["Unknown"]), error=error)
        if not error:
            queue.send(NODE_ADDED)
        since = queue.now
        while queue.where("p") == "backoff":
            queue.now += 1.0
            queue.send(FlushBackoff())
        seconds.append(queue.now - since)
    return seconds


@pytest.mark.parametrize("error", [False, True])
def test_backoff_doubles_up_to_the_longest_and_ends_with_its_window(
    queue: Harness, error: bool
) -> None:
    queue.add(make_pod("p"))
    assert backoffs(queue, 6, error=error) == [2.0, 3.0, 5.0, 9.0, 11.0, 11.0]


def test_errors_are_counted_separately_from_rejections(queue: Harness) -> None:
    queue.add(make_pod("p"))
    assert backoffs(queue, 3, error=False) == [2.0, 3.0, 5.0]
    assert backoffs(queue, 1, error=True) == [2.0]
    assert backoffs(queue, 1, error=False) == [9.0]
    assert backoffs(queue, 1, error=True) == [2.0]


def test_an_empty_active_queue_takes_from_backoff_but_not_after_errors(queue: Harness) -> None:
    queue.add(make_pod("erred", 9), make_pod("low", 1), make_pod("high", 2))
    queue.fail(queue.pop(), error=True)
    high, low = queue.pop(), queue.pop()
    queue.fail(low, "Nodes")
    queue.fail(high, "Nodes")
    queue.send(NODE_ADDED)
    assert [queue.where(name) for name in ("erred", "low", "high")] == ["backoff"] * 3
    assert [queue.pop().info.pod.metadata.name for _ in range(2)] == ["high", "low"]
    assert not queue.send(NextPod(Nowhere()))
    assert queue.state.measures().incoming["active", "PopFromBackoffQ"] == 2


class TestWithoutPopFromBackoffQ:
    """The feature gate SchedulerPopFromBackoffQ is off."""

    @pytest.fixture
    def queue(self) -> Harness:
        return Harness(pop_from_backoff=False)

    def test_no_pod_is_taken_out_of_backoff_early(self, queue: Harness) -> None:
        queue.park("p", "Nodes")
        queue.send(NODE_ADDED)
        assert queue.where("p") == "backoff"
        assert not queue.send(NextPod(Nowhere()))
        queue.now = 1.25
        queue.send(FlushBackoff())
        assert queue.where("p") == "in flight"

    def test_backoff_ends_to_the_moment_and_in_its_own_order(self, queue: Harness) -> None:
        queue.now = 0.5
        queue.park("low", "Nodes", priority=1)
        queue.now = 0.6
        queue.park("high", "Nodes", priority=2)
        queue.send(NODE_ADDED)
        queue.now = 1.5
        queue.send(FlushBackoff())
        assert [queue.where(name) for name in ("low", "high")] == ["backoff", "backoff"]
        queue.now = 1.55
        queue.send(FlushBackoff())
        assert [queue.where(name) for name in ("low", "high")] == ["active", "backoff"]

    def test_a_pod_is_gated_when_it_leaves_backoff(self, queue: Harness) -> None:
        queue.park("p", "Nodes")
        queue.park("q", "Nodes")
        queue.shut = True
        queue.send(NODE_ADDED)
        assert queue.where("p") == queue.where("q") == "backoff"
        queue.send(Activate(("ns/q",)))
        assert (queue.where("p"), queue.where("q")) == ("backoff", "gated")
        queue.now = 2.0
        queue.send(FlushBackoff())
        assert queue.where("p") == "gated"
        assert [step.event for step in story_of(queue.state, "ns/p")][-2:] == [
            "NodeAdd",
            "BackoffComplete",
        ]


def test_a_pod_wakes_only_on_events_that_a_rejecting_plugin_registered_for(queue: Harness) -> None:
    queue.park("a", "Nodes")
    queue.park("b", "Pods", "Deaf")
    queue.park("c", "Deaf")
    queue.park("d", "Unknown")
    queue.now = 20
    woken = [effect for effect in queue.send(POD_GONE) if isinstance(effect, Moved)]
    assert [(m.key, m.step.queue, m.step.event, m.step.plugin) for m in woken] == [
        ("ns/d", "active", "AssignedPodDelete", "Unknown"),
        ("ns/b", "active", "AssignedPodDelete", "Pods"),
    ]
    # Pods count for their last rejection until they are taken from the queue.
    rejected = {plugin: number for (plugin, _), number in queue.state.measures().rejected.items()}
    assert rejected == {"Nodes": 1, "Deaf": 2, "Pods": 1, "Unknown": 1}


def test_the_end_of_a_nomination_wakes_only_pods_of_at_most_its_priority(queue: Harness) -> None:
    queue.park("low", "Pods", priority=1)
    queue.park("high", "Pods", priority=3)
    queue.now = 20
    queue.send(ClusterChanged(POD_GONE.event, make_pod("nominated", 2), None, 2))
    assert (queue.where("low"), queue.where("high")) == ("active", "unschedulable")


def test_a_pod_does_not_back_off_after_an_event_of_a_pending_plugin(queue: Harness) -> None:
    queue.add(make_pod("a"), make_pod("b"))
    queue.fail(queue.pop(), "Pods", pending="Nodes")
    queue.fail(queue.pop(), "Nodes", pending="Pods")
    queue.send(NODE_ADDED)
    assert (queue.where("a"), queue.where("b")) == ("active", "backoff")


class TestInFlight:
    """An event between the hand-out of a pod and its failure must not be lost."""

    def test_an_event_in_flight_wakes_the_pod_when_its_attempt_fails(self, queue: Harness) -> None:
        queue.add(make_pod("p"))
        queued = queue.pop()
        queue.send(NODE_ADDED)
        queue.fail(queued, "Nodes")
        assert queue.where("p") == "backoff"
        assert story_of(queue.state, "ns/p")[-1] == StoryStep(
            0.0, Place.BACKOFF, "ScheduleAttemptFailure", "Nodes", "NodeAdd"
        )

    def test_an_event_in_flight_that_does_not_concern_the_plugin_does_not_wake_it(
        self, queue: Harness
    ) -> None:
        queue.add(make_pod("p"))
        queued = queue.pop()
        queue.send(POD_GONE)
        queue.fail(queued, "Nodes")
        assert queue.where("p") == "unschedulable"

    def test_an_event_before_the_hand_out_does_not_wake_it(self, queue: Harness) -> None:
        queue.add(make_pod("other", 9), make_pod("p"))
        queue.pop()
        queue.send(NODE_ADDED)
        queue.fail(queue.pop(), "Nodes")
        assert queue.where("p") == "unschedulable"

    def test_an_event_after_done_is_not_kept_and_the_pod_is_not_parked(
        self, queue: Harness
    ) -> None:
        queue.add(make_pod("p"))
        queued = queue.pop()
        queue.send(Done("p"))
        queue.send(POD_GONE)
        assert queue.state.measures().in_flight_events == {"PodPopped": 0}
        queue.fail(queued, "Deaf")
        assert queue.where("p") == "backoff"

    def test_events_are_kept_as_long_as_a_pod_needs_them(self, queue: Harness) -> None:
        queue.add(make_pod("a"), make_pod("b"))
        queue.pop()
        queue.send(NODE_ADDED)
        queue.pop()
        queue.send(POD_GONE)
        assert queue.state.measures().in_flight_events == {
            "NodeAdd": 1,
            "AssignedPodDelete": 1,
            "PodPopped": 2,
        }
        queue.send(Done("a"))
        assert queue.state.measures().in_flight_events == {"AssignedPodDelete": 1, "PodPopped": 1}
        queue.send(Done("b"))
        assert queue.state.measures().in_flight_events == {"PodPopped": 0}

    def test_the_room_that_a_pod_itself_gave_up_does_not_wake_it(self, queue: Harness) -> None:
        queue.add(make_pod("p"))
        queued = queue.pop()
        queue.send(ClusterChanged(POD_GONE.event, queued.info.pod, None, except_uid="p"))
        queue.fail(queued, "Pods")
        assert queue.where("p") == "unschedulable"
        queue.send(ClusterChanged(POD_GONE.event, queued.info.pod, None, except_uid="p"))
        assert queue.where("p") == "unschedulable"

    def test_the_end_of_its_own_nomination_wakes_it(self, queue: Harness) -> None:
        queue.add(make_pod("p"))
        queued = queue.pop()
        queue.send(ClusterChanged(POD_GONE.event, queued.info.pod, None))
        queue.fail(queued, "Pods")
        assert queue.where("p") == "backoff"

    def test_an_update_of_another_pending_pod_does_not_wake_it(self, queue: Harness) -> None:
        queue.add(make_pod("a"), make_pod("b"))
        first, second = queue.pop(), queue.pop()
        queue.send(PendingPodUpdated(make_pod("b"), make_pod("b", 1)))
        queue.fail(first, "Itself")
        queue.fail(second, "Itself")
        assert (queue.where("a"), queue.where("b")) == ("unschedulable", "backoff")

    def test_of_several_events_one_of_a_pending_plugin_prevails(self, queue: Harness) -> None:
        queue.add(make_pod("p"))
        queued = queue.pop()
        queue.send(POD_GONE)
        queue.send(NODE_ADDED)
        queue.fail(queued, "Pods", pending="Nodes")
        assert queue.where("p") == "active"

    def test_a_pod_that_is_activated_in_flight_is_tried_again(self, queue: Harness) -> None:
        queue.add(make_pod("a"), make_pod("b"))
        first, second = queue.pop(), queue.pop()
        queue.send(Activate(("ns/a", "ns/unheard-of")))
        queue.fail(first, "Deaf")
        queue.fail(second, "Deaf")
        assert (queue.where("a"), queue.where("b")) == ("backoff", "unschedulable")

    def test_a_pod_is_deleted_and_created_again_in_flight(self, queue: Harness) -> None:
        queue.add(make_pod("p", uid="old"))
        queued = queue.pop()
        queue.send(PendingPodDeleted(queued.info.pod))
        queue.add(make_pod("p", uid="new"))
        queue.fail(queued, "Nodes")
        assert queue.where("p") == "active"
        again = queue.pop()
        assert (again.info.uid, again.attempts) == ("new", 1)

    def test_a_pod_that_is_updated_in_flight_returns_in_its_latest_version(
        self, queue: Harness
    ) -> None:
        queue.add(make_pod("p"))
        queued = queue.pop()
        newer = make_pod("p", 5)
        queue.send(PendingPodUpdated(queued.info.pod, newer))
        queue.fail(queued, error=True)
        queue.now = 5
        queue.send(FlushBackoff())
        assert queue.pop().info.pod is newer


class TestGates:
    def test_a_gated_pod_is_tried_only_on_events_of_the_gating_plugin(self, queue: Harness) -> None:
        queue.park("p", "Nodes")
        queue.shut, queue.now = True, 20
        queue.send(NODE_ADDED)
        assert queue.where("p") == "gated"
        queue.shut = False
        queue.send(NODE_ADDED)
        assert queue.where("p") == "gated", "the plugin that gates it did not register for nodes"

    def test_an_event_of_the_plugin_that_rejected_the_attempt_still_wakes_it(
        self, queue: Harness
    ) -> None:
        """As with a preemptor: its gate accepts no event, but the deletion of a victim wakes it."""
        queue.park("p", "Pods")
        queue.shut, queue.now = True, 20
        queue.send(POD_GONE)
        queue.send(POD_GONE)
        assert queue.where("p") == "gated"
        queue.shut = False
        queue.send(POD_GONE)
        assert queue.where("p") == "active"

    def test_a_gated_pod_is_tried_after_the_longest_time_without_an_event(
        self, queue: Harness
    ) -> None:
        queue.shut = True
        queue.add(make_pod("p"))
        queue.shut, queue.now = False, 59.0
        queue.send(FlushUnschedulable())
        assert queue.where("p") == "gated"
        queue.now = 61.0
        queue.send(FlushUnschedulable())
        assert queue.where("p") == "active"

    def test_a_pod_that_was_parked_for_too_long_says_so_until_it_fails_again(
        self, queue: Harness
    ) -> None:
        queue.park("p", "Deaf")
        queue.now = 61.0
        queue.send(FlushUnschedulable())
        queued = queue.pop()
        assert queued.flushed
        queue.fail(queued, "Nodes")
        queue.now = 80.0
        queue.send(NODE_ADDED)
        assert not queue.pop().flushed

    def test_activate_asks_the_gate_again(self, queue: Harness) -> None:
        queue.shut = True
        queue.add(make_pod("p"))
        queue.send(Activate(("ns/p",)))
        assert queue.where("p") == "gated"
        queue.shut = False
        queue.send(Activate(("ns/p",)))
        assert queue.where("p") == "active"

    def test_a_flush_with_a_negative_limit_ends(self) -> None:
        queue = Harness(max_unschedulable=-1.0)
        queue.shut = True
        queue.send(PendingPodAdded(make_pod("p")))
        queue.send(FlushUnschedulable())
        assert queue.where("p") == "gated"

    def test_a_pod_that_would_back_off_is_gated(self, queue: Harness) -> None:
        queue.park("p", "Nodes")
        queue.shut = True
        queue.send(NODE_ADDED)
        assert queue.where("p") == "gated"
        assert not queue.send(NextPod(Nowhere()))


def test_the_flush_moves_pods_that_were_parked_for_too_long(queue: Harness) -> None:
    queue.park("old", "Deaf")
    queue.now = 40
    queue.park("young", "Deaf")
    queue.now = 60.5
    queue.send(FlushUnschedulable())
    assert (queue.where("old"), queue.where("young")) == ("active", "unschedulable")
    assert story_of(queue.state, "ns/old")[-1].event == "UnschedulableTimeout"


def test_the_story_names_the_event_and_the_plugin(queue: Harness) -> None:
    queue.park("p", "Nodes")
    queue.now = 20
    queue.send(NODE_ADDED)
    order = ShowStory(Nowhere(), "ns/p")
    (answered,) = queue.send(order)
    assert answered == Answer(
        order,
        (
            StoryStep(0.0, Place.ACTIVE, "UnschedulablePodAdd"),
            StoryStep(0.0, Place.UNSCHEDULABLE, "ScheduleAttemptFailure"),
            StoryStep(20.0, Place.ACTIVE, "NodeAdd", "Nodes"),
        ),
    )


def test_a_pod_that_no_plugin_rejected_is_tried_again(queue: Harness) -> None:
    queue.add(make_pod("p"))
    queue.fail(queue.pop(), error=True)
    assert queue.where("p") == "backoff"


def test_an_update_of_the_pod_with_two_changes_is_two_events(queue: Harness) -> None:
    def changed(name: str) -> tuple[Pod, Pod]:
        old = make_pod(name)
        metadata = msgspec.structs.replace(old.metadata, labels={"a": "b"})
        spec = msgspec.structs.replace(old.spec, tolerations=(Toleration(key="t"),))
        return old, msgspec.structs.replace(old, metadata=metadata, spec=spec)

    queue.park("parked", "Itself")
    moved = [
        effect
        for effect in queue.send(PendingPodUpdated(*changed("parked")))
        if isinstance(effect, Moved)
    ]
    assert [effect.step.event for effect in moved] == [
        "UnschedulablePodUpdatePodLabel"
    ]  # The pod is awake when the second event comes.
    assert queue.where("parked") == "backoff"

    queue.add(make_pod("flying"))
    flying = queue.pop()
    queue.send(PendingPodUpdated(*changed("flying")))
    assert queue.state.measures().in_flight_events == {
        "UnschedulablePodUpdatePodLabel": 1,
        "UnschedulablePodUpdatePodToleration": 1,
        "PodPopped": 1,
    }
    queue.fail(flying, "Itself")
    assert queue.where("flying") == "backoff"

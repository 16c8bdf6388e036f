"""The queue's rules, one at a time: order, backoff, stories."""

from __future__ import annotations

import msgspec
import pytest

from berth.actors.messages.order import Answer
from berth.actors.messages.queue import (
    Activate,
    FlushBackoff,
    NextPod,
    PendingPodAdded,
    PendingPodUpdated,
    Place,
    QueueMessage,
    ShowStory,
    StoryStep,
    UseProfiles,
)
from berth.actors.queue.effects import PodMoved
from berth.actors.scheduling.framework.events import (
    SPLIT_POD_NAMES,
    Action,
    ClusterEvent,
    PodNames,
    Resource,
)
from tests.kit.handle import Nowhere
from tests.kit.queue import NODE_ADDED, Harness, in_order, make_pod, story_of


@pytest.fixture
def queue() -> Harness:
    return Harness()


def test_pods_are_handed_out_by_the_sort_key_then_in_order_of_arrival(queue: Harness) -> None:
    queue.add(make_pod("low"), make_pod("first", 5), make_pod("second", 5), make_pod("top", 9))
    queue.send(PendingPodUpdated(make_pod("low"), make_pod("low", 7)))
    expected = ["top", "low", "first", "second"]
    assert [queue.pop().info.pod.metadata.name for _ in range(4)] == expected


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
    """Returns the seconds that the pod backs off after each of this many failed attempts."""
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


def test_pods_in_backoff_wait_as_long_as_new_profiles_say(queue: Harness) -> None:
    queue.add(make_pod("p"))
    queue.fail(queue.pop(), error=True)
    queue.send(UseProfiles(in_order, queue.gate, {}, 5.0, 5.0))
    for queue.now, place in ((4.0, "backoff"), (6.0, "active")):
        queue.send(FlushBackoff())
        assert queue.where("p") == place


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


@pytest.mark.parametrize(
    ("names", "came", "found", "changed"),
    [
        (PodNames(), "UnschedulablePodAdd", "UnschedulablePodUpdate", "UnschedulablePodUpdate"),
        (SPLIT_POD_NAMES, "UnscheduledPodAdd", "UnscheduledPodAdd", "TargetPodUpdate"),
    ],
)
def test_the_rules_name_the_events_of_pods(
    names: PodNames, came: str, found: str, changed: str
) -> None:
    """The names since Kubernetes 1.37 are those of framework/events.go and scheduling_queue.go."""
    queue = Harness(pod_names=names)
    pod = make_pod("p")

    def causes(*messages: QueueMessage) -> list[str]:
        effects = [effect for message in messages for effect in queue.send(message)]
        return [effect.step.event for effect in effects if isinstance(effect, PodMoved)]

    assert causes(PendingPodAdded(pod)) == [came]
    queue.fail(queue.pop(), "Itself")
    labelled = msgspec.structs.replace(pod)
    assert causes(PendingPodUpdated(pod, labelled)) == [changed]
    other = make_pod("q")
    assert causes(PendingPodUpdated(other, other)) == [found]


@pytest.mark.parametrize("resource", [Resource.POD, Resource.TARGET_POD, Resource.UNSCHEDULED_POD])
def test_a_plugin_may_wait_for_the_pod_itself_by_each_name(resource: Resource) -> None:
    registered = ClusterEvent(resource, Action.UPDATE)
    for names in (PodNames(), SPLIT_POD_NAMES):
        assert registered.matches(names.updated(Action.UPDATE_POD_LABEL))
        assert not registered.matches(names.updated(Action.DELETE))
    assert str(SPLIT_POD_NAMES.updated(Action.UPDATE_POD_LABEL)) == "TargetPodUpdatePodLabel"
    assert str(PodNames().updated(Action.UPDATE_POD_LABEL)) == "UnschedulablePodUpdatePodLabel"

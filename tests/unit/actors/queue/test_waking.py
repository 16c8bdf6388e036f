"""What wakes a pod that waits: events, also those during its attempt, times, gates, orders."""

from __future__ import annotations

import msgspec
import pytest

from berth.actors.messages.queue import (
    Activate,
    ClusterChanged,
    Done,
    FlushBackoff,
    FlushUnschedulable,
    KindKnown,
    NextPod,
    PendingPodAdded,
    PendingPodUpdated,
    Place,
    PodNoLongerPending,
    StoryStep,
)
from berth.actors.queue.effects import HandOut, PodMoved
from berth.actors.scheduling.kube.core import Pod, Toleration
from tests.kit.handle import Nowhere
from tests.kit.queue import NODE_ADDED, POD_GONE, Harness, make_pod, story_of


@pytest.fixture
def queue() -> Harness:
    return Harness()


def test_a_pod_wakes_only_on_events_that_a_rejecting_plugin_registered_for(queue: Harness) -> None:
    queue.park("a", "Nodes")
    queue.park("b", "Pods", "Deaf")
    queue.park("c", "Deaf")
    queue.park("d", "Unknown")
    queue.now = 20
    woken = [effect for effect in queue.send(POD_GONE) if isinstance(effect, PodMoved)]
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
        expected = {"NodeAdd": 1, "AssignedPodDelete": 1, "PodPopped": 2}
        assert queue.state.measures().in_flight_events == expected
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
        queue.send(PodNoLongerPending(queued.info.pod))
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

    def test_a_pod_that_is_added_in_flight_returns_in_its_latest_version_after_what_changed(
        self, queue: Harness
    ) -> None:
        """As after a reload that brings its scheduler name back: nobody told of its update."""
        queue.add(make_pod("p"))
        queued = queue.pop()
        newer = make_pod("p", 5)
        metadata = msgspec.structs.replace(newer.metadata, labels={"changed": "yes"})
        newer = msgspec.structs.replace(newer, metadata=metadata)
        queue.add(newer)
        assert queue.where("p") == "in flight"
        queue.fail(queued, "Itself")
        assert queue.where("p") == "backoff"
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

    def test_a_gate_that_failed_is_asked_again_when_a_kind_is_known(self, queue: Harness) -> None:
        queue.shut = True
        queue.add(make_pod("shut"))
        queue.broken = True
        queue.add(make_pod("p"))
        queue.send(KindKnown())
        assert queue.where("p") == "gated"
        queue.shut = queue.broken = False
        queue.send(KindKnown())
        assert (queue.where("p"), queue.where("shut")) == ("active", "gated")

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
        assert not any(isinstance(e, HandOut) for e in queue.send(NextPod(Nowhere())))


def test_the_flush_moves_pods_that_were_parked_for_too_long(queue: Harness) -> None:
    queue.park("old", "Deaf")
    queue.now = 40
    queue.park("young", "Deaf")
    queue.now = 60.5
    queue.send(FlushUnschedulable())
    assert (queue.where("old"), queue.where("young")) == ("active", "unschedulable")
    assert story_of(queue.state, "ns/old")[-1].event == "UnschedulableTimeout"


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
        if isinstance(effect, PodMoved)
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

"""The large pods of a namespace take a share of the time, and other pods do not wait for them."""

from __future__ import annotations

from berth.actors.messages.queue import (
    ClusterChanged,
    FlushBackoff,
    NextPod,
    Place,
    PodNoLongerPending,
)
from berth.actors.queue.backoff import MOST_TURNS
from berth.actors.queue.effects import HandOut
from berth.actors.queue.queues import LARGE_POD
from berth.actors.queue.turns import MOST_CHARGED, MOST_NAMESPACES, SAVED, SHARE
from berth.actors.scheduling.framework.events import Action, ClusterEvent, Resource
from berth.actors.scheduling.kube.core import Pod
from tests.kit.handle import Nowhere
from tests.kit.queue import Harness, make_pod, story_of

POD_GONE = ClusterChanged(ClusterEvent(Resource.POD, Action.DELETE))


def large(number: int, namespace: str = "ns") -> Pod:
    return make_pod(f"large-{number}", large=True, namespace=namespace)


class Cycle(Harness):
    """A queue whose cycle takes a second for a large pod, and `seconds` for another."""

    seconds = 0.0

    def attempt(self) -> str:
        """Tries the next pod, binds it, and returns its name; "" if there is none."""
        handed_out = [e for e in self.send(NextPod(Nowhere())) if isinstance(e, HandOut)]
        if not handed_out:
            self.state._waiting.clear()
            return ""
        pod = handed_out[0].pod.info.pod
        self.now += 1.0 if pod.spec.tolerations else self.seconds
        self.send(PodNoLongerPending(pod))
        return pod.metadata.name

    def attempts(self, seconds: int) -> list[str]:
        """Returns the pods that are tried within a time, at most one in a tenth of a second."""
        tried, end = [], self.now + seconds
        while self.now < end:
            tried.append(self.attempt())
            self.now += 0.1
            self.send(FlushBackoff())
        return [name for name in tried if name]


def test_an_ordinary_pod_overtakes_the_large_ones() -> None:
    queue = Cycle()
    queue.add(*(large(number) for number in range(5)))
    assert queue.attempt() == "large-0"
    queue.add(make_pod("small"))
    assert queue.attempt() == "small"
    assert queue.where("large-1") == "backoff"
    (*_, step) = story_of(queue.state, "ns/large-1")
    assert (step.queue, step.event) == (Place.BACKOFF, LARGE_POD)


def test_each_large_pod_has_its_turn_in_its_order() -> None:
    queue = Cycle()
    queue.add(*(large(number) for number in range(5)))
    assert queue.attempts(40) == [f"large-{number}" for number in range(5)]


def test_large_pods_take_their_share() -> None:
    queue = Cycle()
    queue.add(*(large(number) for number in range(30)))
    tried = len(queue.attempts(100))
    assert 0.7 * SHARE * 100 < tried <= SHARE * 100 + SAVED + 1


def test_each_namespace_has_its_own_share() -> None:
    queue = Cycle()
    queue.add(large(1), large(2), large(3, "other"))
    assert [queue.attempt() for _ in range(3)] == ["large-1", "large-3", ""]


def test_small_attempts_are_saved_for() -> None:
    queue = Cycle()
    queue.add(*(large(number) for number in range(3)))
    for number in range(3):
        queue.send(NextPod(Nowhere()))
        assert queue.where(f"large-{number}") == "in flight"
        queue.now += SAVED / 4


def test_a_deferred_pod_can_be_deleted() -> None:
    queue = Cycle()
    queue.add(large(1), large(2))
    queue.attempt()
    queue.attempt()
    assert queue.where("large-2") == "backoff"
    queue.send(PodNoLongerPending(large(2)))
    assert queue.attempts(20) == []


def test_an_attempt_that_hung_is_charged_within_limits() -> None:
    queue = Cycle()
    queue.add(large(1), large(2))
    queue.send(NextPod(Nowhere()))
    queue.now += 10_000.0
    assert queue.attempt() == ""
    queue.now += MOST_CHARGED / SHARE
    queue.send(FlushBackoff())
    assert queue.attempt() == "large-2"


def test_a_large_pod_wakes_without_a_question() -> None:
    """A hint about it may cost as much as an attempt."""
    queue = Harness()
    queue.add(large(1))
    queue.fail(queue.pop(), "Door")
    queue.park("small", "Door")
    queue.send(POD_GONE)
    assert queue.where("large-1") == "backoff"
    assert queue.where("small") == "unschedulable"


def test_many_pods_of_a_namespace_do_not_hold_back_those_of_others() -> None:
    queue = Cycle()
    queue.seconds = 0.1
    queue.add(*(make_pod(f"a{number}", namespace="a") for number in range(20)))
    queue.add(make_pod("low", namespace="b", priority=-1), make_pod("same", namespace="b"))
    tried = [queue.attempt() for _ in range(22)]
    assert 5 <= tried.index("same") <= 8
    assert tried.index("low") == 21


def test_a_namespace_has_its_place_again_after_a_while() -> None:
    queue = Cycle()
    queue.seconds = 0.1
    queue.add(*(make_pod(f"a{number}", namespace="a") for number in range(8)))
    assert [queue.attempt() for _ in range(9)][-2:] == ["a7", ""]
    queue.now += 10.0
    queue.add(make_pod("a8", namespace="a"), make_pod("b", namespace="b"))
    assert [queue.attempt() for _ in range(2)] == ["a8", "b"]


def test_the_accounts_are_bounded() -> None:
    queue = Cycle()
    for number in range(MOST_NAMESPACES + 10):
        queue.add(large(1, f"ns-{number}"))
        queue.attempt()
    turns = queue.state._queues.turns
    for shares in (turns._all, turns._large):
        assert len(shares._used_until) <= MOST_NAMESPACES


def test_a_flush_moves_few_of_many_deferred_pods() -> None:
    queue = Cycle()
    queue.add(*(large(number) for number in range(2 * MOST_TURNS)))
    queue.attempt()
    queue.attempt()
    queue.now += 1000.0
    queue.state.handle(FlushBackoff(), queue.now)
    assert queue.state.statistics().active == MOST_TURNS

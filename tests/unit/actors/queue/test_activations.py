"""A pod that is activated again and again without progress backs off, and its user reads who
activates it.
"""

from __future__ import annotations

from collections.abc import Sequence

from berth.actors.messages.queue import Activate, FlushBackoff, NextPod, PendingPodAdded
from berth.actors.messages.recorder import RecordEvent
from berth.actors.queue.activations import MOST_IN_A_ROW, QUIET_SECONDS
from berth.actors.queue.effects import Effect, HandOut, PodRestless
from tests.kit.handle import Nowhere
from tests.kit.queue import Harness, dump_of, make_pod

ACTIVATE = Activate(("ns/p",), ("Gang",), "ns/q")


def attempts(queue: Harness, times: int) -> list[Effect]:
    """Has the pod activated and rejected again at once; returns the effects."""
    effects: list[Effect] = []
    for _ in range(times):
        effects += queue.send(ACTIVATE)
        if queue.where("p") != "active":
            break
        effects += queue.fail(queue.pop(), "Deaf")
    return effects


def told(effects: Sequence[Effect]) -> list[object]:
    return [effect for effect in effects if isinstance(effect, PodRestless | RecordEvent)]


def test_so_many_activations_skip_the_backoff_and_no_more() -> None:
    queue = Harness()
    queue.park("p", "Deaf")
    assert not told(attempts(queue, MOST_IN_A_ROW))
    attempts(queue, 1)
    assert queue.where("p") == "backoff"
    restless, event = told(queue.send(NextPod(Nowhere())))
    assert isinstance(restless, PodRestless)
    assert isinstance(event, RecordEvent)
    assert (restless.key, restless.by) == ("ns/p", "Gang at ns/q")
    assert event.reason == "ActivatedInVain"
    assert "by Gang at ns/q" in event.note
    (dump,) = dump_of(queue.state, ("ns/p",))
    assert dump.activated_by == "Gang at ns/q"
    queue.send(ACTIVATE)
    assert queue.where("p") != "active"
    assert queue.state.statistics().activations_in_vain == {"Gang": 2}


def test_activations_during_the_attempts_count_once_for_each_attempt_that_failed() -> None:
    queue = Harness()
    queue.park("p", "Deaf")
    queue.send(ACTIVATE)
    effects: list[Effect] = []
    for _ in range(MOST_IN_A_ROW):
        pod = queue.pop()
        for _ in range(3):
            queue.send(ACTIVATE)
        effects += queue.fail(pod, "Deaf")
    restless, event = told((*effects, *queue.send(NextPod(Nowhere()))))
    assert isinstance(restless, PodRestless)
    assert isinstance(event, RecordEvent)
    assert restless.activations == MOST_IN_A_ROW + 1
    assert queue.where("p") == "backoff"


def test_a_pod_that_was_left_alone_may_be_activated_again() -> None:
    queue = Harness()
    queue.park("p", "Deaf")
    attempts(queue, MOST_IN_A_ROW + 1)
    assert not [e for e in queue.send(NextPod(Nowhere())) if isinstance(e, HandOut)]
    queue.now += 30.0
    (pod,) = (e.pod for e in queue.send(FlushBackoff()) if isinstance(e, HandOut))
    queue.now += QUIET_SECONDS
    queue.fail(pod, "Deaf")
    attempts(queue, 1)
    queue.send(ACTIVATE)
    assert queue.where("p") == "active"


def test_an_activation_that_skips_nothing_does_not_count() -> None:
    queue = Harness()
    queue.park("p", "Deaf")
    for _ in range(2 * MOST_IN_A_ROW):
        queue.now += 12.0  # longer than any backoff
        attempts(queue, 1)
    queue.send(ACTIVATE)
    assert queue.where("p") == "active"


def test_a_new_pod_of_the_name_begins_anew() -> None:
    queue = Harness()
    queue.park("p", "Deaf")
    attempts(queue, MOST_IN_A_ROW + 1)
    queue.send(PendingPodAdded(make_pod("p", uid="another")))
    assert not told(queue.send(NextPod(Nowhere())))

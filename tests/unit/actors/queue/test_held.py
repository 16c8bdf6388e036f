"""A pod that is held while room is made for it misses no event, and every hold ends."""

from __future__ import annotations

import pytest

from berth.actors.messages.order import Answer
from berth.actors.messages.queue import (
    FlushUnschedulable,
    IsHeld,
    PreemptionEnded,
)
from tests.kit.handle import Nowhere
from tests.kit.queue import POD_GONE, Harness, make_pod, place_of, rejected


@pytest.fixture
def held() -> Harness:
    """One pod, ns/p, parked by `Pods` and held."""
    queue = Harness()
    queue.add(make_pod("p"))
    queue.send(rejected(queue.pop(), "Pods", hold=1))
    assert place_of(queue.state, "ns/p") == "unschedulable"
    return queue


def is_held(queue: Harness, hold: int = 1) -> bool:
    (effect,) = queue.send(IsHeld(Nowhere(), "ns/p", "p", hold))
    assert isinstance(effect, Answer)
    assert isinstance(effect.value, bool)
    return effect.value


def test_an_event_during_the_hold_wakes_the_pod_when_the_hold_ends(held: Harness) -> None:
    held.send(POD_GONE)
    assert place_of(held.state, "ns/p") == "gated"
    assert is_held(held)
    held.send(PreemptionEnded("ns/p", "p", 1))
    assert place_of(held.state, "ns/p") == "backoff"
    assert not is_held(held)


def test_an_event_in_flight_wakes_the_pod_when_the_hold_ends() -> None:
    queue = Harness()
    queue.add(make_pod("p"))
    flying = queue.pop()
    queue.send(POD_GONE)
    queue.send(rejected(flying, "Pods", hold=1))
    assert place_of(queue.state, "ns/p") == "gated"
    queue.send(PreemptionEnded("ns/p", "p", 1))
    assert place_of(queue.state, "ns/p") == "backoff"


def test_without_an_event_the_pod_stays_parked(held: Harness) -> None:
    held.send(PreemptionEnded("ns/p", "p", 1))
    assert place_of(held.state, "ns/p") == "unschedulable"
    held.send(POD_GONE)
    assert place_of(held.state, "ns/p") == "backoff"


@pytest.mark.parametrize("event_came", [False, True])
def test_after_a_failed_preemption_the_pod_is_tried_again_at_once(
    held: Harness, event_came: bool
) -> None:
    if event_came:
        held.send(POD_GONE)
    held.send(PreemptionEnded("ns/p", "p", 1, failed=True))
    assert place_of(held.state, "ns/p") == "active"


def test_after_a_failed_preemption_a_pod_that_a_plugin_gates_stays_gated(held: Harness) -> None:
    held.shut = True
    held.send(PreemptionEnded("ns/p", "p", 1, failed=True))
    assert place_of(held.state, "ns/p") == "gated"


@pytest.mark.parametrize("event_came", [False, True])
def test_the_flush_does_not_end_the_hold(held: Harness, event_came: bool) -> None:
    """However late the API server is, a second preemption never starts before the first ended."""
    if event_came:
        held.send(POD_GONE)
    for held.now in (61.0, 122.0):
        held.send(FlushUnschedulable())
        assert place_of(held.state, "ns/p") == "gated"
        assert is_held(held)
    held.send(PreemptionEnded("ns/p", "p", 1))
    assert place_of(held.state, "ns/p") == "active"


@pytest.mark.parametrize("event_came", [False, True])
def test_new_profiles_do_not_end_the_hold(held: Harness, event_came: bool) -> None:
    """They wake the pod once, as an event does, and not again."""
    if event_came:
        held.send(POD_GONE)
    assert held.use_profiles("other") == ()
    for _ in range(2):
        moved = held.use_profiles("s")
        assert place_of(held.state, "ns/p") == "gated"
        assert is_held(held)
        assert bool(moved) is not event_came
        event_came = True
    held.send(PreemptionEnded("ns/p", "p", 1))
    assert place_of(held.state, "ns/p") == "backoff"


def test_a_hold_ends_with_its_own_preemption_and_not_with_an_older_one(held: Harness) -> None:
    held.send(PreemptionEnded("ns/p", "p", 1, failed=True))
    held.send(rejected(held.pop(), "Pods", hold=2))
    assert not is_held(held, 1)
    assert is_held(held, 2)
    held.send(PreemptionEnded("ns/p", "p", 1, failed=True))
    assert is_held(held, 2)
    held.send(PreemptionEnded("ns/p", "p", 2))
    assert not is_held(held, 2)


def test_another_pod_of_the_name_is_not_held(held: Harness) -> None:
    held.add(make_pod("p", uid="other"))
    assert not is_held(held)
    held.send(PreemptionEnded("ns/p", "p", 1, failed=True))
    assert place_of(held.state, "ns/p") == "active"

"""A parked pod that fits twice is forgotten, and no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from berth.actors.messages.order import Answer
from berth.actors.messages.queue import (
    Activate,
    CountQueued,
    Examined,
    NextParked,
    ParkedPod,
    PendingPodUpdated,
)
from berth.actors.queue.effects import Effect, PodForgotten
from berth.actors.queue.forgotten import APART, PATIENCE
from tests.kit.handle import Nowhere
from tests.kit.queue import Harness, answer, make_pod, rejected


def parked(*names: str) -> Harness:
    """Returns a queue whose pods were parked by `Deaf` longer ago than the doctor's patience."""
    queue = Harness(max_unschedulable=1e9)
    for name in names:
        queue.park(name, "Deaf")
    queue.now += PATIENCE + 1
    return queue


def due(queue: Harness) -> ParkedPod | None:
    (effect,) = queue.send(NextParked(Nowhere()))
    assert isinstance(effect, Answer)
    assert isinstance(effect.value, ParkedPod | None)
    return effect.value


def examine(queue: Harness, node: str = "n") -> Sequence[Effect]:
    pod = due(queue)
    assert pod is not None
    return queue.send(Examined(pod, node))


def number(queue: Harness) -> int:
    return answer(queue.state, CountQueued).forgotten


def test_a_pod_that_fits_twice_is_forgotten_and_told_of_once() -> None:
    queue = parked("p")
    assert examine(queue) == ()
    assert due(queue) is None
    queue.now += APART
    assert number(queue) == 0
    assert examine(queue) == (PodForgotten("ns/p", "n", ("Deaf",), PATIENCE + 1 + APART),)
    queue.now += APART
    assert examine(queue) == ()
    assert number(queue) == 1
    assert queue.where("p") == "unschedulable"


def test_a_forgotten_pod_that_fits_no_more_does_not_count() -> None:
    queue = parked("p")
    for node in ("n", "n", ""):
        examine(queue, node)
        queue.now += APART
    assert number(queue) == 0


def test_a_pod_that_fits_on_another_node_each_time_is_not_forgotten() -> None:
    queue = parked("p")
    for node, nodes in (("n", ""), ("m", "n"), ("n", "m")):
        pod = due(queue)
        assert pod is not None
        assert pod.node == nodes
        assert queue.send(Examined(pod, node)) == ()
        queue.now += APART
    assert number(queue) == 0
    (told,) = examine(queue, "n")
    assert isinstance(told, PodForgotten)


@pytest.mark.parametrize("happens", ["updated", "tried again", "does not fit"])
def test_a_pod_that_changes_between_two_examinations_is_not_forgotten(happens: str) -> None:
    queue = parked("p")
    examine(queue)
    if happens == "updated":
        old = make_pod("p")
        labels = msgspec.structs.replace(old.metadata, labels={"a": "b"})
        queue.send(PendingPodUpdated(old, msgspec.structs.replace(old, metadata=labels)))
    elif happens == "tried again":
        queue.send(Activate(("ns/p",)))
        queue.fail(queue.pop(), "Deaf")
        queue.now += PATIENCE
    else:
        queue.now += APART
        examine(queue, "")
    queue.now += APART
    assert examine(queue) == ()
    assert number(queue) == 0


Parks = Callable[[Harness], Any]


def in_flight(queue: Harness) -> None:
    queue.add(make_pod("p"))
    queue.pop()


def held(queue: Harness) -> None:
    queue.add(make_pod("p"))
    queue.send(rejected(queue.pop(), "Deaf", hold=1))


def rejected_on_its_node(queue: Harness) -> None:
    queue.add(make_pod("p"))
    queue.send(rejected(queue.pop(), "Deaf", had_node=True))


def large(queue: Harness) -> None:
    queue.add(make_pod("p", large=True))
    queue.fail(queue.pop(), "Deaf")


def gated(queue: Harness) -> None:
    queue.shut = True
    queue.add(make_pod("p"))


def searching_devices(queue: Harness) -> None:
    queue.add(make_pod("p"))
    queue.fail(queue.pop(), "DynamicResources")


@pytest.mark.parametrize(
    "parks", [in_flight, held, rejected_on_its_node, large, gated, searching_devices]
)
def test_other_pods_are_left_out(parks: Parks) -> None:
    queue = Harness(max_unschedulable=1e9)
    parks(queue)
    queue.now += PATIENCE + 1
    assert due(queue) is None


def test_a_pod_is_left_alone_at_first() -> None:
    queue = Harness()
    queue.park("p", "Deaf")
    queue.now += PATIENCE
    assert due(queue) is None


def test_each_pod_is_examined_before_any_is_examined_again() -> None:
    queue = parked("a", "b", "c")
    keys = []
    while (pod := due(queue)) is not None:
        keys.append(pod.info.key)
        queue.send(Examined(pod, ""))
    assert sorted(keys) == ["ns/a", "ns/b", "ns/c"]
    queue.now += APART
    assert due(queue) is not None

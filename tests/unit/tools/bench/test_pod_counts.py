"""The tracker's counts of pods."""

from __future__ import annotations

from typing import Any

from berth.actors.scheduling.kube.core import (
    Pod,
)
from berth.tools.bench.pod_counts import PodTracker, Tally
from tests.kit import structs


def pod(
    name: str,
    node: str = "",
    message: str = "",
    reason: str = "Unschedulable",
    *,
    namespace: str = "a",
    gated: bool = False,
    **labels: str,
) -> Pod:
    failed = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    status = {"conditions": [failed] if message else []}
    gates = [{"name": "g"}] * gated
    about: Any = {"namespace": namespace, "labels": labels, "schedulingGates": gates}
    return structs.pod(name, node=node, status=status, **about)


def test_pods_are_counted_by_namespace_selector_and_state() -> None:
    tracker, told = PodTracker(), list[str]()
    tracker.on_bound.append(lambda pod: told.append(pod.metadata.name))
    for each in (
        pod("p", app="x"),
        pod("q", app="y"),
        pod("r", gated=True, app="x"),
        pod("s", message="no room", app="x"),
        pod("t", "n", namespace="b"),
    ):
        tracker.changed(each)
    assert tracker.tally("a", {}) == Tally(bound=0, attempted=2, untried=2)
    assert tracker.tally("a", {"app": "x"}) == Tally(bound=0, attempted=2, untried=1)
    tracker.changed(pod("p", "n", app="x"))
    tracker.changed(pod("p", "n", app="x"))
    assert tracker.tally("a", {"app": "x"}) == Tally(bound=1, attempted=2, untried=0)
    tracker.changed(pod("p", "n", app="z"))
    assert tracker.tally("a", {"app": "x"}) == Tally(bound=0, attempted=2, untried=0)
    assert tracker.names("a", {"app": "z"}) == ["p"]
    tracker.deleted(pod("p"))
    assert tracker.tally("a", {"app": "z"}) == Tally()
    assert (told, dict(tracker.ever_bound)) == (["t", "p"], {"b": 1, "a": 1})


def test_pods_that_a_list_has_not_are_gone() -> None:
    tracker = PodTracker()
    tracker.listed([pod("p", message="no room"), pod("q", "n")])
    tracker.listed([pod("q", "n"), pod("r")])
    assert tracker.names("a", {}) == ["q", "r"]
    assert tracker.tally("a", {}) == Tally(bound=1, untried=1)
    assert tracker.why(["a"]) == "none of them was tried"


def test_a_pod_without_its_gates_counts_as_untried_until_an_attempt() -> None:
    """Its condition still says that it is gated."""
    tracker = PodTracker()
    tracker.changed(pod("p", message="blocked", reason="SchedulingGated", gated=True))
    assert tracker.tally("a", {}) == Tally(attempted=1)
    tracker.changed(pod("p", message="blocked", reason="SchedulingGated"))
    assert tracker.tally("a", {}) == Tally(untried=1)
    tracker.changed(pod("p", message="no room"))
    assert tracker.tally("a", {}) == Tally(attempted=1)


def test_the_reason_for_waiting_is_the_most_frequent_message() -> None:
    tracker = PodTracker()
    for name, message in (("p", "no room"), ("q", "tainted"), ("r", "no room")):
        tracker.changed(pod(name, message=message))
    assert tracker.why(["a"]) == "no room"
    assert tracker.why(["b"]) == "none of them was tried"
    tracker.changed(pod("p", "n"))
    tracker.changed(pod("r", "n"))
    assert tracker.why(["a"]) == "tainted"

"""Which parked pods count as forgotten."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import msgspec
import pytest

from berth.actors.messages.queue import Place, QueuedPodDump, StoryStep
from berth.config.load import from_mapping
from berth.tools.answers.doctor.parked_pods import (
    Examination,
    always_parked,
    examine,
    gated,
    parked,
)
from berth.tools.answers.explain.cause import Cause
from berth.tools.answers.explain.decider import Explainer
from tests.kit.documents import thing

STORY = (StoryStep(5.0, Place.UNSCHEDULABLE, "ScheduleAttemptFailure"),)
POD = QueuedPodDump(
    "shop/web", "uid", Place.UNSCHEDULABLE, 0, 1, 0.0, ("Fit",), (), "", False, STORY
)
EVENTS = {"Fit": ("NodeAdd",)}


def fits(*nodes: str) -> Examination:
    return Examination({"shop/web": nodes})


def verdict(after: QueuedPodDump, first: Examination, second: Examination) -> list[tuple[str, str]]:
    pods = always_parked({POD.key: POD}, first, {after.key: after}, second, EVENTS)
    return [(pod.verdict, pod.node) for pod in pods]


def test_a_pod_that_fits_twice_on_a_node_is_forgotten() -> None:
    after = msgspec.structs.replace(POD, skipped={"Fit: NodeAdd": 2})
    (pod,) = always_parked({POD.key: POD}, fits("a", "b"), {POD.key: after}, fits("b"), EVENTS)
    assert (pod.verdict, pod.node, pod.since) == ("forgotten", "b", 5.0)
    assert pod.events == ("Fit: NodeAdd",)
    assert pod.skipped == {"Fit: NodeAdd": 2}


def test_a_pod_that_fits_on_changing_nodes_is_not_forgotten() -> None:
    assert verdict(POD, fits("a"), fits("b")) == [("does not fit", "")]
    assert verdict(POD, fits(), fits("b")) == [("does not fit", "")]


def test_a_pod_that_was_tried_in_between_is_not_reported() -> None:
    assert verdict(msgspec.structs.replace(POD, attempts=2), fits("a"), fits("a")) == []
    assert verdict(msgspec.structs.replace(POD, uid="new"), fits("a"), fits("a")) == []


def test_a_pod_that_was_not_examined_is_not_accused() -> None:
    left = Examination({}, ("shop/web",))
    assert verdict(POD, fits("a"), left) == [("not examined", "")]


@pytest.mark.parametrize(
    "change", [{"place": Place.BACKOFF}, {"place": Place.GATED}, {"held": True}]
)
def test_pods_that_wait_for_something_else_are_not_parked(change: dict[str, Any]) -> None:
    assert parked([POD]) == {POD.key: POD}
    assert parked([msgspec.structs.replace(POD, **change)]) == {}


def test_examine_decides_again() -> None:
    pods = [_pod("small", "1"), _pod("large", "8"), _pod("gated", "1")]
    pods[2]["spec"]["schedulingGates"] = [{"name": "g"}]
    configuration = from_mapping(None)
    keys = ["shop/small", "shop/large", "shop/gated", "shop/gone"]
    seen = examine(Explainer(configuration), [_node("n"), *pods], keys, 60.0)
    assert seen.nodes == {"shop/small": ("n",), "shop/large": ()}
    assert seen.left == ("shop/gated", "shop/gone")
    assert seen.causes == {}
    told = examine(Explainer(configuration), [_node("n"), *pods], keys, 60.0, 1)
    assert [(of.code, of.nodes, of.shortage) for of in told.causes["shop/large"]] == [
        ("InsufficientResource", 1, "4")
    ]


def test_a_pod_that_does_not_fit_or_is_gated_has_causes() -> None:
    cause = Cause("NodeUnschedulable", "node(s) were unschedulable", "NodeUnschedulable", 3)
    told = Examination({POD.key: ()}, causes={POD.key: [cause]})
    (unfit,) = always_parked({POD.key: POD}, fits(), {POD.key: POD}, told, EVENTS)
    assert (unfit.verdict, unfit.causes) == ("does not fit", [cause])
    held = {"gated_by": "SchedulingGates", "gate_message": "waiting for scheduling gates: [a b]"}
    (pod,) = gated([msgspec.structs.replace(POD, place=Place.GATED, **held)])
    assert [(of.code, of.gates) for of in pod.causes] == [("SchedulingGated", ("a", "b"))]
    held = {"gated_by": "Quota", "gate_message": "no quota"}
    (pod,) = gated([msgspec.structs.replace(POD, place=Place.GATED, **held)])
    assert pod.causes == [Cause("PluginRejected", "no quota", "Quota")]


def test_a_pod_costs_no_call_for_each_node() -> None:
    nodes = [_node(f"n{number}") for number in range(400)]
    configuration = from_mapping(None)
    explainer = Explainer(configuration)

    def calls(pods: int) -> int:
        keys = [f"shop/{number}" for number in range(pods)]
        objects = [*nodes, *(_pod(str(number), "2") for number in range(pods))]
        count = 0

        def note(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            examine(explainer, objects, keys, 60.0)
        finally:
            sys.setprofile(None)
        return count

    assert calls(12) - calls(2) < 10 * 1000


def _node(name: str) -> dict[str, Any]:
    return thing("Node", name, status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}})


def _pod(name: str, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return thing(
        "Pod",
        name,
        "shop",
        spec={"containers": [container], "schedulerName": "default-scheduler"},
        status={"phase": "Pending"},
    )

"""Stages: selectors, weights, delays and steps, and errors that name the field."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.kubelet.stages.stage import (
    API_VERSION,
    Delete,
    Finalizer,
    Finalizers,
    PythonStep,
    Stage,
    StageError,
    StageEvent,
    StagePatch,
    read,
    selecting,
)
from tests.kit.documents import Document

POD: Document = {
    "metadata": {"name": "a", "labels": {"app": "web"}, "annotations": {"n": "7", "wait": "90s"}},
    "status": {"phase": "Running", "restarts": 3, "done": False},
}


def stage(**spec: Any) -> Stage:
    whole = {"resourceRef": {"kind": "Pod"}, "selector": {}, "next": {"delete": True}, **spec}
    document = {
        "apiVersion": API_VERSION,
        "kind": "Stage",
        "metadata": {"name": "s"},
        "spec": whole,
    }
    return read(document, {"Pod": ("start",), "Node": ()})


def test_an_absent_selector_matches_nothing_and_an_empty_one_everything() -> None:
    everything, nothing = stage(selector={}), stage(selector=None)
    assert selecting([everything, nothing], POD) == (everything,)


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        (".status.phase", "In", ["Running", "Failed"], True),
        (".status.phase", "NotIn", ["Running"], False),
        (".status.absent", "In", ["x"], False),
        (".status.absent", "NotIn", ["x"], True),
        (".status.absent[]", "NotIn", ["x"], True),
        (".status.absent[]", "DoesNotExist", [], True),
        (".status.phase", "Exists", [], True),
        (".status.done", "Exists", [], True),
        (".status.done", "In", ["false"], True),
        (".status.restarts", "In", ["3"], True),
    ],
)
def test_requirements(key: str, operator: str, values: list[str], expected: bool) -> None:
    requirement = {"key": key, "operator": operator, "values": values}
    for expression in (requirement, {"jq": requirement}):
        stages = [stage(selector={"matchExpressions": [expression]})]
        assert bool(selecting(stages, POD)) is expected


def test_labels_and_annotations_are_required_too() -> None:
    web, db = ({"matchLabels": {"app": app}} for app in ("web", "db"))
    stages = [stage(selector=each) for each in (web, db, {**web, "matchAnnotations": {"n": "8"}})]
    assert selecting(stages, POD) == (stages[0],)


def test_stages_share_their_queries() -> None:
    running = {"key": ".status.phase", "operator": "In", "values": ["Running"]}
    first, second = (
        stage(selector={"matchExpressions": [running, {"key": key, "operator": "Exists"}]})
        for key in (".status.restarts", ".status.absent")
    )
    assert first.tests[0].query is second.tests[0].query
    assert first.tests[1].query is not second.tests[1].query
    assert selecting([second, first], POD) == (first,)


@pytest.mark.parametrize(("annotation", "weight"), [("n", 7), ("absent", 2), ("wait", None)])
def test_weights_come_from_the_object(annotation: str, weight: int | None) -> None:
    source = {"expressionFrom": f'.metadata.annotations["{annotation}"]'}
    assert stage(weight=2, weightFrom=source).weight(POD) == weight
    assert stage(weight=2).weight(POD) == 2


@pytest.mark.parametrize(
    ("delay", "share", "seconds"),
    [
        ({"durationMilliseconds": 1500}, 0.5, 1.5),
        ({"durationMilliseconds": 1000, "jitterDurationMilliseconds": 5000}, 0.0, 1.0),
        ({"durationMilliseconds": 1000, "jitterDurationMilliseconds": 5000}, 0.5, 3.0),
        ({"durationMilliseconds": 3000, "jitterDurationMilliseconds": 2000}, 0.5, 2.0),
        ({"durationFrom": {"expressionFrom": ".metadata.annotations.wait"}}, 0.5, 90.0),
        ({"durationFrom": {"jq": {"expression": '"1970-01-01T00:01:40Z"'}}}, 0.5, 90.0),
        (
            {"durationMilliseconds": 400, "durationFrom": {"expressionFrom": ".metadata.name"}},
            0.5,
            0.4,
        ),
        ({"durationMilliseconds": 400, "durationFrom": {"expressionFrom": '""'}}, 0.5, 0.0),
        ({}, 0.5, 0.0),
    ],
)
def test_delays(delay: Document, share: float, seconds: float) -> None:
    assert stage(delay=delay).delay(POD, 10.0, share) == pytest.approx(seconds)


def test_steps_keep_their_order() -> None:
    event = {"type": "Normal", "reason": "R", "message": "m"}
    of_next = stage(
        next={
            "event": event,
            "finalizers": {"add": [{"value": "x"}]},
            "statusTemplate": "phase: Failed",
            "delete": True,
        }
    )
    first, second, third, last = of_next.steps
    assert (first, last) == (StageEvent(**event), Delete())
    assert second == Finalizers(add=(Finalizer(value="x"),))
    assert isinstance(third, StagePatch)
    assert (third.root, third.subresource, third.type) == ("status", "status", "strategic")
    listed = stage(steps=[{"step": "start"}, {"delete": True, "event": event}])
    assert listed.steps == (PythonStep("start"), StageEvent(**event), Delete())
    assert listed.step == "start"


@pytest.mark.parametrize(
    ("change", "after"),
    [
        ({"add": [{"value": "c"}, {"value": "a"}]}, ["a", "b", "c"]),
        ({"remove": [{"value": "a"}, {"value": "z"}]}, ["b"]),
        ({"empty": True, "add": [{"value": "c"}]}, ["c"]),
    ],
)
def test_finalizers(change: Document, after: list[str]) -> None:
    (step,) = stage(next={"finalizers": change}).steps
    assert isinstance(step, Finalizers)
    assert step.after(["a", "b"]) == after


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"wait": 1}, "spec: object contains unknown field `wait`"),
        ({"delay": {"seconds": 1}}, "spec.delay: object contains unknown field `seconds`"),
        ({"delay": {"durationMilliseconds": "1"}}, "spec.delay.durationMilliseconds: expected"),
        ({"delay": {"durationMilliseconds": -1}}, "spec.delay.durationMilliseconds: expected 0"),
        ({"weight": -1}, "spec.weight: expected 0 or more, got -1"),
        ({"next": None}, "spec: expected next or steps"),
        ({"next": {"step": "fly"}}, "spec.next.step: expected one of start, got 'fly'"),
        (
            {"next": {"statusTemplate": "a: b\nc: {{ .x"}},
            "spec.next.statusTemplate: line 2: expected }} after {{",
        ),
        ({"resourceRef": {"kind": "Job"}}, "spec.resourceRef: expected Node or Pod of v1, got Job"),
        (
            {"selector": {"matchExpressions": [{"key": ".a[", "operator": "Exists"}]}},
            "spec.selector.matchExpressions[0].key: '.a[': expected a path",
        ),
        (
            {"selector": {"matchExpressions": [{"key": ".a", "operator": "Has"}]}},
            "spec.selector.matchExpressions[0].operator: expected In, NotIn, Exists",
        ),
        (
            {"selector": {"matchExpressions": [{"key": ".a", "operator": "In"}]}},
            "spec.selector.matchExpressions[0].values: expected values for In",
        ),
        (
            {"weightFrom": {"cel": {"expression": "self"}}},
            "spec.weightFrom.cel: expected expressionFrom or jq; CEL is not supported",
        ),
    ],
)
def test_errors_name_the_field(spec: Document, problem: str) -> None:
    with pytest.raises(StageError) as caught:
        stage(**spec)
    assert str(caught.value).startswith(f"Stage s: {problem}")


def test_only_stages_are_read() -> None:
    with pytest.raises(StageError, match="expected a Stage of kwok"):
        read({"apiVersion": "v1", "kind": "Pod"}, {"Pod": ()})

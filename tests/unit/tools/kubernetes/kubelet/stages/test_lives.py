"""Lives: one stage at a time, delays that go on, and what a restart derives again."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any

from berth.tools.kubernetes.kubelet.stages.lives import Lives
from berth.tools.kubernetes.kubelet.stages.stage import API_VERSION, Stage, read
from tests.kit.documents import Document


def stage(name: str, phase: str, seconds: float | None = 0.0, **spec: Any) -> Stage:
    """Returns a stage of the pods in a phase; with no delay of its own if `seconds` is None."""
    requirement = {"key": ".status.phase", "operator": "In", "values": [phase]}
    whole: Document = {
        "resourceRef": {"kind": "Pod"},
        "selector": {"matchExpressions": [requirement]},
        "next": {"step": "start"} if seconds is None else {"delete": True},
        **spec,
    }
    if seconds is not None and "delay" not in spec:
        whole["delay"] = {"durationMilliseconds": int(seconds * 1000)}
    document = {
        "apiVersion": API_VERSION,
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": whole,
    }
    return read(document, {"Pod": ("start",)})


def pod(version: int, phase: str, uid: str = "u", **metadata: Any) -> Document:
    return {
        "metadata": {"uid": uid, "name": uid, "resourceVersion": str(version), **metadata},
        "status": {"phase": phase},
    }


def lives(*stages: Stage, step_due: float | None = None, seed: int = 1) -> Lives:
    return Lives(stages, Random(seed), lambda *_: step_due)


def names(state: Lives, now: float) -> list[str]:
    taken = [due.stage.name for due in state.take_due(now)]
    state.validate()
    return taken


def test_a_version_that_waits_for_nothing_is_not_looked_at_again() -> None:
    state = lives(stage("a", "Pending", 5))
    state.put(pod(1, "Running"), 100)
    state.put(pod(1, "Pending"), 101)  # the version says that nothing has changed
    assert state.next_due() is None
    state.put(pod(2, "Pending"), 102)
    assert state.next_due() == 107
    state.validate()


def test_an_object_that_comes_again_is_looked_at_again() -> None:
    state = lives(stage("a", "Pending", 5))
    state.put(pod(1, "Running"), 100)
    state.remove("u")
    state.put(pod(1, "Pending"), 100)
    assert state.next_due() == 105
    state.put(pod(2, "Running"), 101)
    state.replace([], 102)
    state.put(pod(2, "Pending"), 103)
    assert state.next_due() == 108
    state.validate()


def test_a_stage_is_over_once_after_its_delay() -> None:
    state = lives(stage("a", "Pending", 5))
    state.put(pod(1, "Pending"), 100)
    assert state.next_due() == 105
    assert names(state, 104.9) == []
    assert names(state, 105) == ["a"]
    assert names(state, 200) == []


def test_other_changes_do_not_restart_a_delay() -> None:
    state = lives(stage("a", "Pending", 5))
    state.put(pod(1, "Pending"), 100)
    state.put(pod(2, "Pending", labels={"x": "y"}), 103)
    assert state.next_due() == 105
    (due,) = state.take_due(105)
    assert due.document["metadata"]["labels"] == {"x": "y"}


def test_old_news_is_ignored() -> None:
    state = lives(stage("a", "Pending", 5), stage("b", "Running", 5))
    state.put(pod(2, "Running"), 100)
    state.put(pod(1, "Pending"), 101)
    assert names(state, 105) == ["b"]


def test_another_stage_ends_the_delay() -> None:
    state = lives(stage("a", "Pending", 5), stage("b", "Running", 1))
    state.put(pod(1, "Pending"), 100)
    state.put(pod(2, "Running"), 103)
    assert names(state, 110) == ["b"]


def test_changes_during_the_steps_count_after_them() -> None:
    state = lives(stage("a", "Pending"), stage("b", "Running", 1))
    before = pod(1, "Pending")
    state.put(before, 100)
    assert names(state, 100) == ["a"]
    state.put(pod(3, "Running"), 100.5)
    assert names(state, 102) == []
    state.ended(before, pod(2, "Pending"), 102)
    assert names(state, 103) == ["b"]


def test_the_answer_of_the_server_begins_the_next_stage() -> None:
    state = lives(stage("a", "Pending"), stage("b", "Running", 1))
    before = pod(1, "Pending")
    state.put(before, 100)
    state.take_due(100)
    state.ended(before, pod(2, "Running"), 100)
    state.put(pod(2, "Running"), 100.4)
    assert state.next_due() == 101


def test_a_step_without_effect_waits_for_the_next_change() -> None:
    state = lives(stage("a", "Pending"))
    before = pod(1, "Pending")
    state.put(before, 100)
    state.take_due(100)
    state.ended(before, before, 100)
    assert len(state) == 0
    assert state.next_due() is None
    state.put(pod(2, "Pending"), 101)
    assert names(state, 101) == ["a"]


def test_a_refused_step_is_tried_again_without_another_delay() -> None:
    state = lives(stage("a", "Pending", 5))
    before = pod(1, "Pending")
    state.put(before, 100)
    state.take_due(105)
    state.ended(before, None, 105)
    assert names(state, 200) == []
    state.put(pod(2, "Pending"), 106)
    assert names(state, 106) == ["a"]
    state.put(pod(3, "Pending"), 107)
    state.ended(pod(2, "Pending"), None, 107)
    assert names(state, 107) == ["a"]


def test_a_step_that_met_a_conflict_is_due_again_without_a_newer_version() -> None:
    state = lives(stage("a", "Pending", 5))
    before = pod(1, "Pending")
    state.put(before, 100)
    state.take_due(105)
    state.ended(before, None, 106, again=True)
    assert names(state, 106) == ["a"]
    state.put(pod(2, "Running"), 107)
    state.ended(before, None, 107, again=True)
    assert len(state) == 0
    state.validate()


def test_an_object_that_left_its_stage_during_the_steps_waits_anew_when_it_comes_back() -> None:
    state = lives(stage("a", "Pending", 5))
    state.put(pod(1, "Pending"), 100)
    (due,) = state.take_due(105)
    state.put(pod(2, "Running"), 106)
    state.put(pod(3, "Pending"), 107)
    state.ended(due.document, None, 108)
    assert state.next_due() == 113
    state.validate()


def test_a_deleted_object_has_no_stage() -> None:
    state = lives(stage("a", "Pending", 5))
    state.put(pod(1, "Pending"), 100)
    state.remove("u")
    assert names(state, 200) == []


def test_a_listed_object_counts_its_delay_from_its_last_transition() -> None:
    state = lives(stage("a", "Pending", 5))
    state.replace([pod(1, "Pending", creationTimestamp="1970-01-01T00:01:38Z")], 100)
    assert state.next_due() == 103
    state.replace([], 101)
    assert names(state, 200) == []


def test_steps_say_when_they_are_due_and_are_woken() -> None:
    due: list[float | None] = [inf]
    state = Lives([stage("a", "Pending", None)], Random(1), lambda *_: due[0])
    state.put(pod(1, "Pending"), 100)
    assert (state.next_due(), len(state)) == (None, 1)
    due[0] = 101
    state.wake("u")
    assert names(state, 101) == ["a"]


def test_objects_that_wait_for_nothing_are_not_kept() -> None:
    state = lives(stage("a", "Pending", None), step_due=None)
    state.put(pod(1, "Pending"), 100)
    state.put(pod(1, "Unknown", "v"), 100)
    assert len(state) == 0


def test_many_changes_do_not_grow_the_heap() -> None:
    state = lives(stage("a", "Pending", 5), stage("b", "Running", 5))
    for version in range(1, 1000):
        state.put(pod(version, "Running" if version % 2 else "Pending"), version / 10)
        state.validate()

"""When a DeviceTaintRule is told what it evicts, and in what words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from berth.tools.kubernetes.devices.taint_rule_status import (
    CONDITION,
    PERIOD,
    Selected,
    TaintRuleStatus,
)
from berth.tools.kubernetes.objects.structs import DeviceTaintRule, Pod, read
from berth.tools.kubernetes.objects.writes import Again, Patch, Write
from tests.kit.devices import device_taint_rule
from tests.kit.documents import Document

from .objects import NOW, pod

OTHER = {"type": "Other", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


class Told:
    """A rule whose status is written as its conditions are decided on."""

    def __init__(self, effect: str = "NoExecute") -> None:
        self.status = TaintRuleStatus()
        self.document = device_taint_rule("r", "k", effect=effect)
        self.document["metadata"] |= {"generation": 1, "resourceVersion": "1"}
        self.document["status"] = {"conditions": [OTHER]}

    def reconcile(
        self, seconds: float, pods: Sequence[Pod] = (), evicted: int = 0
    ) -> Sequence[Write]:
        writes = self.status.reconcile(
            read(self.document, DeviceTaintRule),
            lambda _: pods,
            lambda _: Selected(1, 2),
            evicted,
            NOW + timedelta(seconds=seconds),
        )
        for write in writes:
            if isinstance(write, Patch):
                self.document["status"] = write.body["status"]
        return writes

    @property
    def condition(self) -> Document:
        other, told = self.document["status"]["conditions"]
        assert (other["type"], told["type"]) == ("Other", CONDITION)
        return {field: told[field] for field in ("status", "reason", "message")}


def test_pods_are_told_at_once_and_then_counted_together() -> None:
    told = Told()
    told.reconcile(0, [pod("a"), pod("b")])
    assert told.condition == {
        "status": "True",
        "reason": "PodsPendingEviction",
        "message": "2 pods need to be evicted in 1 namespace.",
    }
    assert told.reconcile(1, [pod("a")], 1) == [Again(PERIOD)]
    assert told.reconcile(5, [pod("a")], 1) == [Again(PERIOD - 4)]
    told.reconcile(11, [], 2)
    assert told.condition == {
        "status": "False",
        "reason": "Completed",
        "message": "2 pods evicted since starting the controller.",
    }


def test_a_condition_that_says_the_same_is_not_written_again() -> None:
    told = Told()
    told.reconcile(0)
    assert told.condition == {"status": "False", "reason": "NotStarted", "message": ""}
    assert told.reconcile(1) == [Again(PERIOD)]
    assert told.reconcile(11) == []


def test_a_new_controller_waits_since_the_last_transition() -> None:
    told = Told()
    told.reconcile(0, [pod("a")])
    told.status = TaintRuleStatus()
    assert told.reconcile(4, [pod("a")]) == [Again(PERIOD - 4)]


def test_a_rule_without_effect_is_told_once_what_it_would_do() -> None:
    told = Told("None")
    told.reconcile(0, [pod("a")])
    assert told.condition["reason"] == "NoEffect"
    assert told.condition["message"].startswith(
        "1 published device selected. 2 allocated devices selected. "
        "1 pod would be evicted in 1 namespace if the effect was NoExecute."
    )
    assert told.reconcile(60) == []


@pytest.mark.parametrize("effect", ["None", "NoSchedule", "NoExecute"])
def test_a_status_that_the_server_refused_is_decided_again(effect: str) -> None:
    told = Told(effect)
    before = told.document["status"]
    (refused,) = told.reconcile(0, [pod("a")])
    assert isinstance(refused, Patch)
    told.document["status"] = before
    assert told.reconcile(0, [pod("a")]) == [refused]

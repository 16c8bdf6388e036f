"""A PreEnqueue plugin that fails or rejects keeps its pod gated, and the pod's user reads why."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from berth.actors.messages.queue import (
    ClusterChanged,
    NextPod,
    PendingPodAdded,
    PendingPodUpdated,
    PodNoLongerPending,
    QueueMessage,
)
from berth.actors.messages.recorder import RecordEvent, SetUnschedulable
from berth.actors.queue.effects import HandOut
from berth.actors.queue.gate_reports import NOT_REPORTED, REPORT_SECONDS
from berth.actors.queue.queues import QueueRules
from berth.actors.queue.state import QueueState
from berth.actors.scheduling.framework.events import Action, ClusterEvent, Resource
from berth.actors.scheduling.framework.status import SUCCESS, Status, error, unschedulable
from berth.actors.scheduling.kube.core import Node, Pod
from tests.kit import structs
from tests.kit.handle import Nowhere
from tests.kit.queue import dump_of, place_of

LOOK = ClusterChanged(ClusterEvent(Resource.NODE, Action.ADD), None, Node())


def make_pod(name: str, uid: str = "", label: str = "") -> Pod:
    return structs.pod(name, uid=uid or name, labels={"l": label}, schedulerName="s")


class Gate:
    """A queue with one PreEnqueue plugin. The test sets its answer, and asks for pods."""

    def __init__(self) -> None:
        self.answer = SUCCESS
        self.now = 1.0
        self.state = QueueState(QueueRules(lambda info, at: (at,), lambda _: self.answer, {}))
        self.handed_out: list[str] = []

    def send(self, *messages: QueueMessage) -> list[str]:
        """Returns what is written for users."""
        written = []
        for message in messages:
            effects = self.state.handle(message, self.now)
            self.state.validate()
            written += self.written(effects)
            self.handed_out += [
                effect.pod.info.key for effect in effects if isinstance(effect, HandOut)
            ]
        return written

    @staticmethod
    def written(effects: Sequence[object]) -> list[str]:
        conditions = [effect for effect in effects if isinstance(effect, SetUnschedulable)]
        events = [effect for effect in effects if isinstance(effect, RecordEvent)]
        assert [(c.pod.metadata.uid, c.message) for c in conditions] == [
            (e.regarding.uid, e.note) for e in events
        ]
        reasons = ("SchedulerError", "SchedulingGated")
        assert all(c.reason in reasons and c.nominated_node is None for c in conditions)
        assert all((e.reason, e.type.value) == ("FailedScheduling", "Warning") for e in events)
        return [f"{condition.pod.metadata.uid}: {condition.message}" for condition in conditions]

    def answers(self, status: Status, plugin: str = "Door") -> None:
        self.answer = status.by(plugin)

    def asks(self) -> list[str]:
        return self.send(NextPod(Nowhere()))


def test_each_failure_is_reported_once() -> None:
    gate = Gate()
    gate.asks()
    gate.answers(error("no disk"))
    assert gate.send(PendingPodAdded(make_pod("p"))) == ["p: no disk"]
    assert gate.send(LOOK, LOOK) == []
    gate.answers(error("no network"))
    assert gate.send(LOOK) == []
    gate.now += REPORT_SECONDS
    assert gate.send(LOOK, LOOK) == ["p: no network"]
    assert place_of(gate.state, "ns/p") == "gated"
    gate.answers(SUCCESS)
    assert gate.send(LOOK) == []
    assert gate.handed_out == ["ns/p"]


def test_a_message_that_differs_each_time_is_reported_once_a_minute() -> None:
    gate = Gate()
    gate.asks()
    gate.answers(error("request 0"))
    written = gate.send(PendingPodAdded(make_pod("p")))
    for number in range(1, 1000):
        gate.answers(error(f"request {number}"))
        gate.now += 0.1
        written += gate.send(PendingPodUpdated(make_pod("p"), make_pod("p", label=str(number))))
    assert len(written) == 2


BLOCKED = "p: Scheduling is blocked by the plugin Door: not yet"


def test_a_rejection_is_reported_as_a_scheduling_gate() -> None:
    gate = Gate()
    gate.asks()
    gate.answers(unschedulable("not yet"))
    assert gate.send(PendingPodAdded(make_pod("p")), LOOK) == [BLOCKED]
    (dump,) = dump_of(gate.state, ("ns/p",))
    assert (dump.gated_by, dump.gate_message) == ("Door", "not yet")
    assert (dump.story[-1].plugin, dump.story[-1].message) == ("Door", "not yet")
    gate.now += REPORT_SECONDS
    gate.answers(error("no disk"))
    assert gate.send(LOOK) == ["p: no disk"]
    gate.answers(SUCCESS)
    assert gate.send(LOOK) == []
    assert gate.handed_out == ["ns/p"]


def test_a_pod_that_is_gated_again_is_reported_again() -> None:
    gate = Gate()
    gate.asks()
    gate.answers(unschedulable("not yet"))
    assert gate.send(PendingPodAdded(make_pod("p"))) == [BLOCKED]
    gate.answers(SUCCESS)
    gate.send(LOOK)
    gate.answers(unschedulable("not yet"))
    pod = make_pod("p")
    gate.send(PodNoLongerPending(pod), PendingPodAdded(pod))
    assert gate.asks() == [BLOCKED]


@pytest.mark.parametrize("plugin", sorted(NOT_REPORTED))
def test_what_others_report_or_nobody_does_is_only_shown(plugin: str) -> None:
    gate = Gate()
    gate.asks()
    gate.answers(unschedulable("not yet"), plugin)
    assert gate.send(PendingPodAdded(make_pod("p")), LOOK) == []
    (dump,) = dump_of(gate.state, ("ns/p",))
    assert (dump.gated_by, dump.gate_message) == (plugin, "not yet")
    gate.answers(error("no disk"), plugin)
    assert gate.send(LOOK) == ["p: no disk"]


def test_a_standby_reports_nothing_until_it_leads() -> None:
    gate = Gate()
    gate.answers(error("no disk"))
    assert gate.send(*(PendingPodAdded(make_pod(name)) for name in "pqr")) == []
    assert gate.send(PodNoLongerPending(make_pod("q"))) == []
    gate.answers(error("no network"))
    assert gate.send(LOOK) == []
    assert gate.asks() == ["p: no network", "r: no network"]
    assert gate.asks() == []


def test_a_failure_that_is_over_is_not_reported() -> None:
    gate = Gate()
    gate.answers(error("no disk"))
    gate.send(PendingPodAdded(make_pod("p")))
    gate.answers(SUCCESS)
    gate.send(LOOK)
    assert gate.asks() == []
    assert gate.handed_out == ["ns/p"]


def test_a_new_pod_of_the_same_name_has_its_failures_reported() -> None:
    gate = Gate()
    gate.answers(error("no disk"))
    gate.send(PendingPodAdded(make_pod("p", "1")))
    gate.send(PodNoLongerPending(make_pod("p", "1")), PendingPodAdded(make_pod("p", "2")))
    assert gate.asks() == ["2: no disk"]


def test_the_report_is_about_the_latest_version_of_the_pod() -> None:
    gate = Gate()
    gate.answers(error("no disk"))
    old, new = make_pod("p"), make_pod("p", label="new")
    gate.send(PendingPodAdded(old), PendingPodUpdated(old, new))
    (condition,) = (
        e for e in gate.state.handle(NextPod(Nowhere()), 1.0) if isinstance(e, SetUnschedulable)
    )
    assert condition.pod is new

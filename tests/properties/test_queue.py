"""The queue over random histories: no pod lost, none in two places, no wake-up missed."""

from __future__ import annotations

from itertools import count

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.framework.events import Action, ClusterEvent, Hint, Registration, Resource
from actors.framework.status import SUCCESS, Status, unresolvable
from actors.kube.core import Pod
from actors.messages import (
    Activate,
    AttemptFailed,
    ClusterChanged,
    Done,
    FlushBackoff,
    FlushUnschedulable,
    NextPod,
    PendingPodAdded,
    PendingPodDeleted,
    PendingPodUpdated,
    QueuedPod,
    QueueMessage,
)
from actors.model.pod_info import PodInfo
from actors.queue.state import HandOut, Moved, QueueRules, QueueState

NAMES = st.sampled_from(["a", "b", "c", "d"])
NODE_ADDED = ClusterEvent(Resource.NODE, Action.ADD, "NodeAdd")
POD_DELETED = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE, "AssignedPodDelete")
HINTS = {
    "s": {
        "OnNode": (Registration(ClusterEvent(Resource.NODE, Action.ADD), lambda *_: Hint.QUEUE),),
        "Never": (Registration(ClusterEvent(Resource.NODE, Action.ADD), lambda *_: Hint.SKIP),),
    }
}


def make_pod(name: str, uid: int, priority: int = 0, gates: int = 0) -> Pod:
    document = {
        "metadata": {"namespace": "ns", "name": name, "uid": str(uid)},
        "spec": {"schedulerName": "s", "priority": priority, "schedulingGates": [{"name": "g"}] * gates},
    }
    return msgspec.convert(document, Pod)


def gate(pod: Pod) -> Status:
    return unresolvable("gated") if pod.spec.scheduling_gates else SUCCESS


def order(info: PodInfo, enqueued_at: float) -> tuple[float, ...]:
    return (-info.priority, enqueued_at)


class Reply:
    def set(self, value: QueuedPod) -> None:
        raise AssertionError(value)


class QueueHistory(RuleBasedStateMachine):
    """The model: the pods that exist, and what each one in flight was told and has missed since."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = QueueState(QueueRules(order, gate, HINTS))
        self.now = 0.0
        self.uids = count()
        self.pods: dict[str, Pod] = {}
        self.flying: dict[str, QueuedPod] = {}  # uid -> what was handed out
        self.missed: dict[str, list[ClusterEvent]] = {}
        self.asked = 0

    def send(self, message: QueueMessage) -> None:
        for effect in self.queue.handle(message, self.now):
            match effect:
                case HandOut(_, queued):
                    self.asked -= 1
                    pod = self.pods[queued.info.pod.metadata.name]
                    assert queued.info.uid == pod.metadata.uid
                    assert queued.info.pod is pod, "handed out as it was before its update"
                    assert queued.info.uid not in self.flying, "handed out twice"
                    assert not pod.spec.scheduling_gates
                    self.flying[queued.info.uid] = queued
                    self.missed[queued.info.uid] = []
                case Moved(name, _, _):
                    assert name.removeprefix("ns/") in self.pods

    @rule(name=NAMES, priority=st.integers(0, 2), gates=st.integers(0, 1))
    def added(self, name: str, priority: int, gates: int) -> None:
        if name in self.pods:
            return
        self.pods[name] = make_pod(name, next(self.uids), priority, gates)
        self.send(PendingPodAdded(self.pods[name]))

    @rule(name=NAMES, priority=st.integers(0, 2))
    def updated(self, name: str, priority: int) -> None:
        if name in self.pods:
            old = self.pods[name]
            self.pods[name] = make_pod(name, int(old.metadata.uid), priority)
            self.send(PendingPodUpdated(old, self.pods[name]))

    @rule(name=NAMES)
    def deleted(self, name: str) -> None:
        pod = self.pods.pop(name, None)
        if pod is not None:
            self.flying.pop(pod.metadata.uid, None)
            self.send(PendingPodDeleted(pod))

    @rule()
    def asked_for_one(self) -> None:
        self.asked += 1
        self.send(NextPod(Reply()))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), plugin=st.sampled_from(["OnNode", "Never", "Unknown"]), error=st.booleans())
    def failed(self, data: st.DataObject, plugin: str, error: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.flying)))
        queued = self.flying.pop(uid)
        missed = self.missed.pop(uid)
        name = queued.info.pod.metadata.name
        self.send(AttemptFailed(queued, frozenset({plugin}), error=error))
        woken = error or (plugin == "OnNode" and NODE_ADDED in missed) or (plugin == "Unknown" and missed)
        place = self.queue.where(f"ns/{name}")
        if woken:
            assert place != "unschedulable", f"a wake-up of {plugin} was missed: {missed}"
        elif plugin == "Never":
            assert place == "unschedulable"

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def failed_after_done(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.flying)))
        self.send(Done(uid))
        queued = self.flying.pop(uid)
        self.send(AttemptFailed(queued, frozenset({"Never"})))
        assert self.queue.where(queued.info.key) not in ("", "unschedulable")

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def bound(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.flying)))
        queued = self.flying.pop(uid)
        self.send(Done(uid))
        self.send(PendingPodDeleted(self.pods.pop(queued.info.pod.metadata.name)))

    @rule(event=st.sampled_from([NODE_ADDED, POD_DELETED]))
    def happened(self, event: ClusterEvent) -> None:
        for missed in self.missed.values():
            missed.append(event)
        self.send(ClusterChanged(event))

    @rule(name=NAMES)
    def activated(self, name: str) -> None:
        before = self.queue.where(f"ns/{name}")
        self.send(Activate((f"ns/{name}",)))
        if before in ("backoff", "unschedulable"):
            assert self.queue.where(f"ns/{name}") in ("active", "gated", "in flight")

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.send(FlushBackoff())
        if seconds > 300:
            self.send(FlushUnschedulable())
            assert self.queue.statistics().unschedulable == 0

    @invariant()
    def every_pod_is_in_one_place(self) -> None:
        self.queue.validate()
        for name, pod in self.pods.items():
            place = self.queue.where(f"ns/{name}")
            assert place, f"{name} is lost"
            assert (place == "in flight") == (pod.metadata.uid in self.flying)
        statistics = self.queue.statistics()
        assert sum(msgspec.structs.astuple(statistics)) == len(self.pods)
        assert not (self.asked and statistics.active), "somebody waits while a pod is ready"


QueueHistory.TestCase.settings = settings(max_examples=500, stateful_step_count=30, deadline=None)
TestQueue = QueueHistory.TestCase

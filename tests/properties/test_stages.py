"""Lives against random histories: one transition at a time, weights respected, jitter in bounds."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from berth.tools.kubernetes.kubelet.containers import Backoffs, Exit, after_exits, progress
from berth.tools.kubernetes.kubelet.stages.lives import Due, Lives
from berth.tools.kubernetes.kubelet.stages.stage import API_VERSION, Stage, read, selecting
from tests.kit.documents import Document

PHASES = ("Pending", "Running", "Failed")
UIDS = ("a", "b", "c")
LEAST, MOST = 2.0, 6.0


def stage(name: str, phases: list[str], weight: int = 0) -> Stage:
    requirement = {"key": ".status.phase", "operator": "In", "values": phases}
    spec = {
        "resourceRef": {"kind": "Pod"},
        "selector": {"matchExpressions": [requirement]},
        "weight": weight,
        "delay": {"durationMilliseconds": 2000, "jitterDurationMilliseconds": 6000},
        "next": {"delete": True},
    }
    document = {"apiVersion": API_VERSION, "kind": "Stage", "metadata": {"name": name}}
    return read({**document, "spec": spec}, {"Pod": ()})


STAGES = (
    stage("start", ["Pending"]),
    stage("often", ["Running"], 3),
    stage("never", ["Running"], 0),
    stage("seldom", ["Running"], 1),
)


def pod(uid: str, version: int, phase: str) -> Document:
    return {
        "metadata": {"uid": uid, "name": uid, "resourceVersion": str(version)},
        "status": {"phase": phase},
    }


class Histories(RuleBasedStateMachine):
    """Pods change, stages end, and their steps succeed or fail, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.lives = Lives(STAGES, Random(1), lambda *_: None)
        self.now = 1000.0
        self.version = 0
        self.pods: dict[str, Document] = {}
        self.since: dict[str, float] = {}  # the beginning of each pod's phase or stage
        self.under_way: dict[str, Due] = {}

    @rule(uid=st.sampled_from(UIDS), phase=st.sampled_from(PHASES))
    def change(self, uid: str, phase: str) -> None:
        self.version += 1
        before = self.pods.get(uid)
        self.pods[uid] = pod(uid, self.version, phase)
        if before is None or before["status"]["phase"] != phase:
            self.since[uid] = self.now
        self.lives.put(self.pods[uid], self.now)

    @rule(uid=st.sampled_from(UIDS))
    def repeat(self, uid: str) -> None:
        """Brings old news, as after an answer of the server."""
        if uid in self.pods:
            self.lives.put(self.pods[uid], self.now)

    @rule(seconds=st.floats(0, 5))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for due in self.lives.take_due(self.now):
            uid = due.document["metadata"]["uid"]
            assert uid not in self.under_way, "two transitions at a time"
            assert due.document == self.pods[uid]
            assert selecting([due.stage], due.document)
            assert due.stage.name != "never"
            assert self.now - self.since[uid] >= LEAST
            self.under_way[uid] = due

    @rule(uid=st.sampled_from(UIDS), succeeds=st.booleans(), phase=st.sampled_from(PHASES))
    def end(self, uid: str, succeeds: bool, phase: str) -> None:
        due = self.under_way.pop(uid, None)
        if due is None:
            return
        answer = None
        if succeeds and uid in self.pods and self.pods[uid] == due.document:
            self.version += 1
            answer = self.pods[uid] = pod(uid, self.version, phase)
            self.since[uid] = self.now
        self.lives.ended(due.document, answer, self.now)

    @rule(uid=st.sampled_from(UIDS))
    def delete(self, uid: str) -> None:
        if uid in self.pods and uid not in self.under_way:
            del self.pods[uid]
            self.lives.remove(uid)

    @invariant()
    def no_stage_is_late(self) -> None:
        self.lives.validate()
        due = self.lives.next_due()
        assert due is None or due <= self.now + MOST


TestHistories = Histories.TestCase


@given(st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    def history() -> list[tuple[float, str]]:
        lives = Lives(STAGES, Random(seed), lambda *_: None)
        for number in range(20):
            lives.put(pod(str(number), 1, PHASES[number % 3]), number)
        events = []
        while (due := lives.next_due()) is not None:
            events += [(due, taken.stage.name) for taken in lives.take_due(due)]
        return events

    assert history() == history()


def test_weights_are_respected() -> None:
    lives = Lives(STAGES, Random(7), lambda *_: None)
    for number in range(4000):
        lives.put(pod(str(number), 1, "Running"), 0.0)
    names = [due.stage.name for due in lives.take_due(MOST)]
    assert len(names) == 4000
    assert names.count("never") == 0
    assert 0.72 < names.count("often") / 4000 < 0.78


TIMES = st.sampled_from(["1970-01-01T00:16:00Z", "1970-01-01T00:16:40Z", "1970-01-01T00:17:00Z"])
ENDED = st.fixed_dictionaries({}, optional={"exitCode": st.integers(0, 2), "finishedAt": TIMES})
STATES: st.SearchStrategy[Any] = st.one_of(
    st.just({}),
    st.just(None),
    st.fixed_dictionaries({"running": st.fixed_dictionaries({}, optional={"startedAt": TIMES})}),
    st.fixed_dictionaries({"terminated": ENDED}),
    st.fixed_dictionaries(
        {
            "waiting": st.fixed_dictionaries(
                {},
                optional={
                    "reason": st.sampled_from(["CrashLoopBackOff", "ImagePullBackOff", ""]),
                    "message": st.sampled_from(["back-off 1m20s restarting failed c", "?"]),
                },
            )
        }
    ),
)
STATUSES = st.fixed_dictionaries(
    {"name": st.just("c")},
    optional={
        "state": STATES,
        "lastState": st.one_of(st.just({}), st.fixed_dictionaries({"terminated": ENDED})),
        "restartCount": st.integers(0, 9),
        "ready": st.booleans(),
    },
)


@given(
    st.lists(STATUSES, max_size=1),
    st.lists(STATUSES, max_size=1),
    st.sampled_from([None, "Always"]),
    st.sampled_from(["Always", "OnFailure", "Never"]),
    st.integers(0, 2),
)
def test_any_status_leads_to_a_stable_one(
    mains: list[Document], inits: list[Document], sidecar: str | None, policy: str, code: int
) -> None:
    container = {"name": "c", "image": "x", "readinessProbe": {"initialDelaySeconds": 5}}
    metadata = {"name": "p", "namespace": "default", "uid": "u"}
    spec = {
        "restartPolicy": policy,
        "containers": [container],
        "initContainers": [{**container, "restartPolicy": sidecar}],
    }
    status: Document = {"containerStatuses": mains, "initContainerStatuses": inits}
    document: Document = {"metadata": metadata, "spec": spec, "status": status}
    now = 1000.0
    exits = after_exits(document, now, lambda _: Exit(code, "Error"), Backoffs()).status
    document = {**document, "status": exits}
    for _ in range(20):
        then = progress(document, now)
        assert then.due is None or then.due > now
        document = {**document, "status": then.status}
        again = progress(document, now)
        for field in ("phase", "containerStatuses", "initContainerStatuses"):
            assert again.status[field] == then.status[field]
        if then.due is None:
            return
        now = then.due
    raise AssertionError("time alone keeps changing the pod")

"""The attempts that a running scheduler recorded tell what `explain` found at that moment, and what
became of each: through preemption, Permit, PreBind, bindings that fail, and pods that are deleted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from random import Random
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.attempt.attempts_page import AttemptsPage, RecordedAttempt
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.actors.telemetry.logs import configure_logs
from berth.actors.wiring.profiles import profiles_of
from berth.config.types import KubeSchedulerConfiguration
from berth.plugin import (
    SUCCESS,
    Code,
    CycleState,
    PermitPlugin,
    PodInfo,
    PreBindPlugin,
    PreBindPreFlightResult,
    ReservePlugin,
    Snapshot,
    Status,
    unschedulable,
)
from berth.tools.answers.explain.decision import Decision, decide
from tests.kit.examples import examples
from tests.kit.handle import NoApi
from tests.kit.virtual_cluster import Fault, VirtualCluster, node, pod, virtual_cluster

from .test_flights import agree

FRESH = profiles_of(KubeSchedulerConfiguration(), NoApi())["default-scheduler"]
POINTS = ("", "reserve", "permit", "wait", "pre_bind")
FAULTS = (Fault.NONE, Fault.REFUSED, Fault.LOST, Fault.UNANSWERED)
STEPS = ("pod", "pod", "pod", "pod", "node", "cordon", "delete", "time")
CAUSES = ("no in reserve", "no in permit", "timeout", "no in pre_bind", "for the test")
SEEN: Counter[str] = Counter()  # what the recorded attempts of all histories were


class Unsteady(ReservePlugin, PermitPlugin, PreBindPlugin):
    """A plugin that rejects the next pods where `next` says."""

    name = "Unsteady"
    next: ClassVar[dict[str, str]] = {}  # extension point by pod

    def _answer(self, info: PodInfo, point: str) -> Status:
        if self.next.get(info.key) != point:
            return SUCCESS
        del self.next[info.key]
        return unschedulable(f"no in {point}")

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return self._answer(info, "reserve")

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        pass

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        if self.next.get(info.key) == "wait":
            del self.next[info.key]
            return Status(Code.WAIT), 20.0
        return self._answer(info, "permit"), 0.0

    def pre_bind_pre_flight(
        self, state: CycleState, info: PodInfo, node: str
    ) -> Status | PreBindPreFlightResult:
        return PreBindPreFlightResult(True)

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return self._answer(info, "pre_bind")


class History:
    """A random history, and what explain found before each decision, by pod."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.explained: dict[str, list[Decision]] = {}
        self.quiet = False

    def look(self, info: PodInfo, snapshot: Snapshot) -> None:
        explained = decide(FRESH, info, snapshot)
        assert isinstance(explained, Decision)
        self.explained.setdefault(info.key, []).append(explained)

    def fault(self, method: str, path: str, _body: object) -> Fault:
        binds = path.endswith("/binding")
        if self.quiet or not (binds or (method == "DELETE" and "/pods/" in path)):
            return Fault.NONE
        return self.rng.choice(FAULTS) if self.rng.random() < 0.3 else Fault.NONE

    async def play(self, cluster: VirtualCluster) -> None:
        names: list[str] = []
        for number in range(3):
            await cluster.create(node(f"n{number}", 2))
        for number in range(self.rng.randint(10, 25)):
            match self.rng.choice(STEPS):
                case "pod":
                    names.append(f"p{number}")
                    await self.add_pod(cluster, names[-1])
                case "node":
                    await cluster.create(node(f"n{3 + number}", self.rng.randint(1, 4)))
                case "cordon":
                    await self.cordon(cluster)
                case "delete" if names:
                    await cluster.delete_pod(names.pop(self.rng.randrange(len(names))))
                case _:
                    await cluster.clock.advance(self.rng.choice((0.5, 3.0, 30.0)))
            await cluster.clock.advance(0.1)
        self.quiet = True
        await cluster.clock.advance(120.0)

    async def add_pod(self, cluster: VirtualCluster, name: str) -> None:
        rng = self.rng
        document = pod(name, rng.choice((1, 1, 2, 5)), rng.choice((0, 5, 10)), rng.choice((0, 2)))
        document["metadata"]["labels"] = {"app": rng.choice("ab")}
        spec = document["spec"]
        if rng.random() < 0.2:
            term = {
                "labelSelector": {"matchLabels": {"app": "a"}},
                "topologyKey": "kubernetes.io/hostname",
            }
            required = "requiredDuringSchedulingIgnoredDuringExecution"
            spec["affinity"] = {"podAntiAffinity": {required: [term]}}
        if rng.random() < 0.1:
            spec["nodeSelector"] = {"disk": "ssd"}
        point = rng.choice(POINTS)
        if point:
            Unsteady.next[f"default/{name}"] = point
        await cluster.create(document)

    async def cordon(self, cluster: VirtualCluster) -> None:
        name = f"n{self.rng.randrange(3)}"
        patch = {"spec": {"unschedulable": self.rng.random() < 0.6}}
        await cluster.api.patch(f"/api/v1/nodes/{name}", patch, dict)


async def recorded(cluster: VirtualCluster, key: str) -> AttemptsPage:
    assert cluster.debug is not None
    return await cluster.debug.recorded(key)


async def check(seed: int) -> None:
    history = History(seed)
    Unsteady.next.clear()
    async with virtual_cluster("Unsteady", fault=history.fault) as cluster:
        cluster.looks = history.look
        await history.play(cluster)
        for key, explained in history.explained.items():
            page = await recorded(cluster, key)
            decided = [each for each in page.attempts if each.result != "failed"]
            assert len(decided) == len(explained), key
            for attempt, then in zip(decided, explained, strict=True):
                agree(attempt, then)
                _agree_about_preemption(attempt, then)
            _check_order(page.attempts)
        for name, found in cluster.pods().items():
            if found.spec.node_name:
                page = await recorded(cluster, f"default/{name}")
                assert page.attempts[-1].node == found.spec.node_name, name


def _agree_about_preemption(attempt: RecordedAttempt, explained: Decision) -> None:
    SEEN[attempt.result] += 1
    if explained.preemption is None:
        assert (attempt.nominated, attempt.victims) == ("", ())
        if attempt.result == "unschedulable":
            assert attempt.message == explained.message
        return
    SEEN["preempts"] += 1
    assert attempt.nominated in explained.preemption.alternatives
    victims = explained.preemption.candidates[attempt.nominated].victims
    assert sorted(attempt.victims) == victims


def _check_order(attempts: tuple[RecordedAttempt, ...]) -> None:
    """A failure follows the decision of its number, about the same node."""
    for before, after in pairwise(attempts):
        assert before.at <= after.at
        if after.result == "failed":
            SEEN[_cause(after.message)] += 1
            assert before.number == after.number
            assert after.node == (before.node or before.nominated)
        else:
            assert before.number < after.number
    assert not attempts or attempts[0].result != "failed"


def _cause(message: str) -> str:
    return next((cause for cause in CAUSES if cause in message), message)


@pytest.mark.full("long")
@examples(0.1)
@given(st.integers(0, 2**32))
def test_the_daemon_recorded_what_explain_found(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(IN_TREE, "Unsteady", Unsteady)
        configure_logs(quiet=True)
        asyncio.run(check(seed))


def test_a_history_with_every_kind_of_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IN_TREE, "Unsteady", Unsteady)
    configure_logs(quiet=True)
    SEEN.clear()
    asyncio.run(check(47))
    assert SEEN.keys() >= {"placed", "unschedulable", "preempts", *CAUSES}, SEEN

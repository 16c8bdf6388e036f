"""Failed attempts in virtual time leave no nomination, no flood of attempts, and no second set of
victims.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.actors.telemetry.logs import configure_logs
from berth.plugin import (
    SUCCESS,
    CycleState,
    PermitPlugin,
    Pod,
    PodInfo,
    PreBindPlugin,
    Status,
    unschedulable,
)
from tests.kit.virtual_cluster import Fault, VirtualCluster, node, pod, virtual_cluster

PREEMPTORS = 40


@pytest.fixture(autouse=True)
def quiet() -> None:
    configure_logs(quiet=True)


class Picky(PermitPlugin, PreBindPlugin):
    """A plugin that rejects the pod `picky` at Permit or at PreBind."""

    name = "Picky"
    at = ""

    def _status(self, at: str, info: PodInfo) -> Status:
        return (
            unschedulable("not this one")
            if self.at == at and info.pod.metadata.name == "picky"
            else SUCCESS
        )

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        return self._status("permit", info), 0.0

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return self._status("pre-bind", info)


class Writer(PreBindPlugin):
    """A plugin whose PreBind writes; it counts its roll-backs."""

    name = "Writer"
    rolled_back = 0

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return SUCCESS

    async def roll_back(self, state: CycleState, info: PodInfo, node: str) -> None:
        type(self).rolled_back += 1


@pytest.mark.parametrize(
    ("fault", "readable", "bound", "rolled_back"),
    [
        (Fault.REFUSED, True, False, 1),
        (Fault.LOST, True, False, 1),
        (Fault.UNANSWERED, True, True, 0),
        (Fault.UNANSWERED, False, True, 0),
    ],
    ids=["refused", "not arrived", "written", "written, and the pod cannot be read"],
)
async def test_what_pre_bind_wrote_is_undone_only_if_the_attempt_did_not_bind_the_pod(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, readable: bool, bound: bool, rolled_back: int
) -> None:
    monkeypatch.setitem(IN_TREE, "Writer", Writer)
    monkeypatch.setattr(Writer, "rolled_back", 0)
    faults = [fault]

    def once(_method: str, path: str, _body: object) -> Fault:
        return faults.pop() if faults and path.endswith("/binding") else Fault.NONE

    # The watch shows the binding long after its answer was lost.
    async with virtual_cluster("Writer", late=0.1, fault=once, lags={Pod: 100.0}) as cluster:
        cluster.fails_read = lambda path: not readable and "/pods/" in path
        await cluster.create(node("a", 4))
        await cluster.create(pod("p"))
        while faults:
            await cluster.clock.advance(0.1)
        await cluster.clock.advance(0.5)
        assert (cluster.pods()["p"].spec.node_name == "a") == bound
        await cluster.clock.advance(80.0)
        assert Writer.rolled_back == rolled_back
        await cluster.clock.advance(200.0)
        assert cluster.pods()["p"].spec.node_name == "a"


@pytest.fixture
def picky(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.setitem(IN_TREE, "Picky", Picky)
    return lambda at: monkeypatch.setattr(Picky, "at", at)


async def nominated(cluster: VirtualCluster, name: str) -> None:
    """Fills the node a with a pod whose grace period is ten seconds, and has the other pod
    nominated there.
    """
    await cluster.create(node("a", 1))
    await cluster.create(pod("victim", grace=10))
    await cluster.clock.advance(1.0)
    await cluster.create(pod(name, priority=10))
    await cluster.clock.advance(1.0)
    assert cluster.pods()[name].status.nominated_node_name == "a"


async def test_a_nominated_pod_whose_binding_is_refused_tries_other_nodes() -> None:
    def refuse_a(_method: str, path: str, body: object) -> Fault:
        return Fault.REFUSED if path.endswith("/high/binding") and body == "a" else Fault.NONE

    async with virtual_cluster(fault=refuse_a) as cluster:
        await nominated(cluster, "high")
        await cluster.clock.advance(11.0)
        assert [w.path for w in cluster.writes if w.fault is Fault.REFUSED]
        assert cluster.pods()["high"].status.nominated_node_name == ""
        await cluster.create(node("b", 1))
        await cluster.clock.advance(60.0)
        assert cluster.pods()["high"].spec.node_name == "b"


async def test_a_nominated_pod_that_permit_rejects_loses_its_nomination(
    picky: Callable[[str], None],
) -> None:
    picky("permit")
    async with virtual_cluster("Picky") as cluster:
        await nominated(cluster, "picky")
        await cluster.create(pod("equal", priority=10))
        await cluster.clock.advance(60.0)
        pods = cluster.pods()
        assert pods["equal"].spec.node_name == "a"
        assert not pods["picky"].status.nominated_node_name


async def test_after_a_rejection_by_pre_bind_the_pod_backs_off_and_is_tried_again(
    picky: Callable[[str], None],
) -> None:
    picky("pre-bind")
    async with virtual_cluster("Picky") as cluster:
        await cluster.create(node("a", 4))
        await cluster.create(pod("picky"))
        await cluster.clock.advance(60.0)
        times = [decision.at for decision in cluster.decisions]
        pauses = [after - before for before, after in pairwise(times)]
        assert pauses[:4] == sorted(pauses[:4])
        assert min(pauses) >= 1.0
        assert 5 <= len(times) <= 10
        (condition,) = (
            c for c in cluster.pods()["picky"].status.conditions if c.type == "PodScheduled"
        )
        assert (condition.reason, condition.message) == ("Unschedulable", "not this one")


async def test_a_displaced_pod_tries_other_nodes_at_once() -> None:
    async with virtual_cluster() as cluster:
        await cluster.create(node("a", 2))
        for name in ("one", "two"):
            await cluster.create(pod(name, grace=200))
        await cluster.clock.advance(1.0)
        await cluster.create(pod("middle", priority=5))
        await cluster.clock.advance(5.0)
        assert cluster.pods()["middle"].status.nominated_node_name == "a"
        tried = len(cluster.decisions)
        await cluster.create(pod("top", 2, priority=10))
        await cluster.clock.advance(15.0)
        pods = cluster.pods()
        assert (
            pods["top"].status.nominated_node_name,
            pods["middle"].status.nominated_node_name,
        ) == ("a", "")
        assert "middle" in [decision.pod.metadata.name for decision in cluster.decisions[tried:]]


def never() -> Callable[[str, str, object], Fault]:
    return lambda _method, _path, _body: Fault.NONE


def every_third() -> Callable[[str, str, object], Fault]:
    writes = 0

    def fault(_method: str, _path: str, _body: object) -> Fault:
        nonlocal writes
        writes += 1
        return Fault.REFUSED if writes % 3 == 0 else Fault.NONE

    return fault


def most_lost() -> Callable[[str, str, object], Fault]:
    """Loses writes at random. If it lost every third one, it could lose the same repeated write for
    ever.
    """
    rng = Random(1)

    def fault(_method: str, path: str, _body: object) -> Fault:
        return (
            rng.choice((Fault.LOST, Fault.UNANSWERED, Fault.NONE))
            if "/pods/low" in path
            else Fault.NONE
        )

    return fault


@pytest.mark.parametrize(
    ("late", "fault"),
    [
        pytest.param(38.0, never, id="38 s late", marks=pytest.mark.full("long")),
        pytest.param(0.0, every_third, id="every third refused"),
        pytest.param(0.5, most_lost, id="answers lost"),
    ],
)
async def test_a_preemptor_has_one_set_of_victims_at_a_time(
    late: float, fault: Callable[[], Callable[[str, str, object], Fault]]
) -> None:
    """Each preemptor needs the room of one pod: no more pods go, however slow or faulty the API
    server is.
    """
    async with virtual_cluster(late=late, fault=fault()) as cluster:
        for i in range(PREEMPTORS):
            await cluster.create(node(f"n{i}", 1))
            await cluster.create(pod(f"low{i}"))
        await advance_until(cluster, lambda: bound(cluster, "low") == PREEMPTORS)
        await cluster.create(pod("low-spare"))
        for i in range(PREEMPTORS):
            await cluster.create(pod(f"high{i}", priority=10))
        await advance_until(cluster, lambda: bound(cluster, "high") == PREEMPTORS)
        gone = {f"low{i}" for i in range(PREEMPTORS)} - cluster.pods().keys()
        assert len(gone) == PREEMPTORS
        await cluster.clock.advance(2000.0)
        preemptions = Counter(preemptor for preemptor, _ in preempted(cluster))
        assert fault is every_third or max(preemptions.values()) == 1, (
            "a preemptor that still had its room preempted again"
        )


def preempted(cluster: VirtualCluster) -> set[tuple[str, str]]:
    """Returns the (preemptor's uid, node) of every Preempted event."""
    notes = [
        str(w.body) for w in cluster.writes if w.method == "POST" and w.path.endswith("/events")
    ]
    matches = (re.search(r"Preempted by pod (\S+) on node ([\w-]+)", note) for note in notes)
    return {(match[1], match[2]) for match in matches if match is not None}


def bound(cluster: VirtualCluster, prefix: str) -> int:
    return sum(
        bool(p.spec.node_name) for name, p in cluster.pods().items() if name.startswith(prefix)
    )


async def advance_until(
    cluster: VirtualCluster, holds: Callable[[], bool], most: float = 20_000.0
) -> None:
    until = cluster.clock.now() + most
    while not holds():
        assert cluster.clock.now() < until, f"did not hold within {most} virtual seconds"
        await cluster.clock.advance(30.0)

"""Remembered answers, incremental counts and a fresh computation agree after any changes to pods
and nodes.

One scheduler lives through the whole history: it remembers templates, and deltas keep its snapshot
up to date. The other gets a newly built cache for each step, and has never seen a similar pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from random import Random
from typing import Any, ClassVar

import msgspec
import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    Assume,
    CacheMessage,
    Forget,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    Nominate,
    ObjectPut,
    Unnominate,
)
from berth.actors.scheduling.decision.algorithm import schedule_pod
from berth.actors.scheduling.decision.candidates import Candidates
from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure, Outcome, Unfit
from berth.actors.scheduling.decision.plain import Plain
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.recall.recall import Recall
from berth.actors.scheduling.decision.sampling import Sampling
from berth.actors.scheduling.decision.scheduler import NO_NODES, Scheduler
from berth.actors.scheduling.framework.questions import run_without_extenders
from berth.actors.scheduling.model.vectors import Rows
from berth.plugin import (
    SUCCESS,
    Code,
    CycleState,
    DependsOn,
    FilterPlugin,
    Ints,
    Namespace,
    Node,
    NodeView,
    Plugin,
    Pod,
    PodDisruptionBudget,
    PodInfo,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    Service,
    Snapshot,
    Status,
    Verdicts,
    default_normalize,
)
from tests.kit import structs
from tests.kit.examples import examples
from tests.kit.profiles import profile_of

PROFILE, FRESH = (profile_of() for _ in range(2))
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def _spread(key: str, action: str, **more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": action,
        "labelSelector": selector,
        **more,
    }


def _near(key: str, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}, **more}


def _named(*nodes: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": nodes}]
    return {
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}}}
    }


def _requests(cpu: int, **more: str) -> dict[str, Any]:
    return {
        "containers": [
            {"name": "c", "image": "web", "resources": {"requests": {"cpu": f"{cpu}m", **more}}}
        ]
    }


REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
TEAM = {"matchLabels": {"team": "blue"}}
SPECS: list[dict[str, Any]] = [
    _requests(100),
    _requests(900),
    {**_requests(200), "nodeSelector": {"disk": "ssd"}, "priority": 10},
    {
        **_requests(200),
        "tolerations": [
            {"key": "soft", "operator": "Exists"},
            {"key": "hard", "operator": "Exists"},
        ],
    },
    {"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]},
    {
        **_requests(10),
        "topologySpreadConstraints": [
            _spread(ZONE, "DoNotSchedule"),
            _spread(HOST, "ScheduleAnyway"),
        ],
    },
    {**_requests(10), "affinity": {"podAntiAffinity": {REQUIRED: [_near(HOST)]}}},
    {
        **_requests(10),
        "affinity": {"podAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": _near(ZONE)}]}},
    },
    {**_requests(700), "priority": 20},
    {**_requests(400), "priority": 20, "affinity": {"podAntiAffinity": {REQUIRED: [_near(ZONE)]}}},
    {
        "containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}],
        "priority": 30,
    },
    {**_requests(50), "affinity": {"podAffinity": {REQUIRED: [_near(ZONE)]}}},
    {
        **_requests(300),
        "affinity": {
            "nodeAffinity": {
                PREFERRED: [
                    {
                        "weight": 7,
                        "preference": {
                            "matchExpressions": [
                                {"key": "disk", "operator": "In", "values": ["ssd"]}
                            ]
                        },
                    }
                ]
            }
        },
    },
    {**_requests(100), **_named("n1")},
    {**_requests(150), **_named("n5", "n2", "n0", "gone"), "priority": 15},
    {
        **_requests(20),
        "topologySpreadConstraints": [_spread(HOST, "DoNotSchedule", nodeTaintsPolicy="Honor")],
    },
    {
        **_requests(20),
        "nodeSelector": {"disk": "ssd"},
        "topologySpreadConstraints": [
            _spread(ZONE, "DoNotSchedule"),
            _spread(HOST, "DoNotSchedule"),
            _spread(ZONE, "ScheduleAnyway"),
        ],
    },
    {
        **_requests(20),
        "affinity": {"podAntiAffinity": {REQUIRED: [_near(HOST, namespaceSelector=TEAM)]}},
    },
    {
        **_requests(20),
        "affinity": {
            "podAffinity": {REQUIRED: [_near(ZONE, namespaceSelector=TEAM)]},
            "podAntiAffinity": {
                PREFERRED: [
                    {"weight": 3, "podAffinityTerm": _near(HOST, namespaceSelector=TEAM)},
                    {"weight": 2, "podAffinityTerm": _near(ZONE)},
                ]
            },
        },
    },
    _requests(10, memory="5E"),
    {**_requests(10, memory="9.2E"), "priority": 20},
]
CHANGES = ["confirmed", "started", "terminating", "relabelled", "deleted", "forgotten"]
NODES = [f"n{i}" for i in range(8)]


def make_node(
    name: str, zone: str, ssd: bool, taint: str, cpu: int, cordoned: bool, memory: str = "8Gi"
) -> Node:
    labels = {HOST: name} | ({ZONE: zone} if zone else {}) | ({"disk": "ssd"} if ssd else {})
    effect = {"soft": "PreferNoSchedule", "hard": "NoSchedule"}.get(taint)
    spec: Any = {"taints": [{"key": taint, "effect": effect}] if effect else []}
    images = [{"names": ["web:latest"], "sizeBytes": 500_000_000}] if ssd else []
    fields: Any = {"memory": memory, "pods": 4, "status": {"images": images}, **spec}
    return structs.node(name, f"{cpu}m", labels=labels, unschedulable=cordoned, **fields)


def make_pod(number: int, kind: int, note: str = "") -> Pod:
    metadata = {
        "namespace": "default",
        "name": f"p{number}",
        "uid": f"u{number}",
        "labels": {"app": "web" if kind % 2 or kind > 14 else "other"},
        "annotations": {"note": note} if note else {},
    }
    return msgspec.convert({"metadata": metadata, "spec": SPECS[kind]}, Pod)


def told(unfit: Unfit) -> tuple[object, ...]:
    promised = unfit.nomination
    names = (
        None if promised is None else (promised.node, [victim.key for victim in promised.victims])
    )
    result = unfit.post_filtered
    return unfit.message, unfit.rejected_by, names, result is None or result.denominate


class PlainScheduler:
    """A scheduler without a memory."""

    def __init__(self, rng: Random, percentage: int) -> None:
        self.rng = rng
        self.sampling = Sampling(percentage)

    def schedule(self, profile: Profile, info: PodInfo, snapshot: Snapshot) -> Outcome:
        if not len(snapshot):
            return Unfit(NO_NODES, frozenset())
        plain = Plain(profile, info, snapshot)
        return run_without_extenders(schedule_pod(plain, self.sampling, self.rng, extended=False))


def totals(candidates: Candidates, positions: Rows) -> Ints:
    nodes = candidates.snapshot.rows(candidates.order[positions])
    candidates.pre_score(nodes)
    return candidates.totals(nodes, positions)


def compare(remembered: Candidates, plain: Candidates, start: int, enough: int) -> None:
    """Checks that both give the same answers; scores may differ by a constant."""
    assert remembered.order.tolist() == plain.order.tolist()
    assert not plain.rejected
    nodes = len(plain.order)
    every = np.arange(nodes)
    fitting, looked_at = remembered.first_fitting(start % nodes, enough % nodes + 1)
    expected, expected_looks = plain.first_fitting(start % nodes, enough % nodes + 1)
    assert every[fitting].tolist() == every[expected].tolist()
    assert looked_at == expected_looks
    if len(every[fitting]) > 1:
        difference = totals(remembered, fitting) - totals(plain, expected)
        assert len(set(difference.tolist())) == 1
    if not len(every[fitting]):
        why, expected_why = remembered.evaluation(), plain.evaluation()
        assert why.message(nodes) == expected_why.message(nodes)
        assert why.rejected_by() == expected_why.rejected_by()
        assert why.pending() == expected_why.pending()
    for row in plain.order.tolist():
        assert remembered.fits_on(row) == plain.fits_on(row)


DRAWN = st.integers(0, len(SPECS) - 1)
FEW = st.lists(DRAWN, min_size=1, max_size=3, unique=True)
NODE = st.builds(
    make_node,
    st.sampled_from(NODES),
    st.sampled_from(["a", "b", ""]),
    st.booleans(),
    st.sampled_from(["", "", "soft", "hard"]),
    st.sampled_from([500, 1000, 2000]),
    st.sampled_from([False, False, True]),
    st.sampled_from(["8Gi", "8Gi", "9.3E"]),
)


class ReuseHistory(RuleBasedStateMachine):
    KINDS: ClassVar[Sequence[int]] = range(len(SPECS))
    PROFILE: ClassVar[Profile] = PROFILE
    # Its plugins remember nothing of the remembering scheduler's cluster.
    FRESH: ClassVar[Profile] = FRESH

    def __init__(self) -> None:
        super().__init__()
        self.cache = CacheState()
        self.told: list[CacheMessage] = []
        self.nodes: dict[str, Node] = {}
        self.placed: dict[int, tuple[Pod, str]] = {}
        self.serial = 0

    def pod(self, number: int, kind: int, note: str = "") -> Pod:
        return make_pod(number, kind, note)

    def tell(self, message: CacheMessage, *others: CacheState) -> None:
        self.told.append(message)
        for cache in (self.cache, *others):
            assert not cache.handle(message)

    @initialize(seed=st.integers(0, 3), crowd=st.sampled_from([0, 3, 130]), drawn=FEW)
    def begin(self, seed: int, crowd: int, drawn: list[int]) -> None:
        """A crowd of over 100 nodes makes the search stop early, at a place that rotates.

        A history is about few kinds of pods, so that what is remembered of them has time to go
        wrong.
        """
        self.kinds = [self.KINDS[kind % len(self.KINDS)] for kind in drawn]
        self.rng = Random(seed)
        self.remembering = Scheduler(self.rng, 30)
        self.fresh = PlainScheduler(Random(seed), 30)
        self.recall = Recall()
        self.tell(ObjectPut(msgspec.convert({"metadata": {"name": "default"}}, Namespace)))
        for i in range(crowd):
            self.tell(
                NodeAdded(
                    make_node(
                        f"crowd{i}",
                        "abc"[i % 3],
                        i % 5 == 0,
                        "soft" if i % 7 == 0 else "",
                        1000,
                        False,
                    )
                )
            )

    @rule(node=NODE)
    def node_put(self, node: Node) -> None:
        old = self.nodes.get(node.metadata.name)
        self.nodes[node.metadata.name] = node
        self.tell(NodeAdded(node) if old is None else NodeUpdated(old, node))

    @rule(name=st.sampled_from(NODES))
    def node_deleted(self, name: str) -> None:
        node = self.nodes.pop(name, None)
        if node is not None:
            self.tell(NodeDeleted(node))

    @rule(team=st.sampled_from(["blue", "red"]))
    def namespace(self, team: str) -> None:
        self.tell(
            ObjectPut(
                msgspec.convert(
                    {"metadata": {"name": "default", "labels": {"team": team}}}, Namespace
                )
            )
        )

    @rule(app=st.sampled_from(["web", "other"]))
    def service(self, app: str) -> None:
        document = {
            "metadata": {"namespace": "default", "name": app},
            "spec": {"selector": {"app": app}},
        }
        self.tell(ObjectPut(msgspec.convert(document, Service)))

    @rule(app=st.sampled_from(["web", "other"]), allowed=st.integers(0, 2))
    def budget(self, app: str, allowed: int) -> None:
        document = {
            "metadata": {"namespace": "default", "name": app},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        }
        self.tell(ObjectPut(msgspec.convert(document, PodDisruptionBudget)))

    @rule(kinds=st.lists(DRAWN, min_size=1, max_size=3), times=st.integers(1, 4))
    def schedule(self, kinds: list[int], times: int) -> None:
        rebuilt = self.rebuilt()
        for kind in (self.kinds[drawn % len(self.kinds)] for drawn in kinds * times):
            self.serial += 1
            number = self.serial
            info = PodInfo(self.pod(number, kind))
            # A pod of another template, so that the plugins remember nothing of it either.
            never_met = PodInfo(self.pod(number, kind, note=str(number)))
            outcome = self.remembering.schedule(self.PROFILE, info, self.cache.snapshot())
            other = self.fresh.schedule(self.FRESH, never_met, rebuilt.snapshot())
            assert type(outcome) is type(other), (outcome, other)
            assert not isinstance(outcome, DecisionFailure), outcome
            if isinstance(outcome, Choice) and isinstance(other, Choice):
                actual, expected = (outcome.node, outcome.feasible), (other.node, other.feasible)
                assert actual == expected
                self.placed[number] = (info.pod, outcome.node)
                self.reserve(outcome, info, rebuilt)
                self.tell(Assume(info, outcome.node), rebuilt)
            elif isinstance(outcome, Unfit) and isinstance(other, Unfit):
                assert told(outcome) == told(other)
                if outcome.nomination is not None:
                    self.tell(Nominate(info, outcome.nomination.node), rebuilt)

    def reserve(self, chosen: Choice, info: PodInfo, rebuilt: CacheState) -> None:
        assert self.PROFILE.reserve(chosen.state, info, chosen.node).ok

    @rule(drawn=DRAWN, start=st.integers(0, 200), enough=st.integers(0, 200))
    def compare(self, drawn: int, start: int, enough: int) -> None:
        """Checks that both give the same answers; scores may differ by a constant."""
        snapshot = self.cache.snapshot()
        info = PodInfo(self.pod(0, self.kinds[drawn % len(self.kinds)]))
        if len(snapshot):
            remembered = self.recall.candidates_for(self.PROFILE, info, snapshot)
            if remembered is not None:
                compare(remembered, Plain(self.FRESH, info, snapshot), start, enough)

    def rebuilt(self) -> CacheState:
        cache = CacheState()
        for message in self.told:
            cache.handle(message)
        return cache

    @rule(
        data=st.data(),
        how=st.sampled_from(
            ["confirmed", "started", "terminating", "relabelled", "deleted", "forgotten"]
        ),
    )
    def pod_changes(self, data: st.DataObject, how: str) -> None:
        if not self.placed:
            return
        number = data.draw(st.sampled_from(sorted(self.placed)))
        pod, node = self.placed[number]
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        match how:
            case "confirmed":
                self.tell(AssignedPodAdded(bound))
            case "started":
                at = f"2026-01-01T00:00:0{data.draw(st.integers(0, 3))}Z"
                status = msgspec.structs.replace(bound.status, start_time=at)
                self.tell(AssignedPodAdded(msgspec.structs.replace(bound, status=status)))
            case "terminating":
                metadata = msgspec.structs.replace(
                    bound.metadata, deletion_timestamp="2026-01-01T00:00:00Z"
                )
                self.tell(AssignedPodAdded(msgspec.structs.replace(bound, metadata=metadata)))
            case "relabelled":
                metadata = msgspec.structs.replace(bound.metadata, labels={"app": "web"})
                self.tell(AssignedPodAdded(msgspec.structs.replace(bound, metadata=metadata)))
            case "deleted":
                del self.placed[number]
                self.tell(AssignedPodDeleted(bound))
            case _:
                if not self.cache.handle(Forget(PodInfo(pod), node)):
                    self.told.append(Forget(PodInfo(pod), node))
                    del self.placed[number]

    @rule(drawn=DRAWN, node=st.sampled_from(NODES), gone=st.booleans())
    def nominated(self, drawn: int, node: str, gone: bool) -> None:
        kind = self.kinds[drawn % len(self.kinds)]
        info = PodInfo(self.pod(-kind, kind))
        self.tell(Unnominate(info.key) if gone else Nominate(info, node))

    @invariant()
    def sound(self) -> None:
        self.cache.snapshot()
        self.cache.validate()


class PreemptionHistory(ReuseHistory):
    """Few nodes, all full, and pods that may preempt others."""

    KINDS = (0, 1, 4, 9, 11, 12, 14)

    @initialize(seed=st.integers(0, 3), crowd=st.just(0), drawn=FEW)
    def begin(self, seed: int, crowd: int, drawn: list[int]) -> None:
        super().begin(seed, crowd, drawn)
        for name in NODES[:4]:
            self.node_put(make_node(name, "a", True, "", 1000, False))
        for number in range(8):
            pod = make_pod(1000 + number, number % 2)
            at = f"2026-01-01T00:00:0{number % 3}Z"
            node = NODES[number % 4]
            placed = msgspec.structs.replace(
                pod,
                spec=msgspec.structs.replace(pod.spec, node_name=node),
                status=msgspec.structs.replace(pod.status, start_time=at),
            )
            self.placed[1000 + number] = (pod, node)
            self.tell(AssignedPodAdded(placed))


# ---------------------------------------------------------------------------------- rules that fail


class Broken:
    """The current failures: (extension point, the rule's `depends_on`) -> the node for which it
    fails, "" for any.
    """

    now: ClassVar[dict[tuple[str, DependsOn], str]] = {}

    @classmethod
    def check(cls, point: str, depends_on: DependsOn, names: Iterable[str]) -> None:
        where = cls.now.get((point, depends_on))
        if where is not None and (not where or where in names):
            raise OSError(f"{point} is broken")


def names_of(nodes: NodeView) -> list[str]:
    return [nodes.name(i) for i in range(nodes.size)]


class _OnNodes(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """A plugin that rejects n3 and prefers n1, unless it is broken."""

    name = "OnNodes"
    depends_on = DependsOn.NODE

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        Broken.check("preFilter", self.depends_on, ())
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        names = names_of(nodes)
        Broken.check("filter", self.depends_on, names)
        return Verdicts.rejecting(
            np.array([name == "n3" for name in names], dtype=np.bool_), Code.UNSCHEDULABLE, "n3"
        )

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        Broken.check("preScore", self.depends_on, names_of(nodes))
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        names = names_of(nodes)
        Broken.check("score", self.depends_on, names)
        return np.array([7 * (name == "n1") for name in names], dtype=np.int64)

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        Broken.check("normalize", self.depends_on, ())
        return default_normalize(scores, reverse=False)


class _OnRows(_OnNodes):
    name = "OnRows"
    depends_on = DependsOn.NODE_AND_PODS


class _OnAll(_OnNodes):
    name = "OnAll"
    depends_on = DependsOn.ALL_NODES


class _OnCluster(_OnNodes):
    name = "OnCluster"
    depends_on = DependsOn.CLUSTER


FLAKY: dict[str, type[Plugin]] = {p.name: p for p in (_OnNodes, _OnRows, _OnAll, _OnCluster)}
POINTS = ["preFilter", "filter", "preScore", "score", "normalize"]


def flaky_profile() -> Profile:
    weighed = {"score": {"enabled": [{"name": name, "weight": 2} for name in FLAKY]}}
    return profile_of(*FLAKY.values(), points=weighed)


class FailingHistory(ReuseHistory):
    """Rules fail for a while, anywhere. Attempts may fail meanwhile; afterwards all answers are as
    if new.
    """

    KINDS: ClassVar[Sequence[int]] = (0, 1, 2, 3, 5, 7, 8, 12, 14)
    PROFILE, FRESH = flaky_profile(), flaky_profile()

    @initialize(seed=st.integers(0, 3), crowd=st.sampled_from([0, 3, 130]), drawn=FEW)
    def begin(self, seed: int, crowd: int, drawn: list[int]) -> None:
        Broken.now.clear()
        super().begin(seed, crowd, drawn)
        for name in NODES[:3]:
            self.node_put(make_node(name, "a", True, "", 2000, False))
        self.schedule([0, 1, 2], 2)

    @rule(
        point=st.sampled_from(POINTS),
        depends_on=st.sampled_from([plugin.depends_on for plugin in FLAKY.values()]),
        where=st.sampled_from(["", *NODES, "crowd0", "crowd77"]),
        node=NODE,
        drawn=DRAWN,
        times=st.integers(1, 3),
    )
    def broken(
        self, point: str, depends_on: DependsOn, where: str, node: Node, drawn: int, times: int
    ) -> None:
        """A node comes or changes and pods are tried while a rule is broken."""
        kind = self.kinds[drawn % len(self.kinds)]
        Broken.now[point, depends_on] = where
        self.node_put(node)
        for _ in range(times):
            self.serial += 1
            info = PodInfo(make_pod(self.serial, kind))
            outcome = self.remembering.schedule(self.PROFILE, info, self.cache.snapshot())
            if isinstance(outcome, DecisionFailure):
                assert "is broken" in outcome.status.message
            elif isinstance(outcome, Choice):
                self.placed[self.serial] = (info.pod, outcome.node)
                self.tell(Assume(info, outcome.node))
            self.cache.validate()
        Broken.now.clear()
        # The other scheduler starts its search where this one has arrived.
        self.fresh = PlainScheduler(copy(self.rng), 30)
        self.fresh.sampling.start = self.remembering._sampling.start
        self.recall = Recall()


class FailingPreemption(FailingHistory, PreemptionHistory):
    """The same during preemption."""

    KINDS = PreemptionHistory.KINDS

    @initialize(seed=st.integers(0, 3), crowd=st.just(0), drawn=FEW)
    def begin(self, seed: int, crowd: int, drawn: list[int]) -> None:
        Broken.now.clear()
        PreemptionHistory.begin(self, seed, crowd, drawn)


TestReuse = ReuseHistory.TestCase
TestReuse.settings = examples(0.8, steps=20)
TestPreemption = PreemptionHistory.TestCase
TestPreemption.settings = examples(steps=25)
TestFailing = FailingHistory.TestCase
TestFailing.settings = examples(0.4, steps=15)
TestFailingPreemption = FailingPreemption.TestCase
TestFailingPreemption.settings = examples(0.4, steps=15)

"""Remembered dry runs of preemption are dropped as soon as anything that they depend on changes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from weakref import ref

import msgspec
import numpy as np
import pytest

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    NodeAdded,
    Nominate,
    ObjectPut,
)
from berth.actors.scheduling.decision.outcome import Unfit
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.core import Container, Node, Pod, Volume
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.kube.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.plugins import steps
from berth.actors.scheduling.plugins.default_preemption import budgets, dry_runs, plugin, victims
from berth.actors.scheduling.plugins.default_preemption.budgets import Budgets
from berth.actors.scheduling.plugins.default_preemption.victims import Outcome, dry_run
from berth.actors.scheduling.plugins.steps import Steps
from berth.plugin import (
    Code,
    CycleState,
    DependsOn,
    FailedAttempt,
    FilterPlugin,
    NodeView,
    Verdicts,
)
from berth.plugin import Steps as DecisionSteps
from tests.kit import structs
from tests.kit.handle import NoApi
from tests.kit.profiles import profile_of


def pod(name: str, node: str = "", priority: int = 0, started: int | None = None) -> Pod:
    status = {} if started is None else {"startTime": f"2026-01-01T00:00:0{started}Z"}
    labels = {"app": name if node else "new"}
    return structs.pod(name, "900m", node, priority=priority, labels=labels, status=status)


class Cluster:
    """Two nodes, each filled by one pod. The pod on `late` started later, which makes it the better
    victim.
    """

    def __init__(self, profile: Profile) -> None:
        self.cache = CacheState()
        self.scheduler = Scheduler(Random(1))
        self.profile = profile
        for name, started in (("early", 1), ("late", 5)):
            labels = {"kubernetes.io/hostname": name}
            self.cache.handle(NodeAdded(structs.node(name, 1, pods=9, labels=labels)))
            self.cache.handle(AssignedPodAdded(pod(f"on-{name}", name, started=started)))
        for number in range(3):  # the template is remembered, and every row has been read
            assert self.promised(pod(f"before-{number}", priority=9)) == "late"

    def promised(self, pending: Pod) -> str:
        """Returns the node that preemption nominates for a pod, or ""."""
        outcome = self.unfit(pending)
        return "" if outcome.nomination is None else outcome.nomination.node

    def unfit(self, pending: Pod) -> Unfit:
        outcome = self.scheduler.schedule(self.profile, PodInfo(pending), self.cache.snapshot())
        assert isinstance(outcome, Unfit)
        return outcome


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(profile_of())


def test_other_pods_have_their_turn_while_many_budgets_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = NoApi()
    cluster = Cluster(profile_of(handle=handle))
    monkeypatch.setattr(plugin, "MOST_STEPS", 10 * steps.STEPS_PER_SECOND)
    monkeypatch.setattr(budgets, "REQUIREMENT", steps.STEPS_PER_SECOND // 100)
    monkeypatch.setattr(budgets, "SLICE", 1)
    for number in range(36):
        budget = {
            "metadata": {"namespace": "ns", "name": f"keep{number:02}"},
            "spec": {"selector": {"matchLabels": {"app": "on-late"}}},
        }
        cluster.cache.handle(ObjectPut(msgspec.convert(budget, PodDisruptionBudget)))
    for attempt in range(5):  # All attempts of a moment together read little more than one.
        unfit = cluster.unfit(pod(f"new{attempt}", priority=9))
        assert unfit.post_filtered is not None
        assert unfit.post_filtered.again
        assert unfit.nomination is None
        assert "goes on reading the PodDisruptionBudgets" in unfit.message
    handle.seconds = 1.0
    assert cluster.unfit(pod("new", priority=9)).nomination is None
    handle.seconds = 10.0
    assert cluster.promised(pod("new", priority=9)) == "early"


def test_a_budget_counts_from_the_next_pod_on(cluster: Cluster) -> None:
    budget = {
        "metadata": {"namespace": "ns", "name": "keep"},
        "spec": {"selector": {"matchLabels": {"app": "on-late"}}},
        "status": {"disruptionsAllowed": 0},
    }
    cluster.cache.handle(ObjectPut(msgspec.convert(budget, PodDisruptionBudget)))
    assert cluster.promised(pod("next", priority=9)) == "early"
    cluster.cache.handle(
        ObjectPut(
            msgspec.convert(budget | {"status": {"disruptionsAllowed": 1}}, PodDisruptionBudget)
        )
    )
    assert cluster.promised(pod("third", priority=9)) == "late"


def test_budgets_that_protect_the_same_pods_cost_no_dry_run(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = counted(monkeypatch)
    for name, app in (("keep", "on-late"), ("again", "on-late"), ("else", "other")):
        budget = {
            "metadata": {"namespace": "ns", "name": name},
            "spec": {"selector": {"matchLabels": {"app": app}}},
        }
        cluster.cache.handle(ObjectPut(msgspec.convert(budget, PodDisruptionBudget)))
        assert cluster.promised(pod(f"after-{name}", priority=9)) == "early"
    assert numbers == [1]


def test_a_pod_that_has_started_is_judged_by_its_start(cluster: Cluster) -> None:
    cluster.cache.handle(AssignedPodAdded(pod("on-late", "late", started=0)))
    assert cluster.promised(pod("next", priority=9)) == "early"


def test_a_new_pod_on_a_node_is_a_victim_there(cluster: Cluster) -> None:
    cluster.cache.handle(AssignedPodDeleted(pod("on-late", "late")))
    cluster.cache.handle(AssignedPodAdded(pod("vital", "late", priority=9)))
    assert cluster.promised(pod("next", priority=9)) == "early"


def test_a_nominated_pods_room_is_free_only_for_itself(cluster: Cluster) -> None:
    first, second = pod("first", priority=9), pod("second", priority=9)
    cluster.cache.handle(Nominate(PodInfo(first), "late"))
    for _ in range(2):
        assert cluster.promised(second) == "early"
        assert cluster.promised(first) == "late"


def with_claim(name: str, claim: str) -> Pod:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
    pending = pod(name, priority=9)
    spec = msgspec.structs.replace(
        pending.spec, volumes=msgspec.convert((volume,), tuple[Volume, ...])
    )
    return msgspec.structs.replace(pending, spec=spec)


def put_volume(cluster: Cluster, name: str, node: str, version: str = "1") -> None:
    """Puts a volume of one node, and the claim of the same name that is bound to it."""
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    term = {"matchExpressions": [on_node]}
    volume = {
        "metadata": {"name": name, "resourceVersion": version},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}},
    }
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "resourceVersion": version,
            "annotations": bound,
        },
        "spec": {"volumeName": name},
    }
    cluster.cache.handle(ObjectPut(msgspec.convert(volume, PersistentVolume)))
    cluster.cache.handle(ObjectPut(msgspec.convert(claim, PersistentVolumeClaim)))


def test_pods_of_one_template_with_different_claims_preempt_where_their_volumes_are(
    cluster: Cluster,
) -> None:
    for node in ("early", "late"):
        put_volume(cluster, f"of-{node}", node)
    for number in range(3):
        assert cluster.promised(with_claim(f"late-{number}", "of-late")) == "late"
    assert cluster.promised(with_claim("early", "of-early")) == "early"


def test_a_volume_that_moved_is_looked_up_again(cluster: Cluster) -> None:
    put_volume(cluster, "data", "late")
    pending = with_claim("next", "data")
    for _ in range(3):
        assert cluster.promised(pending) == "late"
    put_volume(cluster, "data", "early", version="2")
    assert cluster.promised(pending) == "early"


class Banned(FilterPlugin):
    """Rejects the nodes that a StorageClass is named after."""

    name = "Banned"
    depends_on = DependsOn.NODE_AND_PODS
    lookups = (StorageClass,)

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        objects = nodes.snapshot.objects
        banned = [objects.get(StorageClass, nodes.name(i)) is not None for i in range(nodes.size)]
        codes = np.where(banned, np.int8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE), np.int8(0))
        return Verdicts(codes, codes.astype(np.int64), lambda _: ("banned",))


def test_an_object_that_a_filter_looks_up_counts_from_the_next_pod_on() -> None:
    cluster = Cluster(profile_of(Banned))
    cluster.cache.handle(
        ObjectPut(msgspec.convert({"metadata": {"name": "late"}, "provisioner": "x"}, StorageClass))
    )
    assert cluster.promised(pod("next", priority=9)) == "early"


def with_ports(pending: Pod, first: int, number: int) -> Pod:
    """Returns the pod with this many host ports."""
    ports = [{"hostPort": first + i, "containerPort": 1} for i in range(number)]
    container = {"name": "c", "ports": ports, "resources": {"requests": {"cpu": "900m"}}}
    containers = msgspec.convert((container,), tuple[Container, ...])
    return msgspec.structs.replace(
        pending, spec=msgspec.structs.replace(pending.spec, containers=containers)
    )


def crowded(ports: int, nodes: int = 40) -> CacheState:
    """Returns a cluster of nodes, each with a pod that has this many host ports."""
    cache, names = CacheState(), [f"n{i}" for i in range(nodes)]
    for name in names:
        status = {"allocatable": {"cpu": 1, "memory": "8Gi", "pods": 9}}
        cache.handle(
            NodeAdded(msgspec.convert({"metadata": {"name": name}, "status": status}, Node))
        )
        cache.handle(AssignedPodAdded(with_ports(pod(f"on-{name}", name), 1, ports)))
    return cache


def schedule(cache: CacheState, pending: Pod, scheduler: Scheduler, profile: Profile) -> Unfit:
    outcome = scheduler.schedule(profile, PodInfo(pending), cache.snapshot())
    assert isinstance(outcome, Unfit)
    return outcome


LARGE = with_ports(pod("p", priority=9), 1000, 248)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that gets the number of nodes of each further dry run."""
    numbers: list[int] = []

    def counting(
        attempt: FailedAttempt, rows: Sequence[int], limits: Budgets, left: Steps
    ) -> DecisionSteps[list[Outcome]]:
        numbers.append(len(rows))
        return dry_run(attempt, rows, limits, left)

    monkeypatch.setattr(dry_runs, "dry_run", counting)
    return numbers


def test_a_search_among_large_victims_ends_once_it_has_a_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dry_runs, "ENOUGH_WORK", 1000)
    numbers, profile = counted(monkeypatch), profile_of()
    outcome = schedule(crowded(248), LARGE, Scheduler(Random(1)), profile)
    assert outcome.nomination is not None
    assert sum(numbers) == 5


@pytest.mark.parametrize(
    "preemptor", [pod("p", priority=9), with_ports(pod("p", priority=9), 1, 9)]
)
def test_a_search_for_a_small_pod_never_ends_early(
    monkeypatch: pytest.MonkeyPatch, preemptor: Pod
) -> None:
    monkeypatch.setattr(dry_runs, "ENOUGH_WORK", 1)
    monkeypatch.setattr(victims, "MOST_ON_NODE", 1)
    numbers, profile = counted(monkeypatch), profile_of()
    outcome = schedule(crowded(248), preemptor, Scheduler(Random(1)), profile)
    assert outcome.nomination is not None
    assert sum(numbers) == 40


def test_a_search_among_small_victims_never_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_runs, "ENOUGH_WORK", 1)
    numbers, profile = counted(monkeypatch), profile_of()
    outcome = schedule(crowded(10), LARGE, Scheduler(Random(1)), profile)
    assert outcome.nomination is not None
    assert sum(numbers) == 40


def test_a_search_in_vain_among_large_victims_goes_on_in_the_next_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dry_runs, "ENOUGH_WORK", 1000)
    monkeypatch.setattr(dry_runs, "MOST_WORK", 3000)
    numbers, profile, scheduler = counted(monkeypatch), profile_of(), Scheduler(Random(1))
    cache, pending = crowded(248), LARGE
    for i in range(40):
        cache.handle(AssignedPodAdded(pod(f"important{i}", f"n{i}", priority=10)))
    outcomes = [schedule(cache, pending, scheduler, profile) for _ in range(3)]
    assert [not outcome.rejected_by for outcome in outcomes] == [True, True, False]
    assert sum(numbers) == 40


def test_a_node_with_too_large_victims_is_no_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victims, "MOST_ON_NODE", 100)
    outcome = schedule(crowded(248), LARGE, Scheduler(Random(1)), profile_of())
    assert outcome.nomination is None
    assert "40 The pods of lower priority are too large for preemption" in outcome.message


def in_vain(nodes: int = 40) -> CacheState:
    """Returns a cluster in which every node has a victim, which makes too little room."""
    cache = crowded(0, nodes)
    for i in range(nodes):
        cache.handle(AssignedPodAdded(pod(f"important{i}", f"n{i}", priority=10)))
    return cache


def test_a_search_without_steps_goes_on_in_the_next_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugin, "FREE", 0)
    monkeypatch.setattr(steps, "MOST_SAVED", 1)
    numbers, profile, scheduler = counted(monkeypatch), profile_of(), Scheduler(Random(1))
    cache, pending = in_vain(), pod("p", priority=9)
    attempts = 1
    while not schedule(cache, pending, scheduler, profile).rejected_by:
        attempts += 1
    assert attempts == len(numbers) >= 5
    assert sum(numbers) == 40


def test_a_namespace_pays_for_the_searches_of_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "FREE", 0)
    monkeypatch.setattr(steps, "MOST_SAVED", 2000)
    numbers, api, scheduler = counted(monkeypatch), NoApi(), Scheduler(Random(1))
    profile = profile_of(handle=api)
    cache = in_vain()

    def dry_run_for(namespace: str, app: str) -> int:
        """Returns how many nodes are dry run for a pod of a template of its own."""
        numbers.clear()
        pending = pod("p", priority=9)
        metadata = msgspec.structs.replace(
            pending.metadata, namespace=namespace, labels={"app": app}
        )
        schedule(cache, msgspec.structs.replace(pending, metadata=metadata), scheduler, profile)
        return sum(numbers)

    assert max(dry_run_for("ns", str(i)) for i in range(9)) == 40
    assert max(dry_run_for("ns", str(i)) for i in range(9)) == 8
    assert dry_run_for("other", "x") == 40
    api.seconds = 10.0
    assert dry_run_for("ns", "y") == 40


def test_hundreds_of_pods_that_search_in_vain_take_a_millisecond_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "MOST_SAVED", 1)
    numbers, profile, scheduler = counted(monkeypatch), profile_of(), Scheduler(Random(1))
    cache = in_vain(400)
    for priority in (9, 8):
        numbers.clear()
        assert not schedule(cache, pod("p", priority=priority), scheduler, profile).rejected_by
        assert sum(numbers) < 100


class Crowded(FilterPlugin):
    """Rejects the nodes where somebody requests a resource."""

    name = "Crowded"
    depends_on = DependsOn.NODE_AND_PODS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        requested = nodes.columns.requested("example.com/r1")[nodes.rows] > 0
        return Verdicts.rejecting(requested, Code.UNSCHEDULABLE, "crowded")


def test_a_plugin_sees_all_values_of_large_victims() -> None:
    cache = crowded(0)
    for i in range(40):
        cache.handle(AssignedPodDeleted(pod(f"on-n{i}", f"n{i}")))
        first = 0 if i == 7 else 2
        requests = {f"example.com/r{first + j}": "1" for j in range(100)}
        large = msgspec.convert(({"resources": {"requests": requests}},), tuple[Container, ...])
        victim = pod(f"large{i}", f"n{i}")
        spec = msgspec.structs.replace(victim.spec, containers=large)
        cache.handle(AssignedPodAdded(msgspec.structs.replace(victim, spec=spec)))
        if i != 7:
            keeper = with_ports(pod(f"keeper{i}", f"n{i}", priority=10), 1, 0)
            cache.handle(AssignedPodAdded(keeper))
    outcome = schedule(cache, pod("p", priority=9), Scheduler(Random(1)), profile_of(Crowded))
    assert outcome.nomination is not None
    assert outcome.nomination.node == "n7"


@pytest.mark.parametrize("priority", [9, 0], ids=["preempts", "finds no victim"])
def test_nothing_is_kept_of_large_pods_that_are_gone(cluster: Cluster, priority: int) -> None:
    gone = []
    for number in range(3):
        name = f"large-{number}"
        small = pod(name, priority=priority)
        metadata = msgspec.structs.replace(small.metadata, annotations={name: "x" * 40_000})
        info = PodInfo(msgspec.structs.replace(small, metadata=metadata))
        assert info.template.is_heavy
        assert isinstance(
            cluster.scheduler.schedule(cluster.profile, info, cluster.cache.snapshot()), Unfit
        )
        gone.append(ref(info.template))
    PodInfo(pod("next"))
    del info, metadata, small
    assert [template() for template in gone] == [None] * 3

"""The disruption controller's decisions: expected pods, granted evictions, conditions, events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.times import rfc3339
from berth.tools.kubernetes.disruption import budgets
from berth.tools.kubernetes.objects.documents import reference_to
from berth.tools.kubernetes.objects.structs import (
    Deployment,
    Document,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    Replicated,
    ReplicationController,
    S,
    StatefulSet,
    read,
)
from berth.tools.kubernetes.objects.writes import Again, Create, Patch, Write

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LABELS = {"app": "x"}


def metadata(name: str, **more: Any) -> Document:
    return {
        "name": name,
        "namespace": "n",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "generation": 3,
        **more,
    }


def workload(kind: type[S], name: str, replicas: int, owner: HasMetadata | None = None) -> S:
    owners = [] if owner is None else [reference_to(owner)]
    document = {"metadata": metadata(name, ownerReferences=owners), "spec": {"replicas": replicas}}
    return read(document, kind)


def pod(
    name: str, owner: HasMetadata | Document | None = None, *, ready: bool = True, **more: Any
) -> Pod:
    reference = owner if isinstance(owner, dict) or owner is None else reference_to(owner)
    conditions = [{"type": "Ready", "status": str(ready)}]
    document = {
        "metadata": metadata(
            name, labels=LABELS, ownerReferences=[] if reference is None else [reference], **more
        ),
        "status": {"phase": "Running", "conditions": conditions},
    }
    return read(document, Pod)


def budget(status: Document | None = None, /, **spec: Any) -> PodDisruptionBudget:
    spec = {"selector": {"matchLabels": LABELS}, **spec}
    return read(
        {"metadata": metadata("b"), "spec": spec, "status": status or {}}, PodDisruptionBudget
    )


def decided(
    of: PodDisruptionBudget, pods: list[Pod], *workloads: Replicated, now: datetime = NOW
) -> list[Write]:
    places = {(type(w).__name__, w.metadata.name): w for w in workloads}
    return budgets.reconcile(of, pods, lambda kind, _, name: places.get((kind, name)), now)


def status(writes: list[Write]) -> Document:
    (patch,) = [write for write in writes if isinstance(write, Patch)]
    assert patch.subresource == "status"
    assert patch.body["metadata"] == {"resourceVersion": "1"}, "a newer status must not be undone"
    told: Document = patch.body["status"]
    return told


def events(writes: list[Write]) -> list[tuple[str, str]]:
    created = [write.document for write in writes if isinstance(write, Create)]
    return [(event["reason"], event["message"]) for event in created]


def condition(writes: list[Write]) -> tuple[str, str, str, int]:
    (told,) = status(writes)["conditions"]
    return told["status"], told["reason"], told["message"], told["observedGeneration"]


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 2, 1),
        ({"minAvailable": 4}, 4, 0),
        ({"minAvailable": "50%"}, 2, 1),
        ({"minAvailable": "51%"}, 3, 0),
        ({"minAvailable": "0%"}, 0, 3),
        ({"maxUnavailable": 0}, 4, 0),
        ({"maxUnavailable": 1}, 3, 0),
        ({"maxUnavailable": 9}, 0, 3),
        ({"maxUnavailable": "30%"}, 2, 1),
        ({"maxUnavailable": "100%"}, 0, 3),
    ],
)
def test_a_budget_allows_disruptions_of_surplus_healthy_pods(
    spec: Document, desired: int, allowed: int
) -> None:
    owner = workload(ReplicaSet, "r", 4)
    pods = [pod("a", owner), pod("b", owner), pod("c", owner), pod("d", owner, ready=False)]
    writes = decided(budget(**spec), pods, owner)
    told = status(writes)
    fields = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    assert [told.get(field, 0) for field in fields] == [4, 3, desired, allowed]
    assert told["observedGeneration"] == 3
    outcome = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    assert condition(writes) == (*outcome, "", 3)


def test_a_number_counts_pods_and_a_share_counts_replicas() -> None:
    owner = workload(ReplicationController, "r", 10)
    pods = [pod("a", owner), pod("b", owner)]
    assert status(decided(budget(minAvailable=1), pods, owner))["expectedPods"] == 2
    assert status(decided(budget(minAvailable="10%"), pods, owner))["expectedPods"] == 10


def test_a_budget_without_a_number_allows_nothing() -> None:
    told = status(decided(budget(), [pod("a")]))
    assert (told["currentHealthy"], told.get("disruptionsAllowed", 0)) == (1, 0)


@pytest.mark.parametrize("kind", [ReplicaSet, StatefulSet, ReplicationController, Deployment])
def test_every_kind_with_a_scale_is_counted_once(kind: type[Replicated]) -> None:
    owner = workload(kind, "w", 7)
    pods = [pod("a", owner), pod("b", owner)]
    assert status(decided(budget(maxUnavailable=1), pods, owner))["expectedPods"] == 7


def test_a_deployment_counts_in_place_of_its_replica_sets() -> None:
    above = workload(Deployment, "d", 5)
    old, new = workload(ReplicaSet, "old", 2, above), workload(ReplicaSet, "new", 4, above)
    alone = workload(ReplicaSet, "alone", 20)
    pods = [pod("a", old), pod("b", new), pod("c", new), pod("d", alone)]
    told = status(decided(budget(maxUnavailable=1), pods, above, old, new, alone))
    assert told["expectedPods"] == 25
    orphaned = status(decided(budget(maxUnavailable=1), pods, old, new, alone))
    assert orphaned["expectedPods"] == 26, "the Deployment is gone"


def test_pods_without_a_controller_are_reported_and_not_counted() -> None:
    owner = workload(ReplicaSet, "r", 2)
    pods = [pod("bare"), pod("a", owner), pod("b", owner)]
    writes = decided(budget(maxUnavailable=1), pods, owner)
    told = status(writes)
    assert (told["expectedPods"], told["currentHealthy"], told["disruptionsAllowed"]) == (2, 3, 2)
    ((reason, message),) = events(writes)
    assert reason == "UnmanagedPods"
    assert "(bare)" in message
    assert events(decided(budget(minAvailable=1), pods, owner)) == []


OTHER = {"controller": True, "name": "o", "uid": "u"}


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet"}, 'found no controllers for pod "a"'),
        ({"apiVersion": "apps/v1beta1", "kind": "StatefulSet"}, 'found no controllers for pod "a"'),
        (
            {"apiVersion": "apps/v1", "kind": "DaemonSet"},
            "daemonsets.apps does not implement the scale subresource",
        ),
        (
            {"apiVersion": "batch/v1", "kind": "Job"},
            "jobs.batch does not implement the scale subresource",
        ),
        ({"apiVersion": "v1", "kind": "Node"}, "nodes does not implement the scale subresource"),
        (
            {"apiVersion": "example.com/v1", "kind": "ReplicaSet"},
            'no matches for kind "ReplicaSet" in version "example.com/v1"',
        ),
    ],
)
def test_a_controller_without_a_scale_forbids_disruptions(
    reference: Document, problem: str
) -> None:
    stale = {"disruptionsAllowed": 2, "observedGeneration": 2, "currentHealthy": 5}
    writes = decided(budget(stale, maxUnavailable=1), [pod("a", {**OTHER, **reference})])
    told = status(writes)
    assert told["disruptionsAllowed"] == 0
    assert "currentHealthy" not in told
    assert "observedGeneration" not in told, "the specification has not been dealt with"
    assert condition(writes) == ("False", "SyncFailed", problem, 2)
    assert events(writes) == [
        (
            "CalculateExpectedPodCountFailed",
            f"Failed to calculate the number of expected pods: {problem}",
        )
    ]
    again = budget(
        {
            **stale,
            "disruptionsAllowed": 0,
            "conditions": [
                {
                    "type": "DisruptionAllowed",
                    "status": "False",
                    "reason": "SyncFailed",
                    "message": problem,
                    "observedGeneration": 2,
                    "lastTransitionTime": rfc3339(NOW),
                }
            ],
        },
        maxUnavailable=1,
    )
    assert decided(again, [pod("a", {**OTHER, **reference})]) == [], "nothing has changed"
    assert status(decided(budget(stale, minAvailable=1), [pod("a", {**OTHER, **reference})]))


def test_a_share_that_is_no_share_forbids_disruptions() -> None:
    writes = decided(budget(minAvailable="half"), [pod("a")])
    assert condition(writes)[:2] == ("False", "SyncFailed")


def test_an_unreadable_selector_forbids_disruptions() -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "Odd"}]}
    writes = decided(budget(minAvailable=1, selector=selector), [pod("a")])
    assert condition(writes)[1] == "SyncFailed"
    assert events(writes)[0][0] == "NoPods"


def test_a_budget_over_no_pods_says_so_once_and_allows_nothing() -> None:
    writes = decided(budget(minAvailable=0), [])
    assert events(writes) == [("NoPods", "No matching pods found")]
    assert status(writes).get("disruptionsAllowed", 0) == 0
    settled = {
        "observedGeneration": 3,
        "conditions": status(writes)["conditions"],
    }
    assert decided(budget(settled, minAvailable=0), []) == []


def test_pods_that_are_being_deleted_are_not_healthy_but_count_as_pods() -> None:
    pods = [pod("a", deletionTimestamp=rfc3339(NOW)), pod("b"), pod("c")]
    told = status(decided(budget(minAvailable=1), pods))
    assert (told["expectedPods"], told["currentHealthy"], told["disruptionsAllowed"]) == (3, 2, 1)


# -- granted evictions


def test_a_granted_eviction_counts_until_the_pod_is_gone_or_too_much_time_passed() -> None:
    earlier, later = NOW - timedelta(seconds=50), NOW - timedelta(seconds=20)
    deleted = pod("d", deletionTimestamp=rfc3339(NOW))
    granted = {"a": rfc3339(earlier), **dict.fromkeys(("b", "d", "gone"), rfc3339(later))}
    pods = [pod("a"), pod("b"), pod("c"), deleted]
    of = budget({"disruptedPods": granted}, minAvailable=1)
    writes = decided(of, pods)
    told = status(writes)
    assert told["disruptedPods"] == {"d": None, "gone": None}, "the merge patch removes two"
    assert (told["currentHealthy"], told.get("disruptionsAllowed", 0)) == (1, 0)
    assert writes[-1] == Again(budgets.FORGET_SECONDS - 50)
    forgotten = decided(of, pods, now=earlier + timedelta(seconds=budgets.FORGET_SECONDS))
    assert status(forgotten)["disruptionsAllowed"] == 1
    assert events(forgotten) == [
        ("NotDeleted", "Pod was expected by PDB n/b to be deleted but it wasn't")
    ]


# -- the condition DisruptionTarget


def target(seconds: float, **change: Any) -> Pod:
    since = rfc3339(NOW - timedelta(seconds=seconds))
    told = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    document = {
        "metadata": metadata("p", **change.pop("metadata", {})),
        "status": {
            "phase": change.pop("phase", "Running"),
            "conditions": [{**told, "lastTransitionTime": since, **change}],
        },
    }
    return read(document, Pod)


def test_a_pod_that_stays_loses_its_disruption_target_after_two_minutes() -> None:
    assert budgets.clear_stale_target(target(30), NOW) == [Again(90.0)]
    (patch,) = budgets.clear_stale_target(target(120), NOW)
    assert isinstance(patch, Patch)
    (told,) = patch.body["status"]["conditions"]
    assert (told["type"], told["status"], told["lastTransitionTime"]) == (
        "DisruptionTarget",
        "False",
        rfc3339(NOW),
    )
    assert not told["reason"]


@pytest.mark.parametrize(
    "change",
    [
        {"status": "False"},
        {"reason": "TerminationByKubelet"},
        {"phase": "Failed"},
        {"phase": "Succeeded"},
        {"metadata": {"deletionTimestamp": rfc3339(NOW)}},
        {"type": "Ready"},
    ],
)
def test_other_conditions_stay(change: Document) -> None:
    assert budgets.clear_stale_target(target(500, **change), NOW) == []

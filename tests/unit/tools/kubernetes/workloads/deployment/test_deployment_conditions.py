"""What the conditions of a deployment tell about its roll-out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from berth.actors.scheduling.kube.times import rfc3339
from berth.tools.kubernetes.objects.structs import Document
from berth.tools.kubernetes.objects.writes import Again, Write
from berth.tools.kubernetes.workloads.deployment.rollout import reconcile

from .deployments import NOW, decided, deployment_of, progressing, replica_set, status

COUNTS = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "unavailableReplicas": 2}


def condition(reason: str, seconds: float = 0, word: str = "True") -> Document:
    """Returns the condition Progressing that was written so many seconds ago."""
    then = rfc3339(NOW - timedelta(seconds=seconds))
    times = {"lastUpdateTime": then, "lastTransitionTime": then}
    return {"type": "Progressing", "status": word, "reason": reason, "message": "m", **times}


def stuck(before: Document | None, **spec: Any) -> list[Write]:
    """Returns the writes for a deployment whose two new pods do not become available."""
    conditions = [] if before is None else [before]
    owner = deployment_of(2, status={**COUNTS, "conditions": conditions}, **spec)
    return decided(owner, replica_set("new", 2, 0))


def test_a_roll_out_begins_goes_on_and_is_complete() -> None:
    owner = deployment_of(2)
    name = status_name(decided(owner))
    assert progressing(decided(owner)) == (
        "True",
        "NewReplicaSetCreated",
        f'Created new replica set "{name}"',
    )
    adopted = replica_set("new", 0)
    assert progressing(decided(owner, adopted))[1:] == (
        "FoundNewReplicaSet",
        'Found new replica set "new"',
    )
    assert progressing(decided(owner, replica_set("new", 2, 1)))[1:] == (
        "ReplicaSetUpdated",
        'ReplicaSet "new" is progressing.',
    )
    assert progressing(decided(owner, replica_set("new", 2, 2)))[1:] == (
        "NewReplicaSetAvailable",
        'ReplicaSet "new" has successfully progressed.',
    )


def status_name(writes: list[Write]) -> str:
    return progressing(writes)[2].split('"')[1]


@pytest.mark.parametrize(
    ("reason", "seconds", "after"),
    [
        ("ReplicaSetUpdated", 600, None),
        ("ReplicaSetUpdated", 601, "ProgressDeadlineExceeded"),
        ("DeploymentResumed", 601, "ProgressDeadlineExceeded"),
        ("NewReplicaSetCreated", 601, "ProgressDeadlineExceeded"),
        ("NewReplicaSetAvailable", 601, None),
    ],
)
def test_a_roll_out_without_progress_times_out(
    reason: str, seconds: float, after: str | None
) -> None:
    writes = stuck(condition(reason, seconds))
    written = {c["type"]: c for c in status(writes)["conditions"]}["Progressing"]
    assert written["reason"] == (after or reason)
    if after:
        why = 'ReplicaSet "new" has timed out progressing.'
        assert progressing(writes) == ("False", after, why)


def test_a_roll_out_is_looked_at_again_after_its_deadline() -> None:
    def waits(writes: list[Write]) -> list[float]:
        return [write.seconds for write in writes if isinstance(write, Again)]

    assert waits(stuck(condition("ReplicaSetUpdated", 100))) == [501]
    assert waits(stuck(condition("ProgressDeadlineExceeded", 700, "False"))) == []
    assert waits(stuck(condition("NewReplicaSetAvailable", 700))) == []
    assert waits(stuck(condition("DeploymentPaused", 700, "Unknown"), paused=True)) == []


def test_a_pause_stops_the_deadline_and_its_end_starts_it_again() -> None:
    paused = progressing(stuck(condition("ReplicaSetUpdated", 700), paused=True))
    assert paused == ("Unknown", "DeploymentPaused", "Deployment is paused")
    resumed = stuck(condition("DeploymentPaused", 700, "Unknown"))
    assert progressing(resumed) == ("Unknown", "DeploymentResumed", "Deployment is resumed")
    (written,) = (c for c in status(resumed)["conditions"] if c["type"] == "Progressing")
    assert (written["lastUpdateTime"], written["lastTransitionTime"]) == (
        rfc3339(NOW),
        rfc3339(NOW - timedelta(seconds=700)),
    )
    exceeded = stuck(condition("ProgressDeadlineExceeded", 700, "False"), paused=True)
    assert progressing(exceeded)[1] == "ProgressDeadlineExceeded", "a pause does not hide it"


@pytest.mark.parametrize("deadline", [None, 2**31 - 1])
def test_without_a_deadline_there_is_no_progress_to_tell(deadline: int | None) -> None:
    writes = stuck(condition("ReplicaSetUpdated", 9), progressDeadlineSeconds=deadline)
    assert [c["type"] for c in status(writes)["conditions"]] == ["Available"]


def test_a_complete_roll_out_stays_complete_when_pods_are_lost() -> None:
    writes = stuck(condition("NewReplicaSetAvailable", 9))
    assert [c["reason"] for c in status(writes)["conditions"]] == [
        "NewReplicaSetAvailable",
        "MinimumReplicasUnavailable",
    ]


def test_the_status_counts_pods_that_end() -> None:
    sets = [replica_set("old", 0, terminatingReplicas=2), replica_set("new", 2)]
    assert status(decided(deployment_of(2), *sets))["terminatingReplicas"] == 2


def test_a_deployment_tells_the_failure_of_a_replica_set_while_it_rolls() -> None:
    failure = {**condition("FailedCreate"), "type": "ReplicaFailure"}
    failing = replica_set("new", 2, 0, conditions=[failure])
    kinds = [c["type"] for c in status(decided(deployment_of(2), failing))["conditions"]]
    assert kinds == ["Available", "Progressing", "ReplicaFailure"]
    before = {"conditions": [failure, condition("ReplicaSetUpdated")]}
    well = reconcile(deployment_of(2, status=before), [replica_set("new", 2)], NOW)
    assert [c["type"] for c in status(well)["conditions"]] == ["Available", "Progressing"]

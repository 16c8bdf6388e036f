"""How a deployment creates, pauses, recreates and forgets ReplicaSets."""

from __future__ import annotations

from berth.tools.kubernetes.objects.documents import template_hash
from berth.tools.kubernetes.objects.writes import Create, Patch
from berth.tools.kubernetes.workloads.deployment.rollout import reconcile

from .deployments import (
    DESIRED,
    MOST,
    NOW,
    created,
    decided,
    deleted,
    deployment_of,
    progressing,
    replica_set,
    sizes,
    status,
    template_of,
)

RECREATE = {"type": "Recreate"}


def test_a_deployment_creates_a_replica_set_of_its_template() -> None:
    (document,) = created(decided(deployment_of(4, annotations={"a": "b"}, surge=1)))
    assert document["spec"]["replicas"] == 4
    assert document["metadata"]["name"] == f"w-{template_hash(template_of('new'))}"
    assert document["metadata"]["annotations"] == {
        "a": "b",
        "deployment.kubernetes.io/revision": "1",
        DESIRED: "4",
        MOST: "5",
    }


def test_a_name_that_is_taken_counts_as_a_collision() -> None:
    taken = {f"w-{template_hash(template_of('new'))}"}
    writes = reconcile(deployment_of(1), [], NOW, lambda name: name in taken)
    (document,) = created(writes)
    mark = document["metadata"]["labels"]["pod-template-hash"]
    assert document["metadata"]["name"] == f"w-{mark}" not in taken
    assert document["spec"]["selector"]["matchLabels"]["pod-template-hash"] == mark
    assert status(writes)["collisionCount"] == 1
    again = reconcile(deployment_of(1, status={"collisionCount": 1}), [], NOW)
    assert created(again)[0]["metadata"]["name"] == f"w-{mark}"
    other = replica_set(template_hash(template_of("new")), 1)
    assert created(decided(deployment_of(1), other)), "a hash alone does not make the template"


def test_the_status_tells_that_the_server_refused_the_replica_set() -> None:
    writes = reconcile(deployment_of(1), [], NOW, refusal="exceeded quota")
    name = created(writes)[0]["metadata"]["name"]
    why = f'Failed to create new replica set "{name}": exceeded quota'
    assert progressing(writes) == ("False", "ReplicaSetCreateError", why)
    assert isinstance(writes[0], Patch)
    assert isinstance(writes[1], Create), "nothing is written after it, if it is refused again"
    refused = deployment_of(1, status={**status(writes), "replicas": 1, "updatedReplicas": 1})
    assert progressing(decided(refused, replica_set("new", 1, 0)))[1] == "NewReplicaSetCreated"


def test_a_paused_deployment_is_scaled_but_creates_nothing() -> None:
    paused = deployment_of(5, paused=True)
    assert created(decided(paused)) == []
    assert sizes(decided(paused, replica_set("old", 3))) == {"old": 5}
    both = [replica_set("a", 0), replica_set("b", 0)]
    assert sizes(decided(paused, *both)) == {"b": 5}


def test_new_pods_are_created_only_after_the_last_old_one_is_gone() -> None:
    owner = deployment_of(2, strategy=RECREATE)
    assert sizes(decided(owner, replica_set("old", 2))) == {"old": 0}
    assert created(decided(owner, replica_set("old", 0, terminatingReplicas=1))) == []
    assert created(decided(owner, replica_set("old", 0))) != []


def test_old_replica_sets_are_forgotten_once_the_roll_out_is_complete() -> None:
    complete = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    done, under_way = {**complete, "observedGeneration": 1}, {**complete, "observedGeneration": 0}
    sets = [
        replica_set(name, size, annotations={"deployment.kubernetes.io/revision": revision})
        for name, size, revision in (("a", 0, "3"), ("b", 0, "x"), ("c", 1, "1"), ("new", 1, "4"))
    ]
    owner = deployment_of(1, status=done, revisionHistoryLimit=1)
    assert deleted(decided(owner, sets[0], sets[1], sets[3])) == ["b"]
    assert deleted(decided(deployment_of(1, status=under_way, revisionHistoryLimit=0), *sets)) == []
    unlimited = deployment_of(1, status=done, revisionHistoryLimit=2**31 - 1)
    assert deleted(decided(unlimited, *sets)) == []
    paused = deployment_of(1, paused=True, revisionHistoryLimit=2)
    assert deleted(decided(paused, *sets)) == ["b"], "those with pods count, but stay"

"""The life of jobs: what is counted, when pods are replaced, and why a job ends."""

from __future__ import annotations

from random import Random

import pytest

from berth.actors.scheduling.kube.times import rfc3339
from berth.tools.kubernetes.objects.structs import Document
from berth.tools.kubernetes.objects.writes import Create, Delete, Patch
from berth.tools.kubernetes.workloads.job.job_controller import (
    FAILURES,
    FINALIZER,
    IGNORED,
    INDEX,
)
from tests.unit.tools.kubernetes.workloads.job.world import START, World


def rule(action: str, **on: object) -> Document:
    return {"action": action, **on}


def codes(action: str, *values: int, operator: str = "In", container: str = "c") -> Document:
    on = {"containerName": container, "operator": operator, "values": list(values)}
    return rule(action, onExitCodes=on)


DISRUPTED = [{"type": "DisruptionTarget"}]


def test_a_job_runs_until_enough_pods_have_succeeded() -> None:
    world = World(completions=3, parallelism=2)
    world.settle()
    assert world.status["active"] == 2
    assert all(FINALIZER in pod["metadata"]["finalizers"] for pod in world.pods.values())
    for count in (2, 3):
        for name in world.active()[: 4 - count]:
            world.end(name)
        world.settle()
        assert world.status["succeeded"] == count
    assert world.conditions() == dict.fromkeys(
        ("SuccessCriteriaMet", "Complete"), "CompletionsReached"
    )
    assert world.created == 3
    assert world.status["uncountedTerminatedPods"] == {}
    assert not any(pod["metadata"]["finalizers"] for pod in world.pods.values())


@pytest.mark.parametrize("seed", range(20))
def test_every_pod_is_counted_once_whatever_fails(seed: int) -> None:
    """Pods are also deleted by others, and any write may fail."""
    random = Random(seed)
    indexed = seed % 2 == 1
    mode = {"completionMode": "Indexed"} if indexed else {}
    world = World(completions=8, parallelism=4, backoffLimit=1000, **mode)
    good = bad = 0
    while "Complete" not in world.conditions():
        world.settle(lambda: random.random() < 0.7)
        world.later(700)
        for name in world.active():
            match random.randrange(4):
                case 0:
                    world.end(name)
                    good += 1
                case 1:
                    world.end(name, 1)
                    bad += 1
                case 2:
                    world.delete(name)
                    bad += 1
    assert (world.status["succeeded"], world.status["failed"]) == (good, bad)
    assert good == 8


def test_each_failure_in_a_row_doubles_the_delay() -> None:
    world = World(backoffLimit=20)
    delays = []
    for _ in range(8):
        world.settle()
        world.end(world.active()[-1], 1)
        world.settle()
        assert world.active() == []
        delays.append(world.agains[0])
        world.later(world.agains[0])
    assert delays == [10, 20, 40, 80, 160, 320, 600, 600]


def test_a_success_ends_the_delay() -> None:
    world = World(backoffLimit=20, completions=5, parallelism=2)
    world.settle()
    first, second = world.active()
    world.end(first, 1)
    world.settle()
    assert world.active() == [second]
    world.later(5)
    world.end(second)
    world.settle()
    assert len(world.active()) == 2


def test_a_job_fails_after_too_many_failures() -> None:
    world = World(backoffLimit=1, parallelism=2, completions=2)
    world.settle()
    survivor, *_ = world.active()
    for _ in range(2):
        world.end(world.active()[-1], 1)
        world.settle()
        world.later(100)
        world.settle()
    assert world.conditions() == dict.fromkeys(("FailureTarget", "Failed"), "BackoffLimitExceeded")
    assert survivor not in world.active()
    assert world.status["failed"] == 3, "a pod that is stopped counts as failed"


@pytest.mark.parametrize(
    ("rules", "code", "conditions", "reason", "failed"),
    [
        ([codes("FailJob", 42)], 42, (), "PodFailurePolicy", 1),
        ([codes("FailJob", 42)], 43, (), "", 1),
        ([codes("FailJob", 42, operator="NotIn")], 43, (), "PodFailurePolicy", 1),
        ([codes("FailJob", 42, container="other")], 42, (), "", 1),
        ([codes("Ignore", 42), codes("FailJob", 42)], 42, (), "", 0),
        ([codes("Count", 42), codes("FailJob", 42)], 42, (), "", 1),
        ([rule("Ignore", onPodConditions=DISRUPTED)], 1, ("DisruptionTarget",), "", 0),
        ([rule("Ignore", onPodConditions=DISRUPTED)], 1, ("Other",), "", 1),
        (
            [rule("FailJob", onPodConditions=DISRUPTED)],
            1,
            ("DisruptionTarget",),
            "PodFailurePolicy",
            1,
        ),
    ],
)
def test_the_pod_failure_policy(
    rules: list[Document], code: int, conditions: tuple[str, ...], reason: str, failed: int
) -> None:
    world = World(podFailurePolicy={"rules": rules})
    world.settle()
    (name,) = world.active()
    world.end(name, code, conditions=conditions)
    world.settle()
    assert world.conditions().get("Failed", "") == reason
    assert world.status["failed"] == failed
    assert world.pods[name]["metadata"]["finalizers"] == []


def test_a_failed_job_names_the_pod_and_the_rule() -> None:
    world = World(podFailurePolicy={"rules": [codes("Ignore", 1), codes("FailJob", 42)]})
    world.settle()
    world.end("p1", 42)
    world.settle()
    (message,) = {each["message"] for each in world.status["conditions"]}
    assert message == (
        "Container c for pod n/p1 failed with exit code 42 matching FailJob rule at index 1"
    )


def test_the_limit_of_each_index() -> None:
    world = World(completions=3, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=1)
    world.settle()
    index = {name: pod["metadata"]["annotations"] for name, pod in world.pods.items()}
    assert [each[INDEX] for each in index.values()] == ["0", "1", "2"]
    world.end("p1", 1)
    world.end("p2")
    world.settle()
    assert world.pods["p1"]["metadata"]["finalizers"] == [FINALIZER], "it is not yet replaced"
    assert world.agains == [10]
    world.later(10)
    world.settle()
    new = world.pods["p4"]["metadata"]["annotations"]
    assert (new[INDEX], new[FAILURES]) == ("0", "1")
    assert IGNORED not in new
    assert world.pods["p1"]["metadata"]["finalizers"] == []
    world.end("p4", 1)
    world.settle()
    assert world.status["failedIndexes"] == "0"
    assert world.conditions() == {}, "the other indexes still run"
    world.end("p3")
    world.settle()
    assert world.conditions()["Failed"] == "FailedIndexes"
    assert (world.status["completedIndexes"], world.status["failed"]) == ("1,2", 2)


def test_a_rule_may_fail_an_index_at_once() -> None:
    world = World(
        completions=3,
        parallelism=3,
        completionMode="Indexed",
        backoffLimitPerIndex=5,
        maxFailedIndexes=0,
        podFailurePolicy={"rules": [codes("FailIndex", 7)]},
    )
    world.settle()
    world.end("p2", 7)
    world.settle()
    assert world.status["failedIndexes"] == "1"
    assert world.conditions()["Failed"] == "MaxFailedIndexesExceeded"


@pytest.mark.parametrize(
    ("rules", "met"),
    [
        ([{"succeededIndexes": "0,2"}], True),
        ([{"succeededIndexes": "0-1"}], False),
        ([{"succeededIndexes": "0-3", "succeededCount": 2}], True),
        ([{"succeededCount": 3}], False),
        ([{"succeededCount": 3}, {"succeededCount": 2}], True),
    ],
)
def test_the_success_policy(rules: list[Document], met: bool) -> None:
    policy = {"rules": rules}
    world = World(completions=4, parallelism=4, completionMode="Indexed", successPolicy=policy)
    world.settle()
    world.end("p1")
    world.end("p3")
    world.settle()
    assert world.conditions().get("SuccessCriteriaMet", "") == ("SuccessPolicy" if met else "")
    assert len(world.active()) == (0 if met else 2)
    assert world.status["failed"] == 0


@pytest.mark.parametrize(("policy", "replaced"), [("TerminatingOrFailed", True), ("Failed", False)])
def test_a_pod_that_is_being_deleted_is_replaced_by_the_policy(policy: str, replaced: bool) -> None:
    world = World(podReplacementPolicy=policy)
    world.settle()
    world.delete("p1")
    world.settle()
    world.later(10)
    world.settle()
    assert (world.active() == ["p2"]) == replaced
    assert ("p1" in world.pods) != replaced
    if not replaced:
        world.end("p1", 143)
        world.settle()
        world.later(10)
        world.settle()
        assert world.active() == ["p2"]
    assert world.status["failed"] == 1


def test_a_suspended_job_has_no_pods_and_no_failures() -> None:
    world = World(parallelism=2, completions=2, activeDeadlineSeconds=60)
    world.settle()
    world.job["spec"]["suspend"] = True
    world.settle()
    assert world.pods == {}
    assert world.conditions() == {"Suspended": "JobSuspended"}
    assert "startTime" not in world.status
    world.later(3600)
    world.job["spec"]["suspend"] = False
    world.settle()
    assert len(world.active()) == 2
    assert world.conditions() == {}
    assert (world.status["failed"], world.agains) == (0, [60])
    world.later(60)
    world.settle()
    assert world.conditions()["Failed"] == "DeadlineExceeded"


def test_restarted_containers_count_towards_the_limit() -> None:
    world = World(backoffLimit=2, restart="OnFailure")
    world.settle()
    world.pods["p1"]["status"]["containerStatuses"] = [{"name": "c", "restartCount": 2}]
    world.settle()
    assert world.conditions()["Failed"] == "BackoffLimitExceeded"


def test_doubles_and_unknown_indexes_are_deleted() -> None:
    world = World(completions=2, parallelism=2, completionMode="Indexed")
    world.settle()
    world.job["spec"] |= {"completions": 1, "parallelism": 1}
    world.settle()
    assert world.active() == ["p1"]


def test_a_job_of_another_controller_is_left_alone() -> None:
    assert World(managedBy="example.com/queue").decide() == []


def test_a_job_whose_selector_leaves_out_its_own_pods_makes_none() -> None:
    """It would let go of each, and make the next."""
    world = World(selector={"matchLabels": {"crop": "barley"}})
    world.settle()
    assert world.created == 0


def test_a_finished_or_deleted_job_frees_its_pods() -> None:
    for change in ({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, None):
        world = World()
        world.settle()
        if change:
            world.job |= change
        else:
            world.job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        world.settle()
        assert world.pods["p1"]["metadata"]["finalizers"] == []


def test_a_job_is_deleted_after_its_time_to_live() -> None:
    world = World(ttlSecondsAfterFinished=30)
    world.settle()
    world.end("p1")
    world.settle()
    assert world.agains == [30]
    world.later(30)
    (deletion,) = world.decide()
    assert isinstance(deletion, Delete)
    assert deletion.propagation == "Foreground"  # the job is seen until its pods are gone


def test_a_pod_that_the_server_refuses_is_not_active() -> None:
    world = World(parallelism=3, completions=3)
    world.settle()
    assert world.status["active"] == 3
    world = World(parallelism=3, completions=3)
    world.refusal = "forbidden: exceeded quota"
    (status,) = [write.body["status"] for write in world.decide() if isinstance(write, Patch)]
    assert status.get("active", 0) == 0


@pytest.mark.parametrize(("length", "prefix"), [(10, "jjjjjjjjjj-7-"), (58, "j" * 55 + "-7-")])
def test_the_index_is_in_the_name_of_a_pod_however_long_that_of_the_job_is(
    length: int, prefix: str
) -> None:
    world = World(parallelism=8, completions=8, completionMode="Indexed")
    world.job["metadata"]["name"] = "j" * length
    pods = [write.document for write in world.decide() if isinstance(write, Create)]
    assert pods[7]["metadata"]["generateName"] == prefix
    assert pods[7]["spec"]["hostname"] == "j" * length + "-7"


def test_conditions_say_when_they_were_looked_at() -> None:
    world = World(suspend=True)
    world.settle()
    world.later(60)
    world.settle()
    (condition,) = world.status["conditions"]
    assert condition["lastProbeTime"] == condition["lastTransitionTime"] == rfc3339(START)
    world.job["spec"]["suspend"] = False
    world.settle()
    (condition,) = world.status["conditions"]
    assert condition["status"] == "False"
    assert condition["lastProbeTime"] == condition["lastTransitionTime"] == rfc3339(world.now)


def test_containers_of_an_indexed_job_have_the_index_as_a_variable() -> None:
    world = World(parallelism=1, completions=1, completionMode="Indexed")
    own = [{"name": "JOB_COMPLETION_INDEX", "value": "7"}]
    spec = world.job["spec"]["template"]["spec"]
    spec |= {"initContainers": [{"name": "i", "env": own}]}
    spec["containers"] = [{"name": "c", "env": [{"name": "A", "value": "b"}]}]
    (pod,) = [write.document for write in world.decide() if isinstance(write, Create)]
    assert pod["spec"]["initContainers"][0]["env"] == own
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    added = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    assert pod["spec"]["containers"][0]["env"] == [{"name": "A", "value": "b"}, added]

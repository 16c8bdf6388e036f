"""The life of a pod's containers: init containers, sidecars, probes, exits and restarts."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.kube.times import time_of
from berth.tools.kubernetes.kubelet.containers import (
    Backoffs,
    Exit,
    Progress,
    after_exits,
    is_marked,
    progress,
    stopped,
    waiting,
)
from tests.kit.documents import Document


def pod(*containers: Document, policy: str = "Always", **spec: Any) -> Document:
    metadata: Document = {"name": "p", "namespace": "default", "uid": "u"}
    metadata["annotations"] = spec.pop("annotations", {})
    return {
        "metadata": metadata,
        "spec": {
            "restartPolicy": policy,
            "containers": list(containers) or [container("c")],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def container(name: str, **fields: Any) -> Document:
    return {"name": name, "image": "x", **fields}


def after(document: Document, then: Progress) -> Document:
    """Returns the pod with a new status, merged as the server does."""
    conditions = {each["type"]: each for each in document["status"].get("conditions", ())}
    for each in then.status["conditions"]:
        merged = {**conditions.get(each["type"], {}), **each}
        conditions[each["type"]] = {
            key: value for key, value in merged.items() if value is not None
        }
    status = {**document["status"], **then.status, "conditions": list(conditions.values())}
    return {**document, "status": status}


def at(document: Document, now: float) -> Document:
    return after(document, progress(document, now))


def failed(document: Document, now: float, backoffs: Backoffs, code: int = 1) -> Document:
    exits = after_exits(document, now, lambda _: Exit(code, "Error"), backoffs)
    return after(document, exits)


def states(document: Document, field: str = "containerStatuses") -> dict[str, str]:
    return {
        status["name"]: next(iter(status["state"])) for status in document["status"].get(field, ())
    }


def condition(document: Document, kind: str) -> tuple[str, str]:
    (match,) = [each for each in document["status"]["conditions"] if each["type"] == kind]
    return match["status"], match.get("message", "")


def test_a_plain_pod_runs_and_is_ready_at_once() -> None:
    started = progress(pod(), 100)
    assert started.due is None
    document = after(pod(), started)
    assert document["status"]["phase"] == "Running"
    assert condition(document, "Ready") == ("True", "")
    assert progress(document, 200).status["conditions"] == []


def test_init_containers_run_in_their_order() -> None:
    before = pod(
        initContainers=[container("a"), container("b")], annotations={"berth.dev/init-seconds": "5"}
    )
    first = progress(before, 100)
    document = after(before, first)
    assert first.due == 105
    assert states(document, "initContainerStatuses") == {"a": "running", "b": "waiting"}
    assert states(document) == {"c": "waiting"}
    assert document["status"]["phase"] == "Pending"
    assert condition(document, "Initialized") == (
        "False",
        "containers with incomplete status: [a b]",
    )
    document = at(document, 105)
    assert states(document, "initContainerStatuses") == {"a": "terminated", "b": "running"}
    assert condition(document, "Initialized")[1] == "containers with incomplete status: [b]"
    document = at(document, 110)
    assert states(document) == {"c": "running"}
    assert condition(document, "Initialized") == ("True", "")
    assert document["status"]["phase"] == "Running"


def test_a_sidecar_holds_the_others_up_until_it_has_started() -> None:
    sidecar = container("s", restartPolicy="Always", startupProbe={"initialDelaySeconds": 7})
    before = pod(initContainers=[sidecar, container("a")])
    document = at(before, 100)
    assert progress(document, 100).due == 107
    assert states(document, "initContainerStatuses") == {"s": "running", "a": "waiting"}
    document = at(document, 107)
    assert states(document, "initContainerStatuses") == {"s": "running", "a": "terminated"}
    assert states(document) == {"c": "running"}


def test_sidecars_end_with_the_pod() -> None:
    before = pod(policy="Never", initContainers=[container("s", restartPolicy="Always")])
    running = at(before, 100)
    ended = after(
        running,
        after_exits(running, 110, lambda each: Exit() if each["name"] == "c" else None, Backoffs()),
    )
    assert ended["status"]["phase"] == "Succeeded"
    assert states(ended, "initContainerStatuses") == {"s": "terminated"}


def test_a_sidecar_that_crashes_leaves_its_pod_running_and_initialized() -> None:
    sidecar = container("s", restartPolicy="Always", startupProbe={"initialDelaySeconds": 7})
    document = at(at(pod(initContainers=[sidecar]), 100), 107)
    backoffs = Backoffs()

    def crashed(document: Document, now: float) -> Document:
        exits = after_exits(
            document, now, lambda each: Exit(1) if each["name"] == "s" else None, backoffs
        )
        return after(document, exits)

    document = crashed(document, 110)  # restarted at once; its startup probe has to succeed again
    assert states(document, "initContainerStatuses") == {"s": "running"}
    for _ in range(2):
        assert document["status"]["phase"] == "Running"
        assert condition(document, "Initialized") == ("True", "")
        assert condition(document, "Ready") == ("False", "containers with unready status: [s]")
        assert states(document) == {"c": "running"}
        document = crashed(at(document, 117), 120)
    assert states(document, "initContainerStatuses") == {"s": "waiting"}


def test_readiness_follows_the_probe_or_the_annotation() -> None:
    probe = {"initialDelaySeconds": 5, "periodSeconds": 3, "successThreshold": 2}
    document = at(pod(container("c", readinessProbe=probe)), 100)
    assert condition(document, "Ready") == ("False", "containers with unready status: [c]")
    assert progress(document, 100).due == 108
    assert condition(at(document, 108), "Ready") == ("True", "")
    prompt = at(pod(container("c", readinessProbe={"periodSeconds": 3})), 100)
    assert condition(prompt, "Ready") == ("True", ""), "a probe may begin and succeed at once"
    slow = container("c", readinessProbe=probe, startupProbe={"initialDelaySeconds": 20})
    document = at(at(pod(slow), 100), 120)
    assert progress(document, 120).due == 123, "the readiness probe begins after the start"
    later = at(pod(annotations={"berth.dev/ready-seconds": "30"}), 100)
    assert progress(later, 100).due == 130
    assert condition(at(later, 130), "ContainersReady") == ("True", "")


def test_a_readiness_gate_keeps_a_pod_unready() -> None:
    document = at(pod(readinessGates=[{"conditionType": "example.com/lb"}]), 100)
    assert condition(document, "ContainersReady") == ("True", "")
    status, message = condition(document, "Ready")
    assert status == "False"
    assert 'readiness gate "example.com/lb" does not exist' in message
    two = [{"conditionType": "a"}, {"conditionType": "b"}]
    _, message = condition(at(pod(readinessGates=two), 100), "Ready")
    assert message == (
        'corresponding condition of pod readiness gate "a" does not exist., '
        'corresponding condition of pod readiness gate "b" does not exist.'
    )
    document["status"]["conditions"].append({"type": "example.com/lb", "status": "True"})
    assert condition(at(document, 101), "Ready") == ("True", "")


def test_a_crash_loop_backs_off_twice_as_long_each_time_up_to_five_minutes() -> None:
    backoffs, now = Backoffs(), 1000.0
    document = at(pod(), now)
    waits = []
    for restarts in range(8):
        assert document["status"]["containerStatuses"][0]["restartCount"] == restarts
        document = failed(document, now + 1, backoffs)
        (status,) = document["status"]["containerStatuses"]
        if "waiting" in status["state"]:
            assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
            assert document["status"]["phase"] == "Running"
            assert condition(document, "Ready")[0] == "False"
        due = progress(document, now + 1).due
        waits.append(0 if due is None else due - now - 1)
        now = now + 1 if due is None else due
        document = at(document, now)
        (status,) = document["status"]["containerStatuses"]
        assert status["lastState"]["terminated"]["exitCode"] == 1
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_ten_minutes_of_running_reset_the_back_off() -> None:
    backoffs = Backoffs()
    assert [backoffs.next("u", "c", restarts, 1) for restarts in range(4)] == [0, 10, 20, 40]
    assert [backoffs.next("u", "c", restarts, ran) for restarts, ran in ((4, 600), (5, 1))] == [
        0,
        10,
    ]


def test_kubelets_that_start_again_go_by_the_restarts() -> None:
    assert Backoffs().next("u", "c", 3, 1) == 40
    document = failed(failed(at(pod(), 100), 101, Backoffs()), 102, Backoffs())
    assert document["status"]["containerStatuses"][0]["restartCount"] == 1
    assert progress(document, 105).due == 112
    assert progress(at(document, 112), 112).due is None


@pytest.mark.parametrize(
    ("policy", "code", "phase", "reason"),
    [
        ("Never", 0, "Succeeded", "terminated"),
        ("Never", 3, "Failed", "terminated"),
        ("OnFailure", 0, "Succeeded", "terminated"),
        ("OnFailure", 3, "Running", "running"),
        ("Always", 0, "Running", "running"),
    ],
)
def test_the_restart_policy_decides(policy: str, code: int, phase: str, reason: str) -> None:
    document = failed(at(pod(policy=policy), 100), 101, Backoffs(), code)
    assert document["status"]["phase"] == phase
    assert states(document) == {"c": reason}
    if reason == "terminated":
        assert condition(document, "Ready")[0] == "False"
        ended = document["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["finishedAt"]) == (code, time_of(101))


RULES = [
    {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}},
    {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [1, 2, 42]}},
]


@pytest.mark.parametrize(
    ("pods", "own", "rules", "code", "state"),
    [
        ("Always", "Never", [], 1, "terminated"),
        ("Always", "OnFailure", [], 0, "terminated"),
        ("Never", "OnFailure", [], 1, "running"),
        ("Never", "Never", RULES, 42, "running"),
        ("Never", "Never", RULES, 3, "running"),
        ("Never", "Never", RULES, 2, "terminated"),
        ("OnFailure", "Always", [], 0, "running"),
    ],
)
def test_a_container_may_have_its_own_restart_policy_and_rules(
    pods: str, own: str, rules: list[Document], code: int, state: str
) -> None:
    only = container("c", restartPolicy=own, restartPolicyRules=rules)
    document = failed(at(pod(only, policy=pods), 100), 101, Backoffs(), code)
    assert states(document) == {"c": state}
    phase = "Running" if state == "running" else "Failed" if code else "Succeeded"
    assert document["status"]["phase"] == phase


def test_an_init_container_that_is_not_restarted_fails_the_pod() -> None:
    init = container("i", restartPolicy="Never")
    document = at(pod(initContainers=[init], annotations={"berth.dev/init-seconds": "9"}), 100)
    document = failed(document, 101, Backoffs())
    assert document["status"]["phase"] == "Failed"


def test_only_some_containers_end() -> None:
    before = at(pod(container("a"), container("b"), policy="Never"), 100)
    ended = after_exits(
        before, 101, lambda each: Exit(1, "Error") if each["name"] == "a" else None, Backoffs()
    )
    document = after(before, ended)
    assert states(document) == {"a": "terminated", "b": "running"}
    assert document["status"]["phase"] == "Running"
    assert condition(document, "Ready") == ("False", "containers with unready status: [a]")


def test_a_condition_keeps_its_time_while_its_status_is_the_same() -> None:
    document = at(pod(container("a"), container("b")), 100)
    document = failed(failed(document, 110, Backoffs()), 111, Backoffs())
    first = next(each for each in document["status"]["conditions"] if each["type"] == "Ready")
    assert first["lastTransitionTime"] == time_of(111)


def test_a_pod_is_marked_if_only_its_readiness_was_taken_away() -> None:
    document = at(pod(), 100)
    assert not is_marked(document)
    for each in document["status"]["conditions"]:
        if each["type"] == "Ready":
            each["status"] = "False"
    assert is_marked(document)
    (restored,) = progress(document, 200).status["conditions"]
    assert (restored["type"], restored["status"]) == ("Ready", "True")
    assert not is_marked(failed(document, 110, Backoffs()) | {"status": {"phase": "Failed"}})


def deleted(document: Document) -> Document:
    metadata = {**document["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return {**document, "metadata": metadata}


def test_a_deleted_pod_succeeds_unless_a_container_has_failed() -> None:
    running = at(pod(container("b"), container("a")), 100)
    status = stopped(deleted(running), 110)
    assert status["phase"] == "Succeeded"
    assert [each["name"] for each in status["containerStatuses"]] == ["a", "b"]
    assert all(each["state"]["terminated"]["exitCode"] == 0 for each in status["containerStatuses"])
    failing = failed(failed(at(pod(), 100), 110, backoffs := Backoffs()), 120, backoffs)
    assert states(failing) == {"c": "waiting"}
    status = stopped(deleted(failing), 125)
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


def test_a_container_of_a_deleted_pod_that_never_ran_is_lost() -> None:
    before = pod()
    before["status"] = waiting(before, 100, "ContainerCreating", mounted=False, messages={})
    conditions = {each["type"]: each["status"] for each in before["status"]["conditions"]}
    assert conditions["PodReadyToStartContainers"] == "False"
    assert conditions["Initialized"] == "True"
    status = stopped(deleted(before), 110)
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], ended["reason"]) == ("Failed", "ContainerStatusUnknown")


def test_a_pod_that_is_deleted_while_it_initializes_fails() -> None:
    before = pod(initContainers=[container("i")], annotations={"berth.dev/init-seconds": "9"})
    status = stopped(deleted(at(before, 100)), 105)
    assert status["phase"] == "Failed"
    assert "terminated" in status["initContainerStatuses"][0]["state"]
    assert "waiting" in status["containerStatuses"][0]["state"]


@pytest.mark.parametrize(
    ("missing", "init", "main"),
    [
        ("i", "ErrImagePull", "PodInitializing"),
        ("x", "PodInitializing", "ErrImagePull"),
    ],
)
def test_the_container_whose_image_is_missing_says_so(missing: str, init: str, main: str) -> None:
    waits = pod(initContainers=[{"name": "i", "image": "i"}])
    status = waiting(waits, 100, "ErrImagePull", mounted=True, messages={missing: "no"})
    (of_init,), (of_main,) = status["initContainerStatuses"], status["containerStatuses"]
    states = [each["state"]["waiting"] for each in (of_init, of_main)]
    assert [state["reason"] for state in states] == [init, main]
    assert [state["message"] for state in states if "message" in state] == ["no"]


def test_all_containers_wait_for_the_initialization_if_there_is_one() -> None:
    initialized = pod(initContainers=[container("i")])
    for waits, reason in ((pod(), "ContainerCreating"), (initialized, "PodInitializing")):
        status = waiting(waits, 100, "ContainerCreating", mounted=True, messages={})
        (main,) = status["containerStatuses"]
        assert main["state"] == {"waiting": {"reason": reason}}


def test_ephemeral_containers_start_once_and_end_with_the_pod() -> None:
    field = "ephemeralContainerStatuses"
    runs = at(pod(policy="Never"), 100)
    spec = {**runs["spec"], "ephemeralContainers": [container("d")]}
    debugged = at({**runs, "spec": spec}, 110)
    (started,) = debugged["status"][field]
    assert started["state"] == {"running": {"startedAt": time_of(110)}}
    assert at(debugged, 120)["status"][field] == [started]
    for ended in (failed(debugged, 130, Backoffs()), {"status": stopped(deleted(debugged), 130)}):
        assert states(ended, field) == {"d": "terminated"}
    assert field not in runs["status"]


def test_ephemeral_containers_wait_for_the_pod() -> None:
    before = pod(
        initContainers=[container("i")],
        annotations={"berth.dev/init-seconds": "9"},
        ephemeralContainers=[container("d")],
    )
    assert at(before, 100)["status"]["ephemeralContainerStatuses"] == []

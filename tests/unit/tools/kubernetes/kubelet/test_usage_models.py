"""The usage that a pod's annotation or a scenario describes, at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from berth.actors.scheduling.kube.labels import from_map
from berth.tools.kubernetes.kubelet.usage_models import (
    ANNOTATION,
    PodUsage,
    Rule,
    Scenario,
    UsageError,
    parse_usage,
    usage_of,
)
from berth.tools.kubernetes.objects.structs import Pod, read
from tests.kit import documents

START = datetime(2026, 1, 1, tzinfo=UTC)
Mi, Gi = 1 << 20, 1 << 30


def pod(usage: str | None = None, restarted: float = 0.0, **status: Any) -> Pod:
    """Returns a running pod with the containers `app` and `sidecar`, and two volumes."""
    running = {"running": {"startedAt": (START + timedelta(seconds=restarted)).isoformat()}}
    states = [{"name": "app", "state": running}, {"name": "sidecar", "state": running}]
    volumes = [
        {"name": "cache", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "other", "configMap": {"name": "c"}},
    ]
    document = documents.pod(
        labels={"app": "p"},
        annotations={} if usage is None else {ANNOTATION: usage},
        containers=[{"name": "app"}, {"name": "sidecar"}],
        volumes=volumes,
        status={
            "phase": "Running",
            "startTime": START.isoformat(),
            "containerStatuses": states,
            **status,
        },
    )
    return read(document, Pod)


def at(seconds: float, usage: str, **options: Any) -> PodUsage:
    used = usage_of(pod(usage, **options), START + timedelta(seconds=seconds))
    assert used is not None
    return used


def test_a_pod_that_says_nothing_has_no_usage() -> None:
    assert usage_of(pod(), START) is None


@pytest.mark.parametrize(
    ("usage", "amounts"),
    [
        ("memory=1Gi", {0: 1024, 3600: 1024}),
        ("memory=1Gi+10Mi/s", {0: 1024, 1: 1034, 60: 1624}),
        ("memory=1Gi + 600Mi/m", {1: 1034}),
        ("memory=1Gi+36000Mi/h", {1: 1034}),
        ("memory=1Gi+10Mi/s to 1034Mi", {0: 1024, 1: 1034, 60: 1034}),
        ("memory=1Gi+10Mi/s to 2Gi after 1m", {60: 1024, 61: 1034, 7200: 2048}),
        ("memory=1Gi-10Mi/s to 1000Mi", {1: 1014, 60: 1000}),
        ("memory=1Gi-10Mi/s", {1: 1014, 1000: 0}),
        ("memory=1Mi spike 5Mi every 10m for 30s", {0: 1, 599: 1, 600: 6, 629: 6, 630: 1, 1200: 6}),
        ("memory=1Mi spike 5Mi at 1h for 5m", {0: 1, 3600: 6, 3899: 6, 3900: 1, 7200: 1}),
    ],
)
def test_an_amount_is_constant_grows_is_bounded_or_spikes(
    usage: str, amounts: dict[float, int]
) -> None:
    assert {seconds: at(seconds, usage).memory // Mi for seconds in amounts} == amounts


def test_each_resource_is_of_a_container_or_a_volume() -> None:
    used = at(
        10,
        "cpu=250m, memory=1Gi, pids=7, ephemeral-storage=3Mi, inodes=5, logs=1Mi+1Mi/s,"
        " sidecar/memory=64Mi, sidecar/cpu=1, volume.cache=2Gi, volume.cache.inodes=9,"
        " volume.shm=1Mi",
    )
    app, sidecar = used.containers
    assert (app.name, app.cpu, app.memory, app.pids) == ("app", 250_000_000, Gi, 7)
    assert (app.rootfs, app.inodes, app.logs) == (3 * Mi, 5, 11 * Mi)
    assert (sidecar.name, sidecar.cpu, sidecar.memory) == ("sidecar", 10**9, 64 * Mi)
    assert [(volume.name, volume.used, volume.inodes) for volume in used.volumes] == [
        ("cache", 2 * Gi, 9),
        ("shm", Mi, 0),
    ]
    assert used.cpu == 1_250_000_000
    assert used.memory == Gi + 65 * Mi
    assert used.ephemeral_storage == 2 * Gi + 14 * Mi
    assert (used.inodes, used.pids) == (14, 7)


def test_a_restart_ends_a_leak_of_a_container_and_not_that_of_a_volume() -> None:
    used = at(100, "memory=1Mi+1Mi/s, volume.cache=1Mi+1Mi/s", restarted=90)
    assert used.memory == 11 * Mi
    assert used.volumes[0].used == 101 * Mi


def test_an_ended_container_leaves_its_disk_and_no_volume() -> None:
    ended = {
        "startedAt": START.isoformat(),
        "finishedAt": (START + timedelta(seconds=5)).isoformat(),
    }
    statuses = [{"name": "app", "state": {"terminated": ended}}]
    usage = "memory=1Gi, cpu=1, pids=3, ephemeral-storage=1Mi+1Mi/s, logs=7, volume.cache=1Gi"
    used = at(60, usage, phase="Failed", containerStatuses=statuses)
    assert (used.cpu, used.memory, used.pids, used.ephemeral_storage) == (0, 0, 0, 0)
    (dead,) = used.dead
    assert (dead.name, dead.ended, dead.rootfs, dead.logs) == (
        "app",
        ended["finishedAt"],
        6 * Mi,
        7,
    )


def test_a_restarted_container_leaves_the_disk_of_the_last_one() -> None:
    ended = {
        "startedAt": START.isoformat(),
        "finishedAt": (START + timedelta(seconds=5)).isoformat(),
    }
    running = {"running": {"startedAt": ended["finishedAt"]}}
    statuses = [{"name": "app", "state": running, "lastState": {"terminated": ended}}]
    used = at(6, "ephemeral-storage=1Mi+1Mi/s", containerStatuses=statuses)
    assert (used.ephemeral_storage, used.dead[0].rootfs) == (2 * Mi, 6 * Mi)


@pytest.mark.parametrize(
    "usage",
    [
        "memory=1Gi",
        "memory=1Gi+10Mi/s",
        "memory=1Gi+10Mi/s to 2Gi after 1m",
        "memory=1Gi-10Mi/s to 100Mi",
        "memory=1Gi spike 1Gi every 1m for 10s noise 5%",
        "memory=1Gi+1Mi/s spike 2Gi at 90s for 20s",
    ],
)
def test_no_amount_exceeds_the_most_that_was_foreseen(usage: str) -> None:
    annotated = pod(usage)
    for start in range(0, 200, 7):
        for ahead in (1, 10, 45, 120):
            now = START + timedelta(seconds=start)
            most = usage_of(annotated, now, ahead=ahead)
            assert most is not None
            assert max(at(start + later, usage).memory for later in range(ahead + 1)) <= most.memory


def test_a_spike_that_cannot_come_yet_is_not_foreseen() -> None:
    foreseen = usage_of(pod("memory=1Mi spike 1Gi every 1m for 10s"), START, ahead=59)
    assert foreseen is not None
    assert foreseen.memory == Mi


def test_a_container_that_has_not_started_uses_nothing() -> None:
    assert at(60, "memory=1Gi", phase="Pending", containerStatuses=[]).memory == 0


def test_noise_stays_in_its_bounds_and_depends_on_the_seed_alone() -> None:
    noisy = pod("memory=1Gi noise 10%")
    times = [START + timedelta(seconds=15 * number) for number in range(50)]

    def amounts(seed: int) -> list[int]:
        read = [usage_of(noisy, time, Scenario(seed=seed)) for time in times]
        return [used.memory for used in read if used is not None]

    assert amounts(1) == amounts(1) != amounts(2)
    assert len(set(amounts(1))) == 50
    assert 0.9 * Gi <= min(amounts(1)) < 0.95 * Gi
    assert 1.05 * Gi < max(amounts(1)) <= 1.1 * Gi


@pytest.mark.parametrize(
    ("usage", "problem"),
    [
        ("", "expected <resource>=<amount>"),
        ("memory", "'memory': expected <resource>=<amount>"),
        ("memory=lots", "'memory=lots': expected <resource>=<amount>"),
        ("memory=1Qi", "'memory=1Qi': expected a quantity such as 100m"),
        ("memory=1Gi+1Mi", "'memory=1Gi+1Mi': expected <resource>=<amount>"),
        ("memory=1Gi, memory=2Gi", "'memory=2Gi': expected each resource once"),
        ("disk=1Gi", "'disk=1Gi': expected the resource cpu, memory, pids"),
        ("app/volume.cache=1Gi", "expected no container before a volume"),
        ("cpu=1 spike 1 every 1m for 2m", "expected a spike that is not longer than its period"),
        ("cpu=1 spike 1 at 1x for 2m", "expected a duration such as 15s"),
        ("memory=1e400", "'memory=1e400': expected amounts of at most 9223372036854775807"),
        ("cpu=1e305", "'cpu=1e305': expected amounts of at most"),
        ("ghost/cpu=1", "expected a container of the pod (app, sidecar), got 'ghost'"),
        ("volume.other=1Gi", "expected an emptyDir of the pod (cache, shm), got 'other'"),
    ],
)
def test_a_wrong_annotation_is_named_with_what_was_expected(usage: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        usage_of(pod(usage), START)
    assert str(raised.value).startswith(f"annotation {ANNOTATION}: ")
    assert problem in str(raised.value)


def test_an_error_shows_the_beginning_of_a_long_annotation() -> None:
    with pytest.raises(UsageError) as raised:
        usage_of(pod("m" * 200_000), START)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    ("amount", "problem"),
    [
        (float("nan"), "memory: expected a number from 0 to 9223372036854775807, got nan"),
        (-1.0, "memory: expected a number from 0"),
        (float("inf"), "memory: expected a number from 0"),
    ],
)
def test_a_model_returns_amounts_that_are_possible(amount: float, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        usage_of(pod(), START, Scenario([Rule(lambda pod, seconds: {"memory": amount})]))


def test_a_failure_of_a_model_is_an_error_of_the_scenario() -> None:
    def failing(pod: Pod, seconds: float) -> dict[str, float]:
        raise KeyError("rate")

    with pytest.raises(UsageError, match=r"usage of the scenario: the model failed: KeyError"):
        usage_of(pod(), START, Scenario([Rule(failing)]))


def test_the_first_rule_of_a_scenario_that_concerns_a_pod_counts_after_its_annotation() -> None:
    rules = [
        Rule(parse_usage("memory=1Mi"), from_map({"app": "other"})),
        Rule(parse_usage("memory=2Mi"), namespaces=("kube-system",)),
        Rule(parse_usage("memory=3Mi"), from_map({"app": "p"})),
        Rule(parse_usage("memory=4Mi")),
    ]
    by_rule = usage_of(pod(), START, Scenario(rules))
    by_annotation = usage_of(pod("memory=5Mi"), START, Scenario(rules))
    assert by_rule is not None
    assert by_annotation is not None
    assert (by_rule.memory, by_annotation.memory) == (3 * Mi, 5 * Mi)


def test_a_model_gives_the_amounts_by_the_time_of_the_pod() -> None:
    def model(pod: Pod, seconds: float) -> dict[str, float]:
        return {"memory": 2 * seconds, "sidecar/cpu": 0.5}

    used = usage_of(pod(), START + timedelta(seconds=8), Scenario([Rule(model)]))
    assert used is not None
    assert (used.memory, used.containers[1].cpu) == (16, 500_000_000)

    def wrong(pod: Pod, seconds: float) -> dict[str, float]:
        return {"ram": 1}

    with pytest.raises(UsageError, match="usage of the scenario: the model returned the unknown"):
        usage_of(pod(), START, Scenario([Rule(wrong)]))

"""What an eviction says. The cases are those of the kubelet."""

from __future__ import annotations

import pytest

from berth.actors.scheduling.kube.quantity import value
from berth.tools.kubernetes.kubelet.pressure.messages import eviction_message
from berth.tools.kubernetes.kubelet.pressure.thresholds import (
    MEMORY,
    NODEFS,
    NODEFS_INODES,
    Amount,
    Observation,
    Threshold,
)
from berth.tools.kubernetes.kubelet.usage_models import ContainerUsage, PodUsage
from tests.kit.documents import Document

from .objects import container, pod, resources, uses

LOW_ON_MEMORY = "The node was low on resource: memory. "


def with_memory(name: str, request: str, **more: str) -> Document:
    return {**container(name, resources(memory=request)), **more}


def sidecar(name: str, request: str) -> Document:
    return with_memory(name, request, restartPolicy="Always")


def used(amounts: dict[str, str]) -> PodUsage:
    return PodUsage(tuple(ContainerUsage(name, memory=value(a)) for name, a in amounts.items()))


@pytest.mark.parametrize(
    ("inits", "containers", "usage", "exceeding"),
    [
        (
            [with_memory("init", "100Mi"), sidecar("side", "200Mi")],
            [with_memory("main", "200Mi")],
            {"side": "150Mi", "main": "100Mi"},
            [],
        ),
        (
            [with_memory("init", "100Mi"), sidecar("side", "200Mi")],
            [with_memory("main", "200Mi")],
            {"init": "150Mi"},
            [("init", "150Mi", "100Mi")],
        ),
        (
            [sidecar("side", "200Mi"), sidecar("other", "200Mi")],
            [with_memory("main", "200Mi")],
            {"side": "250Mi", "other": "150Mi", "main": "200Mi"},
            [("side", "250Mi", "200Mi")],
        ),
        (
            [],
            [with_memory("main", "200Mi"), with_memory("second", "300Mi")],
            {"main": "250Mi", "second": "250Mi"},
            [("main", "250Mi", "200Mi")],
        ),
        (
            [],
            [with_memory("main", "200Mi")],
            {"main": "150Mi", "ephemeral": "250Mi"},
            [],
        ),
        (
            [sidecar("side", ""), sidecar("other", "300Mi")],
            [with_memory("main", "")],
            {"side": "250Mi", "other": "250Mi", "main": "200Mi"},
            [("side", "250Mi", "0"), ("main", "200Mi", "0")],
        ),
    ],
)
def test_containers_that_use_more_memory_than_they_request_are_named(
    inits: list[Document],
    containers: list[Document],
    usage: dict[str, str],
    exceeding: list[tuple[str, str, str]],
) -> None:
    victim = pod("p", initContainers=inits, containers=containers)
    message, annotations = eviction_message("memory", victim, used(usage), [], {})
    assert message == LOW_ON_MEMORY + "".join(
        f"Container {name} was using {amount}, request is {request}, "
        "has larger consumption of memory. "
        for name, amount, request in exceeding
    )
    assert annotations == {
        "offending_containers": ",".join(name for name, _, _ in exceeding),
        "offending_containers_usage": ",".join(amount for _, amount, _ in exceeding),
        "starved_resource": "memory",
    }


def test_a_pod_with_requests_of_its_own_is_named_too() -> None:
    own = {"requests": {"memory": "250Mi"}, "limits": {"memory": "1000Mi"}}
    containers = [with_memory("main", ""), with_memory("second", "")]
    victim = pod("p", resources=own, containers=containers)
    usage = used({"main": "250Mi", "second": "350Mi"})
    message, annotations = eviction_message("memory", victim, usage, [], {})
    assert message == (
        "The node was low on resource: memory. "
        "Pod p was using 600Mi, request is 250Mi, has larger consumption of memory. "
        "Container main was using 250Mi, request is 0, has larger consumption of memory. "
        "Container second was using 350Mi, request is 0, has larger consumption of memory. "
    )
    assert annotations["offending_pod"] == "p"
    assert annotations["offending_pod_usage"] == "600Mi"


@pytest.mark.parametrize(
    ("signal", "amount", "available", "capacity", "text"),
    [
        (MEMORY, Amount("1Gi"), 1500 << 20, 4 << 30, "quantity: 1Gi, available: 1500Mi. "),
        (NODEFS, Amount(share=0.5), 5 << 30, 16 << 30, "quantity: 8Gi, available: 5Gi. "),
        (NODEFS_INODES, Amount("2M"), 1_500_000, 4_000_000, "quantity: 2M, available: 1500k. "),
    ],
)
def test_the_message_gives_the_threshold_and_what_was_left(
    signal: str, amount: Amount, available: int, capacity: int, text: str
) -> None:
    threshold = Threshold(signal, amount)
    observations = {signal: Observation(available, capacity)}
    resource = {MEMORY: "memory", NODEFS: "ephemeral-storage", NODEFS_INODES: "inodes"}[signal]
    message, _ = eviction_message(resource, pod("p"), None, [threshold], observations)
    assert message == f"The node was low on resource: {resource}. Threshold {text}"


def test_disk_usage_of_a_container_is_its_layer_and_its_logs() -> None:
    victim = pod("p", requests=resources(disk="1Gi"))
    usage = uses("p", rootfs="900Mi", logs="200Mi", volume="9Gi")
    message, annotations = eviction_message("ephemeral-storage", victim, usage, [], {})
    assert "Container p was using 1100Mi, request is 1Gi, has larger consumption of eph" in message
    assert annotations["offending_containers_usage"] == "1100Mi"
    assert "Container" not in eviction_message("pids", victim, usage, [], {})[0]

"""The order in which pods are evicted. The cases are those of the kubelet."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.kubelet.pressure.eviction_ranking import (
    Layout,
    eviction_order,
    is_critical,
)
from berth.tools.kubernetes.kubelet.pressure.thresholds import (
    ALLOCATABLE_MEMORY,
    CONTAINERFS,
    IMAGEFS,
    MEMORY,
    NODEFS,
    NODEFS_INODES,
    PIDS,
)
from berth.tools.kubernetes.kubelet.usage_models import PodUsage
from berth.tools.kubernetes.objects.structs import Pod

from .objects import HIGH, LOW, NODE_CRITICAL, NORMAL, SYSTEM_CRITICAL, pod, resources, uses


def order(
    signal: str, pods: list[tuple[Pod, PodUsage]], layout: Layout = Layout.SHARED
) -> list[str]:
    """Returns the names of the pods as they are evicted; they come in the reverse order."""
    stats = {p.metadata.uid: usage for p, usage in pods}
    last_first = [p for p, _ in reversed(pods)]
    return [p.metadata.name for p in eviction_order(signal, last_first, stats, layout)]


def with_memory(name: str, priority: int, request: str, used: str) -> tuple[Pod, PodUsage]:
    return pod(name, priority, resources(memory=request)), uses(name, memory=used)


def with_disk(
    name: str, priority: int, request: str, rootfs: str, logs: str, volume: str
) -> tuple[Pod, PodUsage]:
    usage = uses(name, rootfs=rootfs, logs=logs, volume=volume)
    return pod(name, priority, resources(disk=request)), usage


@pytest.mark.parametrize("signal", [MEMORY, ALLOCATABLE_MEMORY])
def test_memory_beyond_requests_comes_before_priority_and_usage(signal: str) -> None:
    pods = [
        with_memory("above-low-high", LOW, "", "500Mi"),
        with_memory("above-low-low", LOW, "", "50Mi"),
        with_memory("above-high-high", HIGH, "100Mi", "600Mi"),
        with_memory("above-high-low", HIGH, "100Mi", "150Mi"),
        with_memory("below-low-high", LOW, "1Gi", "800Mi"),
        with_memory("below-low-low", LOW, "1Gi", "200Mi"),
        with_memory("below-high-high", HIGH, "1Gi", "800Mi"),
        with_memory("below-high-low", HIGH, "1Gi", "200Mi"),
    ]
    assert order(signal, pods) == [p.metadata.name for p, _ in pods]


def test_of_equal_priority_the_largest_excess_of_memory_comes_first() -> None:
    pods = [
        with_memory("burstable-high", NORMAL, "100Mi", "800Mi"),
        with_memory("best-effort-high", NORMAL, "", "500Mi"),
        with_memory("best-effort-low", NORMAL, "", "300Mi"),
        with_memory("burstable-low", NORMAL, "100Mi", "300Mi"),
        with_memory("guaranteed-high", NORMAL, "1Gi", "800Mi"),
        with_memory("guaranteed-low", NORMAL, "1Gi", "200Mi"),
    ]
    assert order(MEMORY, pods) == [p.metadata.name for p, _ in pods]


@pytest.mark.parametrize("signal", [NODEFS, IMAGEFS, CONTAINERFS])
def test_disk_beyond_requests_comes_before_priority_and_usage(signal: str) -> None:
    pods = [
        with_disk("above-low-high", LOW, "", "200Mi", "100Mi", "200Mi"),
        with_disk("above-low-low", LOW, "", "10Mi", "10Mi", "30Mi"),
        with_disk("above-high-high", HIGH, "100Mi", "200Mi", "150Mi", "250Mi"),
        with_disk("above-high-low", HIGH, "100Mi", "90Mi", "50Mi", "10Mi"),
        with_disk("below-low-high", LOW, "1Gi", "500Mi", "200Mi", "100Mi"),
        with_disk("below-low-low", LOW, "1Gi", "50Mi", "100Mi", "50Mi"),
        with_disk("below-high-high", HIGH, "1Gi", "250Mi", "500Mi", "50Mi"),
        with_disk("below-high-low", HIGH, "1Gi", "100Mi", "60Mi", "40Mi"),
    ]
    assert order(signal, pods) == [p.metadata.name for p, _ in pods]


def test_of_equal_priority_the_largest_excess_of_disk_comes_first() -> None:
    pods = [
        with_disk("best-effort-high", NORMAL, "", "50Mi", "100Mi", "150Mi"),
        with_disk("burstable-high", NORMAL, "100Mi", "150Mi", "150Mi", "50Mi"),
        with_disk("best-effort-low", NORMAL, "", "25Mi", "25Mi", "50Mi"),
        with_disk("burstable-low", NORMAL, "100Mi", "25Mi", "35Mi", "50Mi"),
        with_disk("guaranteed-high", NORMAL, "400Mi", "225Mi", "100Mi", "50Mi"),
        with_disk("guaranteed-low", NORMAL, "400Mi", "25Mi", "45Mi", "50Mi"),
    ]
    assert order(NODEFS, pods) == [p.metadata.name for p, _ in pods]


@pytest.mark.parametrize(
    ("signal", "layout", "first"),
    [
        (NODEFS, Layout.DEDICATED, "logs"),
        (IMAGEFS, Layout.DEDICATED, "rootfs"),
        (CONTAINERFS, Layout.DEDICATED, "rootfs"),
        (NODEFS, Layout.SPLIT, "rootfs"),
        (CONTAINERFS, Layout.SPLIT, "rootfs"),
    ],
)
def test_only_what_is_on_the_file_system_counts(signal: str, layout: Layout, first: str) -> None:
    pods = [
        with_disk("rootfs", NORMAL, "", "900Mi", "0", "0"),
        with_disk("logs", NORMAL, "", "0", "300Mi", "400Mi"),
    ]
    assert order(signal, pods, layout)[0] == first


def test_inodes_rank_by_priority_and_number() -> None:
    pods = [
        (pod("low-high", LOW), uses("low-high", inodes=400_000)),
        (pod("low-low", LOW), uses("low-low", inodes=100_000)),
        (pod("high-high", HIGH), uses("high-high", inodes=350_000)),
        (pod("high-low", HIGH), uses("high-low", inodes=150_000)),
    ]
    assert order(NODEFS_INODES, pods) == [p.metadata.name for p, _ in pods]


def test_processes_rank_by_priority_and_number() -> None:
    pods = [
        (pod("low-high", LOW), uses("low-high", pids=20)),
        (pod("low-low", LOW), uses("low-low", pids=6)),
        (pod("high-high", HIGH), uses("high-high", pids=20)),
        (pod("high-low", HIGH), uses("high-low", pids=5)),
    ]
    assert order(PIDS, pods) == [p.metadata.name for p, _ in pods]


@pytest.mark.parametrize("signal", [MEMORY, NODEFS])
def test_pods_without_stats_come_first_by_priority(signal: str) -> None:
    pods = [pod("measured", LOW), pod("high", HIGH), pod("normal", NORMAL)]
    stats = {"measured": uses("measured", memory="1Gi", rootfs="1Gi")}
    names = [p.metadata.name for p in eviction_order(signal, pods, stats, Layout.SHARED)]
    assert names == ["normal", "high", "measured"]


@pytest.mark.parametrize(
    ("critical", "is_so"),
    [
        (pod("normal"), False),
        (pod("high", SYSTEM_CRITICAL - 1), False),
        (pod("cluster", SYSTEM_CRITICAL), True),
        (pod("node", NODE_CRITICAL), True),
        (pod("mirror", annotations={"kubernetes.io/config.mirror": "x"}), True),
        (pod("static", annotations={"kubernetes.io/config.source": "file"}), True),
        (pod("api", annotations={"kubernetes.io/config.source": "api"}), False),
    ],
)
def test_static_mirror_and_system_critical_pods_are_critical(critical: Pod, is_so: bool) -> None:
    assert is_critical(critical) is is_so

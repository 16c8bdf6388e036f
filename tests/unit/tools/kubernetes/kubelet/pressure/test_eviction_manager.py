"""The eviction manager, step by step. The histories are those of the kubelet's tests."""

from __future__ import annotations

import pytest

from berth.actors.scheduling.kube.quantity import value
from berth.tools.kubernetes.kubelet.pressure.eviction_manager import (
    CONTAINERS,
    IMAGES,
    EvictionStep,
    Manager,
)
from berth.tools.kubernetes.kubelet.pressure.eviction_ranking import Layout
from berth.tools.kubernetes.kubelet.pressure.kubelet_settings import Settings
from berth.tools.kubernetes.kubelet.pressure.thresholds import (
    ALLOCATABLE_MEMORY,
    CONTAINERFS,
    IMAGEFS,
    IMAGEFS_INODES,
    MEMORY,
    NODEFS,
    NODEFS_INODES,
    PIDS,
    Amount,
    Observation,
    Threshold,
)
from berth.tools.kubernetes.objects.structs import Pod

from .objects import HIGH, LOW, NODE_CRITICAL, NORMAL, pod, resources, uses

MINUTE = 60.0
# A guaranteed pod of low priority, burstable ones, and two of best effort; the last goes first.
PODS = [
    pod("guaranteed-low", LOW, resources("100m", "1Gi"), resources("100m", "1Gi")),
    pod("burstable-below", NORMAL, resources("100m", "100Mi"), resources("200m", "1Gi")),
    pod("burstable-above", NORMAL, resources("100m", "100Mi"), resources("200m", "1Gi")),
    pod("best-effort-high", HIGH),
    pod("best-effort-low", LOW),
]
NAMES = [p.metadata.uid for p in PODS]
AMOUNTS = dict(zip(NAMES, ("900Mi", "50Mi", "400Mi", "400Mi", "100Mi"), strict=True))
MEMORY_USED = {name: uses(name, memory=amount) for name, amount in AMOUNTS.items()}
DISK_USED = {name: uses(name, rootfs=amount) for name, amount in AMOUNTS.items()}
PIDS_USED = {name: uses(name, pids=number) for number, name in enumerate(NAMES)}
USED = {MEMORY: MEMORY_USED, ALLOCATABLE_MEMORY: MEMORY_USED, PIDS: PIDS_USED}


class History:
    """A manager, stepped with what is available for one signal."""

    def __init__(
        self,
        *thresholds: Threshold,
        layout: Layout = Layout.SHARED,
        pods: list[Pod] | None = None,
        isolates: bool = True,
    ) -> None:
        settings = Settings(thresholds, 5 * MINUTE, 5, isolates_storage=isolates)
        self.manager = Manager(settings, layout)
        self.signal = thresholds[0].signal
        self.pods = PODS if pods is None else pods
        self.now = 0.0

    def step(self, available: str, after: float = 0.0, reclaimed_to: str = "") -> EvictionStep:
        """Steps so many seconds later; reclaiming from the node leaves `reclaimed_to`."""
        self.now += after
        capacity = value("16Gi")
        left = {self.signal: Observation(value(available), capacity)}
        then = {self.signal: Observation(value(reclaimed_to or available), capacity)}
        stats = USED.get(self.signal, DISK_USED)
        return self.manager.step(self.pods, stats, left, lambda _: then, self.now)

    def conditions(self) -> list[str]:
        return list(self.manager.conditions)

    def rests(self) -> bool:
        return self.manager.is_resting


def evicted(step: EvictionStep) -> list[tuple[str, int]]:
    return [(eviction.pod.metadata.name, eviction.grace) for eviction in step.evictions]


def hard_and_soft(signal: str) -> tuple[Threshold, Threshold]:
    return Threshold(signal, Amount("1Gi")), Threshold(signal, Amount("2Gi"), 2 * MINUTE)


@pytest.mark.parametrize(
    ("signal", "condition", "victim"),
    [
        (MEMORY, "MemoryPressure", "best-effort-low"),
        (ALLOCATABLE_MEMORY, "MemoryPressure", "best-effort-low"),
        (NODEFS, "DiskPressure", "guaranteed-low"),
        (IMAGEFS, "DiskPressure", "guaranteed-low"),
        (NODEFS_INODES, "DiskPressure", "guaranteed-low"),
        (PIDS, "PIDPressure", "best-effort-low"),
    ],
)
def test_soft_thresholds_wait_hard_ones_do_not_and_pressure_outlasts_them(
    signal: str, condition: str, victim: str
) -> None:
    history = History(*hard_and_soft(signal))
    assert evicted(history.step("2Gi")) == []
    assert history.conditions() == []

    assert evicted(history.step("1500Mi", MINUTE)) == []
    assert history.conditions() == [condition]
    step = history.step("1500Mi", 3 * MINUTE)
    assert evicted(step) == [(victim, 5)]
    assert history.conditions() == [condition]

    assert evicted(history.step("3Gi", 20 * MINUTE)) == []
    assert history.conditions() == []

    assert evicted(history.step("500Mi", MINUTE)) == [(victim, 1)]
    assert history.conditions() == [condition]
    assert evicted(history.step("2Gi", MINUTE)) == []
    assert history.conditions() == [condition]
    assert history.manager.ends_at() == history.now + 4 * MINUTE
    assert evicted(history.step("2Gi", 5 * MINUTE)) == []
    assert history.conditions() == []


def test_the_grace_period_of_a_soft_eviction_is_that_of_the_pod_if_it_is_shorter() -> None:
    soft = Threshold(MEMORY, Amount("2Gi"), MINUTE)
    quick = pod("quick", LOW, terminationGracePeriodSeconds=2)
    history = History(soft, pods=[quick])
    history.step("1Gi")
    assert evicted(history.step("1Gi", MINUTE)) == [("quick", 2)]


def test_evictions_go_on_until_the_minimum_is_reclaimed() -> None:
    history = History(Threshold(MEMORY, Amount("1Gi"), min_reclaim=Amount("500Mi")))
    assert evicted(history.step("2Gi")) == []
    assert evicted(history.step("500Mi", MINUTE)) == [("best-effort-low", 1)]
    assert evicted(history.step("1.2Gi", MINUTE)) == [("best-effort-low", 1)]
    assert evicted(history.step("2Gi", MINUTE)) == []
    assert history.conditions() == ["MemoryPressure"]
    assert evicted(history.step("2Gi", 5 * MINUTE)) == []
    assert history.conditions() == []


ALL = (CONTAINERS, IMAGES)


@pytest.mark.parametrize(
    ("signal", "layout", "reclaimed"),
    [
        (NODEFS, Layout.SHARED, ALL),
        (IMAGEFS_INODES, Layout.SHARED, ALL),
        (IMAGEFS, Layout.DEDICATED, ALL),
        (NODEFS, Layout.SPLIT, (CONTAINERS,)),
        (IMAGEFS, Layout.SPLIT, (IMAGES,)),
    ],
)
def test_pods_are_spared_if_the_node_can_reclaim_enough(
    signal: str, layout: Layout, reclaimed: tuple[str, ...]
) -> None:
    history = History(Threshold(signal, Amount("1Gi"), min_reclaim=Amount("500Mi")), layout=layout)
    assert history.step("16Gi") == EvictionStep()
    step = history.step("750Mi", MINUTE, reclaimed_to="16Gi")
    assert (step.reclaimed, step.evictions) == (reclaimed, ())
    assert history.conditions() == ["DiskPressure"]
    history.step("16Gi", 20 * MINUTE)
    assert history.conditions() == []
    # more than the threshold, but not the minimum
    step = history.step("750Mi", MINUTE, reclaimed_to="1.1G")
    assert step.reclaimed == reclaimed
    assert len(step.evictions) == 1


def test_nodefs_has_nothing_to_reclaim_beside_a_dedicated_imagefs() -> None:
    history = History(*hard_and_soft(NODEFS), layout=Layout.DEDICATED)
    step = history.step("750Mi", reclaimed_to="16Gi")
    assert step.reclaimed == ()
    assert len(step.evictions) == 1


def test_containerfs_is_watched_with_the_thresholds_of_its_disk() -> None:
    history = History(*hard_and_soft(NODEFS), layout=Layout.SPLIT)
    history.signal = CONTAINERFS
    assert len(history.step("750Mi").evictions) == 1
    apart = History(*hard_and_soft(NODEFS), layout=Layout.DEDICATED)
    apart.signal = CONTAINERFS
    assert apart.step("750Mi") == EvictionStep()


def test_critical_pods_stay() -> None:
    static = pod("static", LOW, annotations={"kubernetes.io/config.source": "file"})
    critical = pod("critical", NODE_CRITICAL)
    history = History(Threshold(MEMORY, Amount("1Gi")), pods=[static, critical])
    step = history.step("500Mi")
    assert (step.starved, step.evictions) == ("memory", ())
    history.pods = [static, critical, PODS[0]]
    assert evicted(history.step("500Mi", MINUTE)) == [("guaranteed-low", 1)]


def test_all_pods_beyond_limits_of_their_own_go_at_once_and_before_any_other() -> None:
    limited = [
        pod(name, priority, limits=resources(disk="50Mi"))
        for name, priority in (("burstable-above", HIGH), ("best-effort-low", HIGH))
    ]
    history = History(Threshold(NODEFS, Amount("1Gi")), pods=[PODS[0], *limited])
    step = history.step("500Mi")
    assert evicted(step) == [("burstable-above", 1), ("best-effort-low", 1)]
    assert not any(eviction.under_pressure for eviction in step.evictions)
    history = History(Threshold(NODEFS, Amount("1Gi")), pods=limited, isolates=False)
    assert evicted(history.step("2Gi")) == []


def test_an_eviction_says_why() -> None:
    (eviction,) = History(*hard_and_soft(MEMORY)).step("500Mi").evictions
    assert eviction.under_pressure
    assert eviction.message == (
        "The node was low on resource: memory. Threshold quantity: 1Gi, available: 500Mi. "
        "Container best-effort-low was using 100Mi, request is 0, "
        "has larger consumption of memory. "
    )


def test_a_manager_rests_unless_a_threshold_is_met() -> None:
    history = History(*hard_and_soft(MEMORY))
    assert history.rests()
    history.step("1500Mi")
    assert not history.rests()
    history.step("3Gi", MINUTE)
    assert history.rests()
    assert not history.manager.is_calm({MEMORY: Observation(value("1900Mi"), value("16Gi"))})
    assert history.manager.is_calm({MEMORY: Observation(value("2Gi"), value("16Gi"))})

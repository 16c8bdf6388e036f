"""Thresholds: how they are read, and when they are met. The cases are those of the kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.kubelet.pressure.thresholds import (
    ALLOCATABLE_MEMORY,
    CONTAINERFS,
    CONTAINERFS_INODES,
    IMAGEFS,
    IMAGEFS_INODES,
    MEMORY,
    NODEFS,
    NODEFS_INODES,
    PIDS,
    Amount,
    Observation,
    Threshold,
    ThresholdError,
    by_priority,
    conditions_of,
    first_observed,
    parse_thresholds,
    past_grace,
    thresholds_met,
    union_of_thresholds,
    with_allocatable,
    with_containerfs,
)

Mi, Gi = 1 << 20, 1 << 30
Texts = dict[str, str]


def parsed(
    hard: Texts | None = None,
    soft: Texts | None = None,
    grace: Texts | None = None,
    reclaim: Texts | None = None,
) -> list[Threshold]:
    return parse_thresholds(hard or {}, soft or {}, grace or {}, reclaim or {})


def share(percentage: float) -> Any:
    return pytest.approx(percentage / 100, rel=1e-6)


def test_no_values_give_no_thresholds() -> None:
    assert parsed() == []


def test_hard_thresholds_come_first_and_those_of_memory_hold_for_pods_too() -> None:
    thresholds = parsed({MEMORY: "150Mi"}, {MEMORY: "300Mi"}, {MEMORY: "30s"}, {MEMORY: "0"})
    none = Amount("0")
    assert with_allocatable(thresholds) == [
        Threshold(MEMORY, Amount("150Mi"), 0, none),
        Threshold(MEMORY, Amount("300Mi"), 30, none),
        Threshold(ALLOCATABLE_MEMORY, Amount("150Mi"), 0, none),
    ]


@pytest.mark.parametrize(
    ("available", "inodes"),
    [(IMAGEFS, NODEFS), (IMAGEFS_INODES, NODEFS_INODES)],
)
def test_each_signal_has_its_own_threshold_grace_and_reclaim(available: str, inodes: str) -> None:
    assert parsed(
        {available: "150Mi", inodes: "100Mi"},
        {available: "300Mi", inodes: "200Mi"},
        {available: "30s", inodes: "1m"},
        {available: "2Gi", inodes: "1Gi"},
    ) == [
        Threshold(available, Amount("150Mi"), 0, Amount("2Gi")),
        Threshold(inodes, Amount("100Mi"), 0, Amount("1Gi")),
        Threshold(available, Amount("300Mi"), 30, Amount("2Gi")),
        Threshold(inodes, Amount("200Mi"), 60, Amount("1Gi")),
    ]


def test_percentages_are_shares_of_the_capacity() -> None:
    hard, soft = parsed({NODEFS: "10.5%"}, {NODEFS: "20.5%"}, {NODEFS: "30s"}, {NODEFS: "5%"})
    assert (hard.value.share, soft.value.share) == (share(10.5), share(20.5))
    assert hard.min_reclaim is not None
    assert hard.min_reclaim.share == share(5)
    # 10% is not exact in the 32 bits that the kubelet has for it.
    (tenth,) = parsed({NODEFS: "10%"})
    assert tenth.value.of(100 * Gi) == 10737418400
    assert tenth.value.text(100 * Gi) == "10737418400"


@pytest.mark.parametrize("text", ["0%", "100%"])
def test_a_threshold_is_disabled_by_0_and_by_100_percent(text: str) -> None:
    assert parsed({MEMORY: text}, {MEMORY: text}) == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"hard": {"mem.available": "150Mi"}}, "evictionHard[mem.available]: expected a signal"),
        ({"hard": {MEMORY: "-150Mi"}}, "evictionHard[memory.available]: expected a quantity above"),
        ({"hard": {MEMORY: "-15%"}}, "expected a percentage from 0% to 100%, got '-15%'"),
        ({"hard": {MEMORY: "150%"}}, "expected a percentage from 0% to 100%, got '150%'"),
        ({"hard": {MEMORY: ""}}, "evictionHard[memory.available]: expected a quantity such as"),
        ({"hard": {MEMORY: "10..5%"}}, "expected a percentage such as 10%, got '10..5%'"),
        ({"hard": {MEMORY: "1Gi", "invalid.foo": "1Gi"}}, "evictionHard[invalid.foo]"),
        ({"soft": {MEMORY: "-150Mi"}, "grace": {MEMORY: "1s"}}, "evictionSoft[memory.available]"),
        (
            {"soft": {MEMORY: "150Mi"}},
            "evictionSoftGracePeriod[memory.available]: expected a grace",
        ),
        (
            {"soft": {MEMORY: "150Mi"}, "grace": {MEMORY: "-30s"}},
            "evictionSoftGracePeriod[memory.available]: expected a duration of at least 0",
        ),
        (
            {"soft": {MEMORY: "150Mi"}, "grace": {"mem.available": "30s"}},
            "evictionSoftGracePeriod[mem.available]: expected a signal",
        ),
        (
            {"soft": {MEMORY: "150Mi"}, "grace": {MEMORY: "30mins"}},
            "evictionSoftGracePeriod[memory.available]: expected a duration such as",
        ),
        ({"reclaim": {MEMORY: "-300Mi"}}, "evictionMinimumReclaim[memory.available]: expected a"),
        ({"reclaim": {"mem.available": "300Mi"}}, "evictionMinimumReclaim[mem.available]"),
        ({"reclaim": {MEMORY: ""}}, "evictionMinimumReclaim[memory.available]"),
        ({"reclaim": {MEMORY: "-15%"}}, "expected a percentage above 0%"),
        ({"reclaim": {MEMORY: "10..5%"}}, "expected a percentage such as 10%"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Texts], problem: str) -> None:
    with pytest.raises(ThresholdError) as raised:
        parsed(**fields)
    assert problem in str(raised.value)


def test_a_soft_threshold_of_memory_is_not_one_of_the_pods_memory() -> None:
    soft = Threshold(MEMORY, Amount("1Gi"), 30.0)
    assert with_allocatable([soft]) == [soft]
    assert with_allocatable([Threshold(NODEFS, Amount("1Gi"))]) == [
        Threshold(NODEFS, Amount("1Gi"))
    ]


@pytest.mark.parametrize(("on_imagefs", "source"), [(False, "nodefs"), (True, "imagefs")])
def test_containerfs_has_the_thresholds_of_the_disk_that_holds_containers(
    on_imagefs: bool, source: str
) -> None:
    amounts = {NODEFS: "1Gi", NODEFS_INODES: "10%", IMAGEFS: "2Gi", IMAGEFS_INODES: "20%"}
    thresholds = parsed({**amounts, CONTAINERFS: "9Gi"}, {NODEFS: "3Gi"}, {NODEFS: "1m"})
    soft = [] if on_imagefs else [Threshold(CONTAINERFS, Amount("3Gi"), 60.0)]
    read = with_containerfs(thresholds, containers_on_imagefs=on_imagefs)
    added = [t for t in read if t.signal in (CONTAINERFS, CONTAINERFS_INODES)]
    by_signal = {t.signal: t.value for t in thresholds if t.is_hard}
    expected = [
        Threshold(CONTAINERFS, by_signal[f"{source}.available"]),
        Threshold(CONTAINERFS_INODES, by_signal[f"{source}.inodesFree"]),
    ]
    assert added == [*expected, *soft]


HARD = Threshold(MEMORY, Amount("1Gi"), min_reclaim=Amount("500Mi"))
TENTH = Threshold(MEMORY, Amount(share=0.1), min_reclaim=Amount(share=0.05))


@pytest.mark.parametrize(
    ("threshold", "available", "met", "met_with_reclaim"),
    [
        (HARD, 500 * Mi, True, True),
        (HARD, Gi - 1, True, True),
        (HARD, Gi, False, True),
        (HARD, Gi + 500 * Mi - 1, False, True),
        (HARD, Gi + 500 * Mi, False, False),
        (HARD, 2 * Gi, False, False),
        (TENTH, Gi - 1, True, True),
        (TENTH, Gi, False, True),
        (TENTH, Gi + Gi // 2, False, False),
    ],
)
def test_a_threshold_is_met_below_its_value_and_until_the_minimum_is_reclaimed(
    threshold: Threshold, available: int, met: bool, met_with_reclaim: bool
) -> None:
    observations = {MEMORY: Observation(available, 10 * Gi)}

    def is_met(enforce: bool) -> bool:
        return thresholds_met([threshold], observations, enforce_min_reclaim=enforce) != []

    assert (is_met(False), is_met(True)) == (met, met_with_reclaim)
    assert thresholds_met([threshold], {}, enforce_min_reclaim=True) == []


def test_a_threshold_counts_from_when_it_was_first_met_without_a_break() -> None:
    soft = Threshold(IMAGEFS, Amount("1Gi"), 60.0)
    first = first_observed([HARD, soft], {}, 100.0)
    assert first == {HARD: 100.0, soft: 100.0}
    assert past_grace(first, 100.0) == [HARD]
    assert past_grace(first, 159.0) == [HARD]
    assert past_grace(first, 160.0) == [HARD, soft]
    assert first_observed([soft], first, 130.0) == {soft: 100.0}
    assert first_observed([soft], first_observed([], first, 130.0), 140.0) == {soft: 140.0}


def test_lists_are_merged_without_duplicates() -> None:
    soft = Threshold(MEMORY, Amount("1Gi"), 60.0)
    again = Threshold(MEMORY, Amount("1Gi"))
    assert union_of_thresholds([HARD], [soft, again]) == [HARD, soft]


@pytest.mark.parametrize(
    ("signals", "conditions"),
    [
        ([], []),
        ([MEMORY, ALLOCATABLE_MEMORY], ["MemoryPressure"]),
        ([NODEFS, IMAGEFS_INODES, CONTAINERFS], ["DiskPressure"]),
        ([MEMORY, PIDS, NODEFS], ["MemoryPressure", "PIDPressure", "DiskPressure"]),
    ],
)
def test_each_signal_means_a_condition(signals: list[str], conditions: list[str]) -> None:
    assert conditions_of(Threshold(signal, Amount("1")) for signal in signals) == conditions


@pytest.mark.parametrize("memory", [MEMORY, ALLOCATABLE_MEMORY])
def test_memory_is_reclaimed_first(memory: str) -> None:
    thresholds = [Threshold(signal, Amount("1")) for signal in (NODEFS, PIDS, memory)]
    assert [t.signal for t in by_priority(thresholds)] == [memory, NODEFS, PIDS]

"""How a roll-out and a change of the scale move the sizes of ReplicaSets."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.objects.structs import Document
from berth.tools.kubernetes.objects.writes import Patch
from berth.tools.kubernetes.workloads.deployment.sizes import Limits, limits

from .deployments import DESIRED, MOST, decided, deployment_of, noted, replica_set, sizes


@pytest.mark.parametrize(
    ("rolling", "surge", "unavailable"),
    [
        ({}, 3, 2),
        ({"maxSurge": 0, "maxUnavailable": 0}, 0, 1),
        ({"maxSurge": 2, "maxUnavailable": 0}, 2, 0),
        ({"maxSurge": 0, "maxUnavailable": 99}, 0, 10),
    ],
)
def test_the_limits_of_a_roll_out(rolling: Document, surge: int, unavailable: int) -> None:
    owner = deployment_of(10, strategy={"rollingUpdate": rolling})
    assert limits(owner) == Limits(surge, unavailable)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((4, 4), (1, 0), {"old": 3}),
        ((3, 3), (1, 0), {"new": 2}),
        ((3, 3), (2, 0), {}),
        ((3, 3), (2, 2), {"old": 1}),
        ((4, 2), (1, 0), {"old": 3}),
        ((0, 0), (4, 4), {}),
        ((4, 4), (0, 0), {"new": 1}),
        ((0, 0), (6, 6), {"new": 4}),
    ],
)
def test_a_roll_out_moves_replicas_step_by_step(
    old: tuple[int, int], new: tuple[int, int], expected: dict[str, int]
) -> None:
    sets = [replica_set("old", *old), replica_set("new", *new)]
    assert sizes(decided(deployment_of(4, surge=1), *sets)) == expected


def test_a_paused_roll_out_does_not_continue() -> None:
    paused = deployment_of(4, surge=1, paused=True)
    sets = [replica_set("old", 3), replica_set("new", 2)]
    assert sizes(decided(paused, *sets)) == {"old": 3, "new": 2}


@pytest.mark.parametrize(
    ("size", "before", "have", "expected"),
    [
        (12, 10, {"new": 10}, {"new": 12}),
        (5, 10, {"new": 10}, {"new": 5}),
        (10, 5, {"b": 3, "new": 2}, {"b": 6, "new": 4}),
        (3, 5, {"b": 3, "new": 2}, {"b": 2, "new": 1}),
        (4, 9, {"b": 1, "new": 8}, {"b": 0, "new": 4}),
        (10, 7, {"a": 2, "b": 3, "new": 2}, {"a": 3, "b": 4, "new": 3}),
        (8, 13, {"a": 3, "b": 8, "new": 2}, {"a": 2, "b": 5, "new": 1}),
        (4, 3, {"a": 1, "b": 1, "new": 1}, {"new": 2}),
        (2, 3, {"a": 1, "b": 1, "new": 1}, {"a": 0}),
        (5, 4, {"a": 2, "b": 2}, {"b": 3}),
        (0, 6, {"a": 1, "b": 2, "new": 3}, {"a": 0, "b": 0, "new": 0}),
        (14, 10, {"a": 3, "b": 7}, {"a": 4, "b": 10}),
    ],
)
def test_replica_sets_are_scaled_in_proportion(
    size: int, before: int, have: dict[str, int], expected: dict[str, int]
) -> None:
    sized = {DESIRED: str(before), MOST: str(before)}
    sets = [replica_set(name, count, annotations=sized) for name, count in have.items()]
    writes = decided(deployment_of(size), *sets)
    changed = {name: count for name, count in sizes(writes).items() if count != have[name]}
    assert changed == expected
    for name in have:
        assert noted(writes, name)[DESIRED] == noted(writes, name)[MOST] == str(size)


@pytest.mark.parametrize(
    ("size", "surge", "most", "have", "expected"),
    [
        (20, 2, 12, {"old": 6, "new": 6}, {"old": 11, "new": 11}),
        (50, 6, 13, {"old": 8, "new": 5}, {"old": 34, "new": 22}),
    ],
)
def test_the_surge_is_shared_too(
    size: int, surge: int, most: int, have: dict[str, int], expected: dict[str, int]
) -> None:
    sized = {DESIRED: "10", MOST: str(most)}
    sets = [replica_set(name, count, annotations=sized) for name, count in have.items()]
    assert sizes(decided(deployment_of(size, surge=surge), *sets)) == expected


@pytest.mark.parametrize("text", ["x", "-3", "1_0", "", "99999999999"])
def test_an_annotation_that_is_no_size_is_ignored(text: str) -> None:
    sets = [replica_set("old", 3, annotations={DESIRED: text}), replica_set("new", 1)]
    assert sizes(decided(deployment_of(3, surge=1), *sets)) == {"old": 1}
    sized = {DESIRED: "3", MOST: text}
    sets = [replica_set(name, 2, annotations=sized) for name in ("old", "new")]
    four = deployment_of(6, status={"replicas": 4})
    assert sizes(decided(four, *sets)) == {"old": 3, "new": 3}


def test_old_replicas_go_once_the_new_replica_set_is_saturated() -> None:
    sized = {DESIRED: "4", MOST: "4"}
    sets = [replica_set("old", 1), replica_set("new", 4, annotations=sized)]
    assert sizes(decided(deployment_of(4, paused=True), *sets)) == {"old": 0}
    sets[1] = replica_set("new", 4, available=3, annotations=sized)
    assert sizes(decided(deployment_of(4, paused=True), *sets)) == {"new": 3, "old": 1}


def test_unavailable_pods_that_go_first_are_told_apart() -> None:
    strategy = {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    old, new = replica_set("a", 10, available=9), replica_set("new", 3, available=0)
    writes = decided(deployment_of(10, strategy=strategy), old, new)
    (write,) = [each for each in writes if isinstance(each, Patch) and each.name == "a"]
    assert sizes(writes) == {"a": 8}
    assert [notice.message for notice in write.notices] == [
        "Scaled down replica set a from 10 to 9",
        "Scaled down replica set a from 9 to 8",
    ]

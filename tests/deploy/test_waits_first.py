"""The order of the tests for several workers: those that wait begin at once, in different ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.waits_first import REASON, WaitsFirst


def item(name: str, *reason: str) -> Any:
    mark = SimpleNamespace(args=reason) if reason else None
    return SimpleNamespace(name=name, get_closest_marker=lambda _: mark)


def shares(items: list[Any], workers: int) -> list[list[str]]:
    """Returns the names of the items that each worker of `--dist worksteal` begins with."""
    pending, given = [each.name for each in items], []
    for worker in range(workers):
        number = len(pending) // (workers - worker)
        given.append(pending[:number])
        del pending[:number]
    return given


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("number", [7, 20, 22, 101])
def test_tests_that_wait_begin_the_shares_of_different_workers(workers: int, number: int) -> None:
    items = [item(f"a{n}") for n in range(number - 3)]
    items += [item("w0", REASON), item("b", "long"), item("w1", REASON)]
    config: Any = SimpleNamespace(workerinput={"workercount": workers})
    expected = [each.name for each in items if each.name[0] != "w"]
    WaitsFirst().pytest_collection_modifyitems(config, items)
    first = [share[0] for share in shares(items, workers)]
    assert first[:2] == ["w0", "w1"][:workers]
    assert [each.name for each in items if each.name[0] != "w"] == expected
    assert len(items) == number


def test_without_workers_the_tests_that_wait_are_the_first() -> None:
    items = [item("a"), item("w", REASON)]
    config: Any = SimpleNamespace()
    WaitsFirst().pytest_collection_modifyitems(config, items)
    assert [each.name for each in items] == ["w", "a"]

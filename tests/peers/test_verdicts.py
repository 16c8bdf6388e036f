"""What came of a suite is held against the list."""

from __future__ import annotations

from tests.peers.runs import Outcome
from tests.peers.suites import SUITES, Suite
from tests.peers.verdicts import documented, explained, faults, names

SUITE = Suite(
    "shop",
    "somebody/shop",
    ["tests"],
    4,
    [],
    not_passed={"it needs a mill": ["test_flour"]},
    not_run={"it waits for an hour": ["test_dough"]},
)


def _came(**outcomes: str) -> dict[str, Outcome]:
    told = [Outcome(f"tests/t.py::{name}", outcome, "oh") for name, outcome in outcomes.items()]
    return {each.test: each for each in told}


def test_a_run_as_listed_has_no_faults() -> None:
    outcomes = _came(test_bread="passed", test_rolls="passed", test_flour="failed")
    assert faults(SUITE, outcomes) == []
    assert list(explained(SUITE, outcomes)) == [
        "tests/t.py::test_flour: it needs a mill",
        "test_dough, not run: it waits for an hour",
    ]


def test_a_test_that_fails_without_a_reason_is_a_fault() -> None:
    outcomes = _came(test_bread="failed", test_rolls="passed", test_flour="skipped")
    assert faults(SUITE, outcomes) == ["tests/t.py::test_bread failed: oh"]


def test_a_listed_test_that_passes_is_a_fault() -> None:
    outcomes = _came(test_bread="passed", test_rolls="passed", test_flour="passed")
    assert faults(SUITE, outcomes) == ["test_flour passes, though it is listed as not passed"]


def test_another_number_of_tests_is_a_fault() -> None:
    assert faults(SUITE, _came(test_bread="passed")) == [
        "test_flour is listed, and did not run",
        "2 tests, and 4 are listed",
    ]


def test_a_name_stands_for_all_parameters_or_for_one() -> None:
    assert names("t.py::T::test_bread[white-a::b]", "test_bread")
    assert names("t.py::test_bread[white]", "test_bread[white]")
    assert not names("t.py::test_bread[brown]", "test_bread[white]")
    assert not names("t.py::test_bread_and_rolls", "test_bread")


def test_the_documented_table_counts_the_reasons() -> None:
    assert documented([SUITE]).splitlines()[-1] == (
        "| shop | [somebody/shop](https://github.com/somebody/shop) | 4 | 2 "
        "| it needs a mill (1); it waits for an hour (1) |"
    )


def test_each_suite_is_listed_once() -> None:
    assert len({suite.name for suite in SUITES}) == len(SUITES)

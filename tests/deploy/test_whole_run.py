"""The check after a run of all integration tests: it judges the rights that were never used, and
keeps silent after a run of some tests.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.whole_run import INTEGRATION, OUTPUT, WholeRun


def session(*paths: Any, failed: int = 0, worker: bool = False, args: Any = ("tests",)) -> Any:
    """Returns a session that ran the tests of these modules."""
    config = SimpleNamespace(args=args, **({"workeroutput": {}} if worker else {}))
    items = [SimpleNamespace(path=path) for path in paths]
    return SimpleNamespace(items=items, testsfailed=failed, config=config, exitstatus=0)


EVERY = sorted(INTEGRATION.glob("test_*.py"))


def node(*unused: str) -> Any:
    return SimpleNamespace(workeroutput={OUTPUT: list(unused)})


def test_a_right_that_no_worker_used_fails_the_run() -> None:
    run, ended = WholeRun(), session()
    run.pytest_testnodedown(node("a", "b"))
    run.pytest_testnodedown(node("b", "c"))
    run.pytest_sessionfinish(ended)
    assert (run.unused, ended.exitstatus) == (["b"], pytest.ExitCode.TESTS_FAILED)


def test_a_run_in_which_each_right_was_used_passes() -> None:
    run, ended = WholeRun(), session()
    run.pytest_testnodedown(node("a"))
    run.pytest_testnodedown(node("b"))
    run.pytest_sessionfinish(ended)
    assert (run.unused, ended.exitstatus) == ([], 0)


def test_a_run_with_a_worker_that_died_is_not_judged() -> None:
    run, ended = WholeRun(), session()
    run.pytest_testnodedown(node("a"))
    run.pytest_testnodedown(SimpleNamespace())
    run.pytest_sessionfinish(ended)
    assert (run.unused, ended.exitstatus) == (None, 0)


@pytest.mark.parametrize(
    "ended",
    [
        session(*EVERY[1:]),
        session(*EVERY, failed=1),
        session(*EVERY, args=("tests/integration/test_daemon.py::test_x",)),
    ],
    ids=["a module is missing", "a test failed", "chosen tests"],
)
def test_a_run_of_some_tests_is_not_judged(ended: Any) -> None:
    run = WholeRun()
    run.pytest_sessionfinish(ended)
    assert (run.unused, ended.exitstatus) == (None, 0)


def test_a_run_without_some_of_the_tests_is_not_judged() -> None:
    run = WholeRun()
    run.pytest_deselected()
    run.pytest_sessionfinish(session(*EVERY))
    assert run.unused is None


def test_a_worker_reports_and_judges_nothing() -> None:
    run, ended = WholeRun(), session(*EVERY, worker=True)
    run.pytest_sessionfinish(ended)
    assert isinstance(ended.config.workeroutput[OUTPUT], list)
    assert run.unused is None

"""The lines of the states: measured while their own tests run, and at no other time."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.measured import MEASURED, ROOMS, Measured
from tests.kit.processes import ROOT


class Controller:
    """Measures or not, as that of pytest-cov."""

    def __init__(self) -> None:
        self.started = True

    def pause(self) -> None:
        self.started = False

    def resume(self) -> None:
        assert not self.started
        self.started = True


def measures(coverage: Any, measured: Measured, nodeid: str) -> bool:
    """Returns whether it measures while this test runs; before and after, it does not."""
    assert not coverage.cov_controller.started
    run = measured.pytest_runtest_protocol(SimpleNamespace(nodeid=nodeid))  # type: ignore[arg-type]
    next(run)
    during: bool = coverage.cov_controller.started
    with pytest.raises(StopIteration):
        run.send(None)
    assert not coverage.cov_controller.started
    return during


def test_the_tests_of_a_state_are_measured_and_no_others() -> None:
    coverage = SimpleNamespace(cov_controller=Controller())
    measured = Measured(coverage)
    assert measures(coverage, measured, "tests/unit/actors/queue/test_state.py::test_x")
    assert measures(coverage, measured, "tests/properties/test_queue.py::TestQueue::runTest")
    assert not measures(coverage, measured, "tests/properties/test_reuse.py::TestReuse::runTest")
    assert not measures(coverage, measured, "tests/unit/actors/client/test_tls.py::test_x")


def test_a_worker_begins_with_its_session_and_pauses_before_it_collects() -> None:
    coverage = SimpleNamespace(cov_controller=Controller())
    measured = Measured(coverage)
    coverage.cov_controller = Controller()
    next(measured.pytest_collection())
    assert not coverage.cov_controller.started


@pytest.mark.full("only the full tier measures")
def test_no_other_test_is_slowed_down(pytestconfig: pytest.Config) -> None:
    """A worker begins two measurements, of which the first outlives the pause of the second."""
    if not pytestconfig.pluginmanager.hasplugin("_cov"):
        pytest.skip("nothing is measured without --cov")
    assert sys.gettrace() is None


def test_every_state_has_tests_that_are_measured() -> None:
    assert "queue" in ROOMS
    tests = [str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/test_*.py")]
    for room in ROOMS:
        own = tuple(prefix.removesuffix("::") for prefix in MEASURED if f"{room}" in prefix)
        assert any(test.startswith(own) for test in tests), room

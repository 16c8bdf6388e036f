"""Measures which lines of the states their own tests reach, when pytest runs with `--cov`.

These are the unit tests and the property tests of each folder of actors/ that has a state.py. The
others run unmeasured in the same run: on Python 3.11, measuring makes a test twice as slow.
"""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module
from typing import Any

import pytest

from tests.kit.processes import ROOT

ROOMS = sorted(state.parent.name for state in ROOT.glob("actors/*/state.py"))
MEASURED = tuple(f"tests/unit/actors/{room}/" for room in ROOMS) + tuple(
    f"tests/properties/test_{room}.py::" for room in ROOMS
)


class Measured:
    """A plugin of pytest. `coverage` is the plugin of pytest-cov, which has begun to measure, and
    begins once more with the session of a worker of pytest-xdist. A worker's first measurement is
    of no use, but goes on unless it is paused as well.
    """

    def __init__(self, coverage: Any) -> None:
        for room in ROOMS:  # their definitions are lines too
            import_module(f"berth.actors.{room}.state")
        self._coverage = coverage
        self._pause()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        self._pause()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if not item.nodeid.startswith(MEASURED):
            return (yield)
        self._coverage.cov_controller.resume()
        try:
            return (yield)
        finally:
            self._pause()

    def _pause(self) -> None:
        self._coverage.cov_controller.pause()

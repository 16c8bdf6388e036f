"""Fails a run of all integration tests if one of the shipped rights was never used.

Each process of pytest-xdist reports the rights that its tests used, and the process that runs the
workers unites them. Without pytest-xdist, there is one process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.processes import ROOT
from tests.kit.rights import RIGHTS

INTEGRATION = ROOT / "tests/integration"
OUTPUT = "unused rights"


class WholeRun:
    """A plugin of pytest. `unused` has the unused rights; it is None after a run of some tests."""

    def __init__(self) -> None:
        self._deselected = False
        self._unused: list[set[str] | None] = []
        self.unused: list[str] | None = None

    def pytest_deselected(self) -> None:
        self._deselected = True

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        unused = getattr(node, "workeroutput", {}).get(OUTPUT)
        self._unused.append(None if unused is None else set(unused))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._unused:  # no workers
            self._unused.append(self._of_these_tests(session))
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            (unused,) = self._unused
            output[OUTPUT] = None if unused is None else sorted(unused)
            return
        if session.testsfailed or not all(unused is not None for unused in self._unused):
            return
        everywhere = (unused for unused in self._unused if unused is not None)
        self.unused = sorted(set.intersection(*everywhere))
        if self.unused:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for right in self.unused or ():
            terminalreporter.write_line(
                f"FAILED config/deploy grants a right that no integration test uses: {right}",
                red=True,
            )

    def _of_these_tests(self, session: pytest.Session) -> set[str] | None:
        """Returns the rights that these tests did not use; None if they are not all of them."""
        modules: set[Path] = {item.path for item in session.items}
        whole = modules.issuperset(INTEGRATION.glob("test_*.py"))
        if not whole or self._deselected or any("::" in each for each in session.config.args):
            return None
        rights = {f"{right.role}: {right.verb} {right.resource}" for right in RIGHTS.unused()}
        return rights | {f"{role}: anything" for role in RIGHTS.unused_roles()}

"""Says in the last line of a run which tests it left out and why: those of the full tier, and those
that were skipped, for instance because a program is not installed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence

import pytest

OUTPUT = "left out"
REASON = "processes"  # of a test that is marked `full` without a reason


def listed(reasons: Counter[str]) -> str:
    return f"{reasons.total()} ({', '.join(f'{why}: {n}' for why, n in reasons.most_common())})"


class LeftOut:
    """A plugin of pytest. Each worker of pytest-xdist collects and deselects all tests, so that the
    report of any of them is the whole.
    """

    def __init__(self) -> None:
        self._full: Counter[str] = Counter()

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        marks = (item.get_closest_marker("full") for item in items)
        self._full.update(mark.args[0] if mark.args else REASON for mark in marks if mark)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self._full = Counter(getattr(node, "workeroutput", {}).get(OUTPUT)) or self._full

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[OUTPUT] = dict(self._full)
        yield
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if output is not None or reporter is None:
            return
        skipped = (report.longrepr[2] for report in reporter.stats.get("skipped", ()))
        reasons = Counter(str(why).removeprefix("Skipped: ") for why in skipped)
        lines = []
        if self._full:
            lines.append(f"`test --all` runs {listed(self._full)} more")
        if reasons:
            lines.append(f"skipped: {listed(reasons)}")
        if lines:
            reporter.write_line("; ".join(lines))

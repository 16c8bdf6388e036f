"""Begins the tests that wait for time to pass at once, in several workers of pytest-xdist, so
that other workers have the processors meanwhile.
"""

from __future__ import annotations

from itertools import islice

import pytest

REASON = "waits"


class WaitsFirst:
    """A plugin of pytest. It puts the tests that are marked `full("waits")` where the shares begin
    that `--dist worksteal` gives its workers.
    """

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        workers = getattr(config, "workerinput", {}).get("workercount", 1)
        marks = [(item, item.get_closest_marker("full")) for item in items]
        waiting = [item for item, mark in marks if mark and mark.args == (REASON,)]
        others = iter([item for item, mark in marks if not mark or mark.args != (REASON,)])
        ordered: list[pytest.Item] = []
        for worker in range(workers):
            share = (len(items) - len(ordered)) // (workers - worker)
            first = waiting[worker::workers]
            ordered += [*first, *islice(others, max(0, share - len(first)))]
        items[:] = [*ordered, *others]

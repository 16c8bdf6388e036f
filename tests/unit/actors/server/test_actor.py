"""The pages that feature gates leave out."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.server.actor import PageSources, pages
from berth.actors.server.health import Health
from berth.actors.telemetry.measures import Registry
from berth.config.feature_gates import DEFAULTS
from berth.config.options import Options
from tests.kit.clock import VirtualClock

ELSEWHERE: Any = None  # No page is shown.


@pytest.mark.parametrize(
    ("gate", "page"), [("ComponentFlagz", "/flagz"), ("ComponentStatusz", "/statusz")]
)
def test_pages_with_a_feature_gate(gate: str, page: str) -> None:
    debug: Any = None
    shown = PageSources(Health({}), {}, dict, debug, Registry())
    on, off = (
        pages(shown, Options(feature_gates={**DEFAULTS, gate: value}), VirtualClock(), ELSEWHERE)
        for value in (True, False)
    )
    assert on.keys() - off.keys() == {page}

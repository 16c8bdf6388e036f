"""The latest warnings and errors of the log."""

from __future__ import annotations

import json

import pytest

from berth.actors.scheduling.framework.logger import get_logger
from berth.actors.telemetry.logs import configure_logs
from berth.actors.telemetry.problems import MOST_CHARACTERS, MOST_KEPT, latest_problems


def test_the_last_warnings_and_errors_are_kept_but_those_of_the_workshop() -> None:
    configure_logs(quiet=True)
    log = get_logger(__name__)
    log.error("the first", error="old")
    for number in range(MOST_KEPT - 5):
        log.warning("slow", node=f"n-{number}")
    log.info("not shown")
    get_logger("berth.tools.cluster.controllers.cluster_access").error("a kubelet")
    log.error("refused", error="403\n<img src=x>", pod="shop/web")
    log.warning("slow", repeats="kind")
    log.warning("slow", repeats="kind")
    try:
        json.loads("{")
    except ValueError:
        log.exception("plugin failed", plugin="Mine")
    log.error("x" * 3 * MOST_CHARACTERS)
    lines = latest_problems.lines()
    assert len(lines) == MOST_KEPT
    assert lines[0].text == 'the first err="old"'
    *_, refused, _, failed, long = lines
    assert (refused.level, lines[1].level) == ("error", "warning")
    assert refused.text == 'refused err=< 403 <img src=x> > pod="shop/web"'
    assert failed.text.startswith('plugin failed plugin="Mine": json.decoder.JSONDecodeError: ')
    assert len(long.text) == MOST_CHARACTERS
    assert lines[0].at <= refused.at <= long.at


@pytest.fixture(autouse=True)
def _quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps the lines out of the output of the tests."""

"""What a test of a plugin shows of the log, which nobody has configured there."""

from __future__ import annotations

import pytest

from berth.actors.scheduling.decision.failures import POST_BIND, failure_status
from berth.actors.scheduling.framework.logger import get_logger
from berth.plugin import CycleState, PodInfo, PostBindPlugin
from tests.kit.handle import NoApi


class Wrong(PostBindPlugin):
    name = "Wrong"

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None:
        int("ask")


def failed(pod: str) -> None:
    try:
        int("ask")
    except ValueError as problem:
        failure_status(Wrong({}, NoApi()), POST_BIND, problem, pod=pod)


def test_a_failure_has_its_traceback_and_no_internal_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed("default/a")
    first, *trace = capsys.readouterr().err.splitlines()
    assert first == (
        "error: plugin failed: point='PostBind' plugin='Wrong' pod='default/a' "
        """error="ValueError: invalid literal for int() with base 10: 'ask'\""""
    )
    assert trace[0] == "Traceback (most recent call last):"
    assert '    int("ask")' in trace
    failed("default/a")
    assert len(capsys.readouterr().err.splitlines()) > 1, "another test wants it too"


def test_the_exception_that_is_being_handled_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        int("ask")
    except ValueError:
        get_logger("x").exception("not read", tries=2)
    get_logger("x").info("read")
    first, *_, last, read = capsys.readouterr().err.splitlines()
    assert (first, read) == ("error: not read: tries=2", "info: read")
    assert last.startswith("ValueError: invalid literal")

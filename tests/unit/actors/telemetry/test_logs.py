"""The lines have the formats and the levels of kube-scheduler's."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from berth.actors.scheduling.framework.logger import get_logger
from berth.actors.telemetry.logs import MOST_REPEATED, Repeats, configure_logs
from berth.config.options import LoggingOptions
from tests.kit.logs import capture_logs

HEAD = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} [ \d]{7} test_logs\.py:\d+\] ")
EMPTY: dict[str, str] = {}
TEXT, JSON = LoggingOptions(verbosity=2), LoggingOptions("json", 2)


def text_of(line: str) -> str:
    """Returns the line with its severity, and without the rest of its head."""
    assert HEAD.match(line), line
    return HEAD.sub(r"\1 ", line)


@pytest.mark.parametrize("options", [TEXT, JSON])
def test_captured_lines_are_not_shown(
    options: LoggingOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(options)
    with capture_logs() as captured:
        get_logger(__name__).at(2, "bound", pod="default/web")
        get_logger(__name__).error("failed", error="refused")
    assert capsys.readouterr().err == ""
    assert captured == [
        {"event": "bound", "log_level": "info", "v": 2, "pod": "default/web"},
        {"event": "failed", "log_level": "error", "error": "refused"},
    ]


@pytest.mark.parametrize("form", ["text", "json"])
def test_quiet_shows_only_warnings_and_errors(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(LoggingOptions(form), quiet=True)
    log = get_logger(__name__)
    log.info("serving")
    log.warning("slow")
    log.error("refused")
    first, second = capsys.readouterr().err.splitlines()
    assert ("slow" in first, "refused" in second) == (True, True)


def levels(name: str, *patterns: tuple[str, int]) -> int:
    configure_logs(LoggingOptions(verbosity=2, vmodule=patterns))
    log = get_logger(name)
    return max(level for level in range(11) if log.shows(level))


QUEUE = "berth.actors.queue.actor"


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("actor", True),
        ("act*", True),
        ("actor.py", True),
        ("queue/actor", True),
        ("*/actor", True),
        ("berth/actors/queue/*", True),
        ("queue", False),
        ("cycle/actor", False),
        ("ACTOR", False),
        ("a/b/c/berth/actors/queue/actor", False),
    ],
)
def test_vmodule_raises_the_lines_of_modules(pattern: str, fits: bool) -> None:
    assert levels(QUEUE, (pattern, 5)) == (5 if fits else 2)


def test_vmodule_takes_the_first_pattern_that_fits_and_never_lowers() -> None:
    assert levels(QUEUE, ("queue/actor", 4), ("actor", 9)) == 4
    assert levels(QUEUE, ("actor", 0)) == 2


def test_split_streams(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("text", "json"):
        configure_logs(LoggingOptions(form, split_stream=True))
        log = get_logger(__name__)
        log.info("one")
        log.warning("two")
        log.error("three")
    captured = capsys.readouterr()
    # A warning of klog's JSON is no error; its text writes it with the errors.
    assert re.findall("one|two|three", captured.out) == ["one", "one", "two"]
    assert re.findall("one|two|three", captured.err) == ["two", "three", "three"]


def test_a_logger_carries_its_context(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(TEXT)
    log = get_logger(__name__).bind(pod="default/web", attempt=1)
    log.at(2, "bound", node="n", attempt=2)
    log.at(3, "left out")
    (line,) = capsys.readouterr().err.splitlines()
    assert text_of(line) == 'I "bound" pod="default/web" attempt=2 node="n"'


def fail(where: str, form: str, times: int) -> None:
    configure_logs(LoggingOptions(form))
    log = get_logger(__name__)
    for _ in range(times):
        try:
            EMPTY[where]
        except KeyError as failure:
            log.exception(
                "plugin failed", plugin="Price", exc_info=failure, repeats=("Price", where)
            )


def test_a_traceback_is_a_field_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    fail("zone", "json", 1)
    (line,) = capsys.readouterr().err.splitlines()
    fields: dict[str, Any] = json.loads(line)
    assert fields["exception"].startswith("Traceback (most recent call last):\n")
    assert fields["exception"].endswith("KeyError: 'zone'")
    assert list(fields) == ["ts", "caller", "msg", "plugin", "exception"]


def test_a_traceback_is_a_block_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    fail("zone", "text", 1)
    first, second, *_, last, end = capsys.readouterr().err.splitlines()
    assert text_of(first) == 'E "plugin failed" plugin="Price" exception=<'
    expected = ("\tTraceback (most recent call last):", "\tKeyError: 'zone'", " >")
    assert (second, last, end) == expected


def test_a_deep_traceback_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    def deep(left: int) -> int:
        return deeper(left - 1) + 1 if left else 1 // left

    def deeper(left: int) -> int:
        return deep(left) + 1

    configure_logs(TEXT)
    try:
        deep(300)
    except ZeroDivisionError as failure:
        get_logger(__name__).error("plugin failed", exc_info=failure)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2].startswith("\tZeroDivisionError")
    assert len(lines) < 200


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_flood_is_one_line(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    fail("zone", form, 100)
    assert capsys.readouterr().err.count("Traceback") == 1


def test_lines_left_out_are_counted() -> None:
    repeats = Repeats()
    assert [repeats.admit("a", now) for now in (0, 1, 59.9)] == [0, None, None]
    assert repeats.admit("b", 30) == 0
    assert repeats.admit("a", 60) == 2
    assert repeats.admit("a", 61) is None
    assert repeats.admit("a", 120) == 1


def test_the_kinds_of_repeats_are_bounded() -> None:
    repeats = Repeats()
    for kind in range(10 * MOST_REPEATED):
        assert repeats.admit(kind, 0) == 0
    assert repeats.admit(10 * MOST_REPEATED - 1, 1) is None
    assert repeats.admit(0, 1) == 0, "forgotten"


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_that_cannot_be_written_are_lost(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a full disk, a reader that is gone, and standard error closed at the start."""
    full = Path("/dev/full").open("w")  # noqa: SIM115 - closing it fails
    for stream in (full, None):
        monkeypatch.setattr(sys, "stderr", stream)
        configure_logs(LoggingOptions(form, 2))
        get_logger(__name__).info("x", a=1)
        get_logger(__name__).warning("x" * 100_000)
    with suppress(OSError):
        full.close()


def test_no_value_can_forge_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(TEXT)
    get_logger(__name__).info("bound", pod='default/a"\nE1122 00:00:00.000000 forged')
    get_logger(__name__).info("bound", pod="a\n\t\x1b[2K\rE1122\x85forged\u2028\\ \u20ac\n")
    get_logger(__name__).info("x", names={"\ud800": ["\udcff"]})
    head, *block, last = capsys.readouterr().err.splitlines()
    assert text_of(head) == 'I "bound" pod=<'
    assert block[:3] == ['\tdefault/a"', "\tE1122 00:00:00.000000 forged", " >"]
    escaped = r"\x1b[2K\rE1122\u0085forged\u2028" + "\\ \u20ac"
    assert block[4:] == ["\ta", f"\t\t{escaped}", " >"]
    assert last.endswith('names={"\\ud800":["\\udcff"]}')

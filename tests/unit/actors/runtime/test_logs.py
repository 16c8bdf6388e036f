"""The line of an attempt has the same fields in every format, and is shown at the same levels."""

from __future__ import annotations

import json
import re

import pytest
import structlog

from berth.actors.runtime.logs import (
    MOST_REPEATED,
    PAD_EVENT_TO,
    Repeats,
    Result,
    configure_logs,
    log_attempt,
)

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
KNOWN: dict[str, str] = {}
ATTEMPTS = (
    (Result.SCHEDULED, "node-3", ""),
    (Result.UNSCHEDULABLE, "", "0/3 nodes are available: 3 Insufficient cpu."),
    (Result.ERROR, "node-3", "refused"),
)


def log_all() -> None:
    log = structlog.get_logger().bind()
    for result, node, reason in ATTEMPTS:
        log_attempt(log, "default/web", result, 2, 0.00312345, node=node, reason=reason)


def test_plain_text_is_rendered_as_structlog_renders_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs(0, "text")
    log_all()
    lines = capsys.readouterr().err.splitlines()
    with structlog.testing.capture_logs() as captured:
        log_all()
    assert capsys.readouterr().err == "", "shown although captured"
    show = structlog.dev.ConsoleRenderer(colors=False, pad_event_to=PAD_EVENT_TO, sort_keys=False)
    shown = []
    for fields in captured:
        fields["level"] = fields.pop("log_level")
        shown.append(show(None, "", {**fields, "timestamp": "T"}))
    assert [STAMP.sub("T", line) for line in lines] == shown
    assert [fields["level"] for fields in captured] == ["info", "info", "warning"]


def test_json_has_the_fields_that_have_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(0, "json")
    log_all()
    first, *others = map(json.loads, capsys.readouterr().err.splitlines())
    del first["timestamp"]
    fields = {
        "pod": "default/web",
        "result": "scheduled",
        "node": "node-3",
        "attempt": 2,
        "seconds": 0.003123,
    }
    assert first == {"event": "attempted", "level": "info", **fields}
    assert [sorted({"node", "reason"} & fields.keys()) for fields in others] == [
        ["reason"],
        ["node", "reason"],
    ]


@pytest.mark.parametrize("form", ["text", "json"])
def test_quiet_shows_only_warnings_and_errors(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(0, "json" if form == "json" else "text", quiet=True)
    log_all()
    (line,) = capsys.readouterr().err.splitlines()
    assert "refused" in line


def fail(where: str, form: str, times: int) -> None:
    configure_logs(0, "json" if form == "json" else "text")
    log = structlog.get_logger()
    for _ in range(times):
        try:
            KNOWN[where]
        except KeyError as failure:
            log.exception(
                "plugin failed", plugin="Price", exc_info=failure, repeats=("Price", where)
            )


def test_a_traceback_is_a_field_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    fail("zone", "json", 1)
    (line,) = capsys.readouterr().err.splitlines()
    fields = json.loads(line)
    assert fields["exception"].startswith("Traceback (most recent call last):\n")
    assert fields["exception"].endswith("KeyError: 'zone'")
    assert fields.keys() == {"event", "level", "timestamp", "plugin", "exception"}


def test_a_traceback_follows_a_line_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    fail("zone", "text", 1)
    first, second, *_, last = capsys.readouterr().err.splitlines()
    assert first.endswith("[error    ] plugin failed      plugin=Price")
    assert (second, last) == ("Traceback (most recent call last):", "KeyError: 'zone'")


def test_a_stack_follows_a_line_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(0, "text")
    structlog.get_logger().error(
        "event loop stands still", stack="  File ...\n    pass", at="x.py:1"
    )
    first, *others = capsys.readouterr().err.splitlines()
    assert first.endswith(" at=x.py:1")
    assert others == ["  File ...", "    pass"]


def test_a_deep_traceback_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    def deep(left: int) -> int:
        return deeper(left - 1) + 1 if left else 1 // left

    def deeper(left: int) -> int:
        return deep(left) + 1

    configure_logs(0, "text")
    try:
        deep(300)
    except ZeroDivisionError as failure:
        structlog.get_logger().error("plugin failed", exc_info=failure)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("ZeroDivisionError")
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

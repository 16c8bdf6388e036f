"""The line of an attempt is the same fact in every format, and shown or not by the same levels."""

from __future__ import annotations

import json
import re

import pytest
import structlog

from actors.runtime.logs import PAD_EVENT_TO, Result, configure_logs, log_attempt

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
ATTEMPTS = (
    (Result.SCHEDULED, "node-3", ""),
    (Result.UNSCHEDULABLE, "", "0/3 nodes are available: 3 Insufficient cpu."),
    (Result.ERROR, "node-3", "refused"),
)


def log_all() -> None:
    log = structlog.get_logger().bind()
    for result, node, reason in ATTEMPTS:
        log_attempt(log, "default/web", result, 2, 0.00312345, node=node, reason=reason)


def test_plain_text_is_what_structlog_would_show_of_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_json_has_the_fields_that_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(0, "json")
    log_all()
    first, *others = map(json.loads, capsys.readouterr().err.splitlines())
    del first["timestamp"]
    told = {"pod": "default/web", "result": "scheduled", "node": "node-3", "attempt": 2, "seconds": 0.003123}
    assert first == {"event": "attempted", "level": "info", **told}
    assert [sorted({"node", "reason"} & fields.keys()) for fields in others] == [["reason"], ["node", "reason"]]


@pytest.mark.parametrize("form", ["text", "json"])
def test_quiet_shows_errors_alone(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(0, "json" if form == "json" else "text", quiet=True)
    log_all()
    (line,) = capsys.readouterr().err.splitlines()
    assert "refused" in line

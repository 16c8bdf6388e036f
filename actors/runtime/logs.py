"""Logs: one line a fact, on standard error, as text for people or as JSON for machines.

A pod's story is the lines with its key. Every attempt to schedule it ends in one, from verbosity 0 on:

    attempted  pod=default/web result=scheduled node=node-3 attempt=2 seconds=0.004
    attempted  pod=default/web result=unschedulable attempt=1 seconds=0.001 reason='0/3 nodes are available: ...'
    attempted  pod=default/web result=error node=node-3 attempt=1 seconds=0.2 reason='binding rejected: ...'

The results are those of kube-scheduler's metric `schedule_attempts_total`. `seconds` is from the moment the queue gave
the pod out; `node` is there if one was chosen, `reason` if the pod is not bound. An error is a warning, as the attempt
is repeated. From verbosity 4 on, debug lines say what comes between two attempts:

    queued     pod=default/web queue=active because=NodeAdd

Lines about others have the keys `node`, `path`, `child`; what went wrong is `error`. An outage is told once for each
kind that is followed ("watch interrupted", "watch resumed"), not once a retry.
"""

from __future__ import annotations

import enum
import logging
import re
import sys
import time
from datetime import UTC, datetime
from typing import Literal

import structlog
from structlog.typing import FilteringBoundLogger

LogFormat = Literal["text", "json"]
DEBUG_VERBOSITY = 4
PAD_EVENT_TO = 18
_LEVELS = {"warn": "warning", "exception": "error"}  # of the methods that are not named after theirs
_QUOTED = re.compile("[ \\t=\\r\\n\"']")


class Result(enum.StrEnum):
    """How an attempt ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


def log_attempt(
    log: FilteringBoundLogger,
    pod: str,
    result: Result,
    attempt: int,
    seconds: float,
    *,
    node: str = "",
    reason: str = "",
) -> None:
    """The line that ends an attempt; see above. `log` is bound once by who logs, because each pod has such a line."""
    fields: dict[str, str | int | float] = {"pod": pod, "result": str(result)}
    if node:
        fields["node"] = node
    fields["attempt"] = attempt
    fields["seconds"] = round(seconds, 6)
    if reason:
        fields["reason"] = reason
    if result is Result.ERROR:
        log.warning("attempted", **fields)
    else:
        log.info("attempted", **fields)


class _Plain:
    """What ConsoleRenderer shows without colours, at a tenth of its cost: each pod that is placed has a line.

    It stands for all processors. The time is in UTC, and its text down to the second is made once a second.
    """

    def __init__(self) -> None:
        self._second, self._text = -1, ""

    def __call__(self, _logger: object, method: str, fields: structlog.types.EventDict) -> str:
        second, nanoseconds = divmod(time.time_ns(), 10**9)
        if second != self._second:
            self._second, self._text = second, f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
        level = _LEVELS.get(method, method)
        line = f"{self._text}.{nanoseconds // 1000:06}Z [{level:<9}] {fields.pop('event'):<{PAD_EVENT_TO}}"
        for name, value in fields.items():
            one_word = isinstance(value, str) and _QUOTED.search(value) is None
            line += f" {name}={value}" if one_word else f" {name}={value!r}"
        return line


def configure_logs(verbosity: int, form: LogFormat, *, quiet: bool = False) -> None:
    """`verbosity` is kube-scheduler's -v: from 4 on, debug lines are shown. `quiet` shows warnings and worse only."""
    level = logging.WARNING if quiet else logging.DEBUG if verbosity >= DEBUG_VERBOSITY else logging.INFO
    processors: list[structlog.types.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if form == "json":
        processors.append(structlog.processors.JSONRenderer())
    elif sys.stderr.isatty():
        console = structlog.dev.ConsoleRenderer(colors=True, pad_event_to=PAD_EVENT_TO, sort_keys=False)
        processors.append(console)
    else:
        processors = [_Plain()]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )

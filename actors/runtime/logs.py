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
from typing import Literal

import structlog

log = structlog.get_logger(__name__)

LogFormat = Literal["text", "json"]
DEBUG_VERBOSITY = 4
PAD_EVENT_TO = 18
_QUOTED = re.compile("[ \\t=\\r\\n\"']")


class Result(enum.StrEnum):
    """How an attempt ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


def log_attempt(pod: str, result: Result, attempt: int, seconds: float, *, node: str = "", reason: str = "") -> None:
    """The line that ends an attempt; see above."""
    place = {"node": node} if node else {}
    why = {"reason": reason} if reason else {}
    say = log.warning if result is Result.ERROR else log.info
    say("attempted", pod=pod, result=result.value, **place, attempt=attempt, seconds=round(seconds, 6), **why)


def _plain(_logger: object, _method: str, fields: structlog.types.EventDict) -> str:
    """What ConsoleRenderer shows without colours, at a tenth of its cost: each pod that is placed has a line."""
    head = f"{fields.pop('timestamp')} [{fields.pop('level'):<9}] {fields.pop('event'):<{PAD_EVENT_TO}}"
    return " ".join((head, *(f"{name}={_shown(value)}" for name, value in fields.items())))


def _shown(value: object) -> str:
    """As it is if it is one word, else quoted."""
    text = value if isinstance(value, str) else repr(value)
    return repr(text) if text is value and _QUOTED.search(text) else text


def configure_logs(verbosity: int, form: LogFormat, *, quiet: bool = False) -> None:
    """`verbosity` is kube-scheduler's -v: from 4 on, debug lines are shown. `quiet` shows warnings and worse only."""
    level = logging.WARNING if quiet else logging.DEBUG if verbosity >= DEBUG_VERBOSITY else logging.INFO
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    renderer: structlog.types.Processor
    if form == "json":
        renderer = structlog.processors.JSONRenderer()
    elif sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer(colors=True, pad_event_to=PAD_EVENT_TO, sort_keys=False)
    else:
        renderer = _plain
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )

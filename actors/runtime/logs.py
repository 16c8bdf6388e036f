"""Logs: one line a fact, on standard error, as text for people or as JSON for machines."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog

LogFormat = Literal["text", "json"]
DEBUG_VERBOSITY = 4


def configure_logs(verbosity: int, form: LogFormat, *, quiet: bool = False) -> None:
    """`verbosity` is kube-scheduler's -v: from 4 on, debug lines are shown. `quiet` shows warnings and worse only."""
    level = logging.WARNING if quiet else logging.DEBUG if verbosity >= DEBUG_VERBOSITY else logging.INFO
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=32)
    )
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )

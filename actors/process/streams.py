"""The standard streams of a process."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, BinaryIO, cast

STREAMS = ("stdin", "r"), ("stdout", "w"), ("stderr", "w")


def open_missing_streams() -> None:
    """Opens the null device in place of each standard stream that the process lacks.

    The first sockets would take their numbers, and the event loop aborts as it closes one of these.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) < len(STREAMS):
        os.set_inheritable(opened, True)
        name, mode = STREAMS[opened]
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(opened, mode, closefd=False))
    os.close(opened)


class OutputError(Exception):
    """Standard output cannot be written. The reason is the cause, an OSError.

    It is no OSError itself, so that no command takes it for a failure to read or to listen.
    """


class _Output(io.FileIO):
    """The file of standard output, which raises OutputError."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as problem:
            raise OutputError from problem


def tell_output_apart() -> None:
    """Makes standard output raise OutputError. Output that was replaced before is left alone."""
    before = sys.stdout
    if before is not sys.__stdout__ or not isinstance(before, io.TextIOWrapper):
        return
    raw = _Output(before.fileno(), "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        cast("BinaryIO", raw) if before.write_through else io.BufferedWriter(raw),
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )


def discard_output() -> None:
    """Sends standard output, and what is still buffered for it, to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)

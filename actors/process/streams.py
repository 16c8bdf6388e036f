"""The standard streams of a process."""

from __future__ import annotations

import os
import sys

STREAMS = ("stdin", "r"), ("stdout", "w"), ("stderr", "w")


def open_missing_streams() -> None:
    """Opens the null device in place of each standard stream that the process was started without.

    The first sockets would take their numbers, and the event loop aborts as it closes one of these.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) < len(STREAMS):
        os.set_inheritable(opened, True)
        name, mode = STREAMS[opened]
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(opened, mode, closefd=False))
    os.close(opened)

"""Reports what takes so long while a command computes its answer, and ends the process if a plugin
never returns.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from click import echo

from berth.actors.scheduling.decision.whereabouts import in_words, whereabouts

EVERY_SECONDS = 10.0
MOST_TIMES = 6
NO_ANSWER = 2


@contextmanager
def progress_reports() -> Iterator[None]:
    """Reports on standard error, every EVERY_SECONDS until the block ends, where this thread is.

    If it is at MOST_TIMES of these moments in a row at the same extension point of the same plugin
    about the same pod, the process ends with the exit code NO_ANSWER: a loop cannot be interrupted.
    """
    over = threading.Event()
    told = threading.Thread(target=_report_place, args=(threading.get_ident(), over), daemon=True)
    told.start()
    try:
        yield
    finally:
        over.set()
        told.join()


def _report_place(thread: int, over: threading.Event) -> None:
    seconds, last, times = EVERY_SECONDS, None, 0
    while not over.wait(EVERY_SECONDS):
        frame = sys._current_frames().get(thread)  # noqa: SLF001 - the only way to another thread's stack
        place = {} if frame is None else whereabouts(frame)
        inside = f": {in_words(place)}" if "plugin" in place else ""
        echo(f"no answer after {seconds:.0f} s{inside}", err=True)
        hook = tuple(place.get(part) for part in ("plugin", "point", "pod"))
        times = times + 1 if hook == last else 1
        last = hook
        if inside and times == MOST_TIMES:
            echo(f"Error: the plugin {place['plugin']} does not return", err=True)
            _end()
            return
        seconds += EVERY_SECONDS


def _end() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(NO_ANSWER)

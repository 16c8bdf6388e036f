"""Tells while a command computes its answer what takes so long: perhaps a plugin never returns."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from click import echo

from berth.actors.scheduling.decision.whereabouts import in_words, whereabouts

EVERY_SECONDS = 10.0


@contextmanager
def telling() -> Iterator[None]:
    """Says on standard error, every EVERY_SECONDS until the block ends, where this thread is."""
    over = threading.Event()
    told = threading.Thread(target=_tell, args=(threading.get_ident(), over), daemon=True)
    told.start()
    try:
        yield
    finally:
        over.set()
        told.join()


def _tell(thread: int, over: threading.Event) -> None:
    seconds = EVERY_SECONDS
    while not over.wait(EVERY_SECONDS):
        frame = sys._current_frames().get(thread)  # noqa: SLF001 - the only way to another thread's stack
        place = {} if frame is None else whereabouts(frame)
        inside = f": {in_words(place)}" if "plugin" in place else ""
        echo(f"no answer after {seconds:.0f} s{inside}", err=True)
        seconds += EVERY_SECONDS

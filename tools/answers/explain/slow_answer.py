"""Reports what takes so long while a command computes its answer, and ends the process if a plugin
never returns.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from click import echo

from berth.actors.scheduling.decision.overruns import caller
from berth.actors.scheduling.decision.whereabouts import in_words, whereabouts

EVERY_SECONDS = 10.0
MOST_TIMES = 6
NO_ANSWER = 2


@contextmanager
def progress_reports(*, of_plugins: bool = False) -> Iterator[None]:
    """Reports on standard error, every EVERY_SECONDS until the block ends, where this thread is;
    with `of_plugins` only if it is in the same call of one as before. Ctrl-C tells it too.

    If it is at MOST_TIMES of these moments in a row in the same call of a plugin, the process ends
    with the exit code NO_ANSWER: a loop cannot be interrupted.
    """
    over = threading.Event()
    about = threading.get_ident(), over, of_plugins
    told = threading.Thread(target=_report_place, args=about, daemon=True)
    told.start()
    try:
        yield
    except KeyboardInterrupt as stop:
        place = whereabouts(_innermost(stop))
        if "plugin" in place:
            echo(f"stopped {in_words(place)}", err=True)
        raise
    finally:
        over.set()
        told.join()


@contextmanager
def stops_in_plugins() -> Iterator[None]:
    """Lets the first Ctrl-C end the process if this thread is in a plugin, and tells where. In a
    coroutine, Ctrl-C only asks the event loop to end, which a loop in a plugin does not let it.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if frame is not None and caller(frame) is not None:
            echo(f"stopped {in_words(whereabouts(frame))}", err=True)
            echo("Aborted!", err=True)
            _end(1)
        before(number, frame)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _report_place(thread: int, over: threading.Event, of_plugins: bool) -> None:
    seconds, last, times = EVERY_SECONDS, None, 0
    while not over.wait(EVERY_SECONDS):
        frame = sys._current_frames().get(thread)  # noqa: SLF001 - the only way to another thread's stack
        place = {} if frame is None else whereabouts(frame)
        inside = f": {in_words(place)}" if "plugin" in place else ""
        hook = *(place.get(part) for part in ("plugin", "point", "pod")), caller(frame)
        times = times + 1 if hook == last else 1
        last = hook
        del frame
        if not of_plugins or (inside and times > 1):
            echo(f"no answer after {seconds:.0f} s{inside}", err=True)
        if inside and times == MOST_TIMES:
            echo(f"Error: the plugin {place['plugin']} does not return", err=True)
            _end(NO_ANSWER)
            return
        seconds += EVERY_SECONDS


def _innermost(exception: BaseException) -> FrameType:
    trace = exception.__traceback__
    assert trace is not None  # it was raised
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame


def _end(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

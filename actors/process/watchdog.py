"""The watchdog: a thread that reports a blocked event loop, and ends the process if it must end.

A plugin that does not return blocks everything: no pod is scheduled, and no signal is handled. The
thread logs the plugin's name, once each time, and how long it took. If a signal has asked the
process to end and the loop has been blocked for GRACE_SECONDS, the thread ends the process. Nothing
is undone then, and the lease expires.

The thread receives signals itself, so it does not matter whether the loop's thread can handle them.
It does need the interpreter for a moment, and a C call may hold its lock (the GIL) throughout. If
such a call handles signals, as regular expressions do, `faulthandler` ends the process without the
interpreter, and a timer of the kernel does if nobody reads what `faulthandler` writes. For any
other such call the thread can log only afterwards that the loop was blocked.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType

from ..scheduling.framework.logger import get_logger
from .heartbeat import Heartbeat

log = get_logger(__name__)

TICK_SECONDS = 0.25
STALL_SECONDS = 2.0
GRACE_SECONDS = 10.0
END_SECONDS = 28.0  # for an orderly end; the kubelet kills after 30
FLUSH_SECONDS = 1.0  # for the last line of the log, whose reader may be stuck
EXIT_CODE = 1
MOST_FRAMES = 30
ENDING = (signal.SIGTERM, signal.SIGINT)  # signals that ask for an orderly end

# Ignored by default, so that one that comes too late does no harm.
INTERRUPT = signal.SIGURG
LONG = 4  # ticks in a row at which a plugin is seen before it is named, too
# Raises an exception in a frame if what runs there is to be interrupted. Takes monotonic seconds,
# and those for which the loop has been blocked.
Interrupt = Callable[[FrameType, float, float], None]
# Returns fields for the log that describe the code running in a frame, the innermost of a stack.
Describe = Callable[[FrameType], Mapping[str, str]]


class Watchdog:
    """A thread that watches an event loop.

    `describe` is called in the watchdog's thread, with a frame of the loop's thread. `flush_log`
    waits for the lines of the log, for at most this many seconds. `now` returns monotonic seconds.
    Once the loop has been blocked for `interrupt_seconds`, `interrupt` is called in the loop's
    thread at each tick.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        describe: Describe,
        flush_log: Callable[[float], None],
        now: Callable[[], float] = time.monotonic,
        interrupt: Interrupt | None = None,
        interrupt_seconds: float = 5.0,
    ) -> None:
        self.heartbeat = heartbeat
        self._interrupt = interrupt
        self._interrupt_seconds = interrupt_seconds
        self._named: set[tuple[str, str]] = set()  # plugins and points of the block that was logged
        self._seen: tuple[str, str] | None = None  # the plugin and point of the last ticks
        self._ticks = 0
        self._describe = describe
        self._flush_log = flush_log
        self._now = now
        self._watched = threading.get_ident()
        self._began: float | None = None  # the start of the block that was logged, while it lasts
        self._asked_at: float | None = None
        self._wake_loop = -1
        self._over = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the event loop of this thread, which must be the main one."""
        self._watched = threading.get_ident()
        inbox, outbox = socket.socketpair()
        inbox.setblocking(False)
        outbox.setblocking(False)
        self._wake_loop = signal.set_wakeup_fd(outbox.fileno(), warn_on_full_buffer=False)
        thread = threading.Thread(target=self._run, args=(inbox,), name="watchdog", daemon=True)
        before = signal.signal(INTERRUPT, self._on_interrupt) if self._interrupt else None
        thread.start()
        try:
            yield
        finally:
            if self._interrupt:
                signal.signal(INTERRUPT, before)
            signal.set_wakeup_fd(self._wake_loop)
            self._over = True
            outbox.close()
            thread.join()
            inbox.close()
            self.acted_upon()

    def asked_to_end(self) -> None:
        """Makes sure that the process ends even if no other thread can run any more.

        The handler of a signal has to call it.
        """
        self.ends()
        limit = GRACE_SECONDS + 2 * FLUSH_SECONDS
        faulthandler.dump_traceback_later(limit, exit=True, file=sys.__stderr__ or 2)
        # If nobody reads the traceback, the kernel ends the process.
        signal.setitimer(signal.ITIMER_REAL, limit + FLUSH_SECONDS)

    def ends(self) -> None:
        """Records that the process is ending, without a signal: it has END_SECONDS for it."""
        self._asked_at = self._asked_at or self._now()

    def acted_upon(self) -> None:
        """Records that the loop has begun to end the process."""
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _run(self, inbox: socket.socket) -> None:
        while not self._over:
            if select.select([inbox], [], [], TICK_SECONDS)[0]:
                self._read_signals(inbox)
            self.look()

    def _read_signals(self, inbox: socket.socket) -> None:
        """Reads the numbers of the signals that have arrived, and passes them to the loop, which
        needs them too.
        """
        numbers = inbox.recv(4096)
        if self._asked_at is None and any(number in numbers for number in ENDING):
            self._asked_at = self._now()
        # If the pipe is full, the loop is woken anyway; if it is closed, the loop has ended.
        with suppress(OSError):
            if self._wake_loop >= 0:
                os.write(self._wake_loop, numbers)

    def look(self) -> None:
        """Reports that the loop is blocked, or no longer is. Ends the process if it has to end."""
        still, now = self.heartbeat.still_for(), self._now()
        waited = 0.0 if self._asked_at is None else now - self._asked_at
        if min(still, waited) > GRACE_SECONDS or waited > END_SECONDS:
            self._end(still)
        elif self._began is None and still > STALL_SECONDS:
            self._began = now - still
            self._named, self._seen, self._ticks = set(), None, 0
            self._tell_place(still, self._where())
        elif self._began is not None and still > STALL_SECONDS:
            self._look_for_others(still)
        elif self._began is not None and still < STALL_SECONDS:
            log.warning("event loop goes on", after_seconds=round(now - still - self._began, 1))
            self._began = None

        if self._interrupt is not None and still > self._interrupt_seconds:
            signal.pthread_kill(self._watched, INTERRUPT)

    def _look_for_others(self, still: float) -> None:
        """Names a further plugin that holds up the loop in the same block."""
        where = self._where()
        place = where.get("plugin", ""), where.get("point", "")
        self._ticks = self._ticks + 1 if place == self._seen else 1
        self._seen = place
        if self._ticks >= LONG and place[0] and place not in self._named:
            self._tell_place(still, where)

    def _tell_place(self, still: float, where: Mapping[str, str]) -> None:
        self._named.add((where.get("plugin", ""), where.get("point", "")))
        log.error("event loop stands still", seconds=round(still, 1), **where)

    def _on_interrupt(self, _signal: int, frame: FrameType | None) -> None:
        """Interrupts what runs in the loop's thread, if it is to be."""
        if frame is not None and self._interrupt is not None:
            self._interrupt(frame, self._now(), self.heartbeat.still_for())

    def _end(self, still: float) -> None:
        """Ends the process, even if the log cannot be written."""
        threading.Timer(FLUSH_SECONDS, os._exit, (EXIT_CODE,)).start()
        log.critical("ended by force", seconds=round(still, 1), **self._where())
        self._flush_log(FLUSH_SECONDS)
        os._exit(EXIT_CODE)

    def _where(self) -> dict[str, str]:
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001 - the only way to another thread's stack
        if frame is None:
            return {}
        stack = "".join(traceback.format_stack(frame, MOST_FRAMES)).rstrip()
        return {**self._describe(frame), "stack": stack}

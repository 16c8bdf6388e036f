"""The watchdog: a thread that says what the event loop cannot say while it stands still.

A plugin that does not return holds up everything: no pod is scheduled, no signal is acted upon. The
thread logs who it is, once a standstill, and how long that lasted. Once a signal has asked the
process to end, a loop that stands still for GRACE_SECONDS ends it: nothing is undone then, and the
lease runs out by itself.

The thread hears of signals by itself, so it does not matter whether the loop's thread gets to
handle them. But it needs the interpreter for a moment, and a C call may keep that (the GIL) all the
while. One that handles signals, as regular expressions do, is ended by `faulthandler`, which needs
no interpreter; of any other the thread tells when it is over.
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

import structlog
from berth.actors.runtime.heartbeat import Heartbeat

log = structlog.get_logger(__name__)

TICK_SECONDS = 0.25
STALL_SECONDS = 2.0
GRACE_SECONDS = 10.0
END_SECONDS = 28.0  # for an orderly end; the kubelet kills after 30
FLUSH_SECONDS = 1.0  # for the last line of the log, which perhaps nobody reads
EXIT_CODE = 1
MOST_FRAMES = 30
ENDING = (signal.SIGTERM, signal.SIGINT)  # they ask for an orderly end

# From the innermost frame of a stack to what is known of who runs there, by field of the log.
Describe = Callable[[FrameType], Mapping[str, str]]


class Watchdog:
    """`describe` is asked about the loop's stack in the watchdog's own thread; `now` is monotonic
    seconds.
    """

    def __init__(
        self, heartbeat: Heartbeat, describe: Describe, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.heartbeat = heartbeat
        self._describe = describe
        self._now = now
        self._watched = threading.get_ident()
        self._began: float | None = (
            None  # when the standstill began that was told of, while it lasts
        )
        self._asked_at: float | None = None
        self._wake_loop = -1
        self._over = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the loop that runs in this thread, the main one."""
        self._watched = threading.get_ident()
        inbox, outbox = socket.socketpair()
        inbox.setblocking(False)
        outbox.setblocking(False)
        self._wake_loop = signal.set_wakeup_fd(outbox.fileno(), warn_on_full_buffer=False)
        thread = threading.Thread(target=self._run, args=(inbox,), name="watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(self._wake_loop)
            self._over = True
            outbox.close()
            thread.join()
            inbox.close()
            faulthandler.cancel_dump_traceback_later()

    def asked_to_end(self) -> None:
        """For the handler of such a signal: the process shall end even if no other thread gets to
        run again.
        """
        self._asked_at = self._asked_at or self._now()
        limit = GRACE_SECONDS + 2 * FLUSH_SECONDS
        faulthandler.dump_traceback_later(limit, exit=True, file=sys.__stderr__ or 2)

    def acted_upon(self) -> None:
        """The loop has begun to end the process."""
        faulthandler.cancel_dump_traceback_later()

    def _run(self, inbox: socket.socket) -> None:
        while not self._over:
            if select.select([inbox], [], [], TICK_SECONDS)[0]:
                self._hear(inbox)
            self.look()

    def _hear(self, inbox: socket.socket) -> None:
        """Take the numbers of signals that have come, and pass them on to the loop, which waits for
        them too.
        """
        numbers = inbox.recv(4096)
        if self._asked_at is None and any(number in numbers for number in ENDING):
            self._asked_at = self._now()
        with suppress(
            OSError
        ):  # It is full, so the loop is woken; or closed, so there is no loop any more.
            if self._wake_loop >= 0:
                os.write(self._wake_loop, numbers)

    def look(self) -> None:
        """Tell of a standstill that has begun or is over; end the process if it must not go on."""
        still, now = self.heartbeat.still_for(), self._now()
        waited = 0.0 if self._asked_at is None else now - self._asked_at
        if min(still, waited) > GRACE_SECONDS or waited > END_SECONDS:
            self._end(still)
        elif self._began is None and still > STALL_SECONDS:
            self._began = now - still
            log.error("event loop stands still", seconds=round(still, 1), **self._where())
        elif self._began is not None and still < STALL_SECONDS:
            log.warning("event loop goes on", after_seconds=round(now - still - self._began, 1))
            self._began = None

    def _end(self, still: float) -> None:
        """End the process, whether the log can be written or not."""
        threading.Timer(FLUSH_SECONDS, os._exit, (EXIT_CODE,)).start()
        log.critical("ended by force", seconds=round(still, 1), **self._where())
        sys.stderr.flush()
        os._exit(EXIT_CODE)

    def _where(self) -> dict[str, str]:
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001 - the only way to another thread's stack
        if frame is None:
            return {}
        stack = "".join(traceback.format_stack(frame, MOST_FRAMES)).rstrip()
        return {**self._describe(frame), "stack": stack}

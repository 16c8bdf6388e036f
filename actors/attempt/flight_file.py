"""The flight recorder's files: attempts as lines of JSON, written by a thread of their own.

A disk that hangs or is full holds up nobody: attempts wait in a queue of at most MOST_BYTES, and
those that it has no room for, or that cannot be written, are dropped and counted. A file that is as
long as it may be gets the number 1 after its path, the older ones count up, and the oldest goes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from io import BufferedReader
from pathlib import Path

import msgspec

from ..runtime.clock import Clock
from ..scheduling.framework.logger import get_logger
from .attempts_page import AttemptsPage, RecordedAttempt, Rejection
from .flights import KeptAttempt, Verdicts, rendered

log = get_logger(__name__)

FILES = 4
MOST_BYTES = 4 << 20  # of attempts that wait
_ENCODER = msgspec.json.Encoder(enc_hook=dict)
_DECODER = msgspec.json.Decoder(RecordedAttempt)


class FlightFile:
    """A writer of attempts to the file at `path`.

    The file and its older versions together take about `most_bytes`. `dropped` is the number of
    attempts that were not written.
    """

    def __init__(self, path: str, most_bytes: int, clock: Clock) -> None:
        """Opens the file, to go on at its end. Raises OSError."""
        self.dropped = 0
        self._path = path
        self._most = most_bytes // FILES
        self._clock = clock
        self._waiting: list[KeptAttempt] = []
        self._size = 0
        self._busy = False
        self._changed = threading.Condition()
        self._lost = 0  # attempts since the last that was written
        self._fails = False
        self._verdicts: Verdicts | None = None
        self._rejections: tuple[Rejection, ...] = ()
        self._descriptor = -1
        self._length = 0
        self._open()
        threading.Thread(target=self._run, name="flight recorder", daemon=True).start()

    def put(self, attempt: KeptAttempt) -> None:
        """Passes an attempt to the writing thread."""
        with self._changed:
            if self._waiting and self._size + attempt.size > MOST_BYTES:
                self.dropped += 1
                self._lost += 1
                return
            self._waiting.append(attempt)
            self._size += attempt.size
            self._changed.notify_all()

    def flush(self, seconds: float) -> None:
        """Waits until all attempts are written or dropped, for at most this time."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                attempts, self._waiting, self._size = self._waiting, [], 0
                self._busy = True
            for attempt in attempts:
                try:
                    self._write(_ENCODER.encode(self._rendered(attempt)) + b"\n")
                except OSError as problem:
                    self._failed(problem)
                else:
                    self._written()
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _failed(self, problem: OSError) -> None:
        with self._changed:
            self.dropped += 1
            self._lost += 1
        if not self._fails:
            self._fails = True
            log.error("attempts not recorded", path=self._path, error=problem.strerror)

    def _written(self) -> None:
        self._fails = False
        with self._changed:
            lost, self._lost = self._lost, 0
        if lost:
            log.warning("recorded attempts dropped", path=self._path, attempts=lost)

    def _rendered(self, attempt: KeptAttempt) -> RecordedAttempt:
        epoch = self._clock.wall().timestamp() - self._clock.now()
        verdicts = attempt.verdicts
        if verdicts is None:
            return rendered(attempt, epoch, ())
        if verdicts is not self._verdicts:
            self._verdicts, self._rejections = verdicts, verdicts.rejections()
        return rendered(attempt, epoch, self._rejections)

    def _write(self, line: bytes) -> None:
        if self._length and self._length + len(line) > self._most:
            self._rotate()
        if self._descriptor < 0:
            self._open()
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            with suppress(OSError):  # a device
                os.ftruncate(self._descriptor, self._length)
            raise
        self._length += len(line)

    def _rotate(self) -> None:
        for number in range(FILES - 1, 0, -1):
            with suppress(FileNotFoundError):
                _path_of(self._path, number - 1).replace(_path_of(self._path, number))
        os.close(self._descriptor)
        self._descriptor, self._length = -1, 0

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        self._descriptor, self._length = descriptor, os.fstat(descriptor).st_size
        if self._length and os.pread(descriptor, 1, self._length - 1) != b"\n":
            os.write(descriptor, b"\n")  # The last writer was killed within a line.
            self._length += 1


def page_of_files(path: str, key: str) -> AttemptsPage:
    """Returns the recorded attempts of the pod of this key in the files of this path.

    Lines that are no attempts, such as that of a writer that was killed, are left out. Raises
    OSError, and ValueError if no file has an attempt.
    """
    since: float | None = None
    start = b'{"key":' + msgspec.json.encode(key) + b","
    attempts = []
    for line in _lines(path):
        if since is None or line.startswith(start):
            with suppress(msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                attempt = _DECODER.decode(line)
                since = attempt.at if since is None else since
                if attempt.key == key:
                    attempts.append(attempt)
    if since is None:
        raise ValueError(f"{path}: expected attempts of --berth-recorder-file, and there are none")
    return AttemptsPage(since, since, tuple(attempts))


def _lines(path: str) -> Iterator[bytes]:
    """Returns the lines of all files, the oldest first. The newest is opened first, and no file
    twice: the writer may rename them meanwhile.
    """
    files: dict[tuple[int, int], BufferedReader] = {}
    with ExitStack() as stack:
        for number in range(FILES):
            try:
                file = stack.enter_context(_path_of(path, number).open("rb"))
            except FileNotFoundError:
                if not number:
                    raise
                continue
            status = os.fstat(file.fileno())
            files.setdefault((status.st_dev, status.st_ino), file)
        for file in reversed(files.values()):
            yield from file


def _path_of(path: str, number: int) -> Path:
    return Path(f"{path}.{number}" if number else path)

"""The journal: a file with one line of JSON for each write, from which a restarted server reloads.

A write goes into the file before it goes into the store. A write that the file does not take whole
is refused, and no part of it stays in either. The file survives the end of the process, however the
process ends. `commit` puts what is written on the disk; a server that is given it sends no answer
that tells of a write before that, so a crash of the machine loses no write that a client knows of.
Only the owner may read the file: it has secrets.

Opening the file rewrites it without its history, and so does `tended` once it is large. A last
line without an end is left out: the process crashed while it wrote the line, so no client was
answered that the write had succeeded. Any other line that cannot be read is an error, since
skipping it would lose an object. Only one server at a time may use the file.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import anyio
import anyio.to_thread

from ...kubernetes.api.store import Store, StoreEvent
from ...kubernetes.api.types.api_documents import RefusedError
from ...kubernetes.api.types.resources import Kind
from .group_commit import GroupCommit
from .journal_replay import COMPACTED, line_of, replay
from .kept_errors import JournalError
from .this_machine import this_machine

PRIVATE = 0o600  # there are secrets in the file
PIECE = 1000  # lines that are written at once
TEND_SECONDS = 1.0
# A file is rewritten once it is longer than SMALL bytes and MOST_GROWTH times as long as it was.
SMALL, MOST_GROWTH = 64 << 20, 4


class Tail:
    """The end of a file. Data is added whole, or not at all."""

    def __init__(self, file: int) -> None:
        """Takes the file descriptor of an empty file."""
        self._file = file
        self._torn = False  # True if an incomplete write may follow these bytes
        self.length = 0

    def add(self, data: bytes) -> None:
        """Adds the data. After an OSError, the data is missing, or is cut off before the next
        write.
        """
        if self._torn:
            self._cut()
        self._torn = True
        try:
            self._put(data)
        except OSError:
            with suppress(OSError):
                self._cut()
            raise
        self._torn = False
        self.length += len(data)

    def _put(self, data: bytes) -> None:
        """Writes the data, in several pieces if the file does not take it at once."""
        at = 0
        while at < len(data):
            size = os.pwrite(self._file, memoryview(data)[at:], self.length + at)
            if not size:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            at += size

    def _cut(self) -> None:
        os.ftruncate(self._file, self.length)
        self._torn = False


class Journal:
    """A context manager that keeps the objects of `store` in a file: every write to the store is
    written to it first.

    `cut_off` is the length in bytes of an incomplete last line that was left out; 0 if there was
    none.
    """

    def __init__(self, path: Path) -> None:
        """Opens the file; a link to it stays a link. Raises JournalError, or OSError if the file
        cannot be read or written, which is then unchanged.
        """
        path = Path(os.path.realpath(path))
        self.store = Store(this_machine(), journal=self._write)
        self.commit = GroupCommit(self._put_on_disk)
        self._path = path
        self._beside = path.with_name(path.name + ".new")
        self._replaced: FileIO | None = None  # a file that the present one has yet to replace
        self._meanwhile: list[bytes] | None = None  # lines written while the file is rewritten
        if path.exists() and not path.is_file():
            raise JournalError(f"{path}: expected a file")
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
        with open(path, "ab+", opener=_private) as before:
            self._lock(before)
            if not os.path.samestat(os.fstat(before.fileno()), path.stat()):
                raise self._in_use()  # it was rewritten in the meantime
            before.seek(0)
            self.cut_off = replay(before, self.store, str(path))
            self._file, self._tail = self._begun()
            try:
                for piece in self._pieces():
                    self._tail.add(piece)
                self._put_in_place()
            except BaseException:
                self._drop(self._file)
                raise
        self._length = self._tail.length  # after it was rewritten last

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the file. Raises JournalError if it cannot be synced."""
        with self._file:
            try:
                self._put_on_disk()
            except OSError as problem:
                raise self._not_synced(problem) from problem

    @asynccontextmanager
    async def tended(self) -> AsyncIterator[None]:
        """During the block the file is rewritten whenever it has grown large, and what nobody waits
        for is put on the disk, too.

        At the end everything is on the disk. Raises JournalError when the disk fails.
        """
        ending = anyio.CancelScope()
        with anyio.CancelScope() as block:
            tending = asyncio.create_task(self._tend(block, ending))
            try:
                yield
            finally:
                ending.cancel()
                with anyio.CancelScope(shield=True):
                    await tending  # a thread may be writing
                    await self.commit.settled()
        if self.commit.failure is not None:
            raise self._not_synced(self.commit.failure)

    async def _tend(self, block: anyio.CancelScope, ending: anyio.CancelScope) -> None:
        """Returns after `ending` is cancelled. Cancels the block when the disk fails."""
        with ending:
            while True:
                await anyio.sleep(TEND_SECONDS)
                if self.commit.pending:
                    await self.commit.settled()
                if self.commit.failure is not None:
                    block.cancel()
                elif self._tail.length > max(SMALL, MOST_GROWTH * self._length):
                    await self.rewrite()

    async def rewrite(self) -> None:
        """Rewrites the file without its history, while writes go on.

        If the disk refuses that, the file stays as it is.
        """
        self._length = self._tail.length  # if it is refused, it is not tried again at once
        file, tail = self._begun()
        try:
            await self._fill(tail)
        except OSError:
            self._drop(file)
            return
        except BaseException:
            self._drop(file)
            raise
        finally:
            self._meanwhile = None
        self._replaced = self._file
        self._file, self._tail, self._length = file, tail, tail.length
        self.commit.note()  # it has to be put in its place
        await self.commit.settled()

    async def _fill(self, tail: Tail) -> None:
        """Writes the lines of all objects, and those of the writes that come meanwhile."""
        self._meanwhile = []
        for piece in self._pieces():
            await anyio.to_thread.run_sync(tail.add, piece)
        while len(self._meanwhile) > PIECE:
            news, self._meanwhile = self._meanwhile, []
            await anyio.to_thread.run_sync(tail.add, b"".join(news))
        tail.add(b"".join(self._meanwhile))

    def _drop(self, file: FileIO) -> None:
        """Closes and removes a file that was to replace the present one."""
        file.close()
        self._beside.unlink()

    def _begun(self) -> tuple[FileIO, Tail]:
        """Returns an empty file beside the present one."""
        file = FileIO(self._beside, "wb", opener=_private)
        try:
            self._lock(file)
            self._beside.chmod(self._path.stat().st_mode & PRIVATE)
        except BaseException:
            self._drop(file)
            raise
        return file, Tail(file.fileno())

    def _pieces(self) -> Iterator[bytes]:
        """Yields the lines of all objects, as they are when it begins."""
        compacted = b'{"metadata":{"resourceVersion":"%d"}}' % self.store.revision
        lines = [line_of(COMPACTED.encode(), compacted)]
        for _, stored in [*self.store.everything()]:
            lines.append(line_of(b"ADDED", stored.raw))
            if len(lines) == PIECE:
                yield b"".join(lines)
                lines.clear()
        yield b"".join(lines)

    def _put_on_disk(self) -> None:
        """Puts on the disk what is written; a file that was rewritten gets its place. It runs in a
        thread while the file grows.
        """
        if self._replaced is None:
            os.fsync(self._file.fileno())
            return
        replaced = self._replaced
        self._put_in_place()
        replaced.close()
        self._replaced = None

    def _put_in_place(self) -> None:
        os.fsync(self._file.fileno())
        self._beside.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _lock(self, file: BinaryIO | FileIO) -> None:
        """Locks the file until it is closed, at the latest by the end of the process."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._in_use() from None

    def _in_use(self) -> JournalError:
        return JournalError(f"{self._path}: another server is using this file")

    def _not_synced(self, problem: OSError) -> JournalError:
        return JournalError(f"{self._path} cannot be synced: {problem.strerror or problem}")

    def _write(self, kind: Kind, written: StoreEvent) -> None:
        """Adds a line for a write. Raises RefusedError with 500 if writing to the file fails."""
        line = line_of(written.type.encode(), written.after.raw)
        try:
            if self.commit.failure is not None:
                raise self.commit.failure
            self._tail.add(line)
        except OSError as problem:
            name = written.after.document["metadata"]["name"]
            why = f"{self._path} cannot be written to: {problem.strerror or problem}"
            raise RefusedError(
                500, "InternalError", f'{kind.resource} "{name}" cannot be kept: {why}'
            ) from problem
        if self._meanwhile is not None:
            self._meanwhile.append(line)
        self.commit.note()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)

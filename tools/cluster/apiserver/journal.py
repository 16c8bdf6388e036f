"""The journal: a file with one line of JSON for each write, from which a restarted server reloads.

A write goes into the file before it goes into the store. A write that the file does not take whole
is refused, and no part of it stays in either. The file survives the end of the process, however the
process ends. It is synced when it is rewritten and when it is closed, but not at each write, so a
crash of the machine may lose the last writes. Only the owner may read it: it has secrets.

Opening the file rewrites it without its history. A last line without an end is left out: the
process crashed while it wrote the line, so no client was answered that the write had succeeded. Any
other line that cannot be read is an error, since skipping it would lose an object. Only one server
at a time may use the file.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec

from ...kubernetes.api.store import Store, StoreEvent
from ...kubernetes.api.types.api_documents import Document, RefusedError
from ...kubernetes.api.types.resources import BY_KIND, Kind
from .this_machine import this_machine


class JournalError(ValueError):
    """The file is not a journal, or another server is using it; the message says which."""


_HEAD = b'{"type":"'
PRIVATE = 0o600  # there are secrets in the file
COMPACTED = "COMPACTED"  # the type of the line with the last revision whose history is dropped


class Line(msgspec.Struct, frozen=True):
    type: str
    object: Document


class Tail:
    """The end of a file. Data is added whole, or not at all."""

    def __init__(self, file: int) -> None:
        """Takes the file descriptor of an empty file."""
        self._file = file
        self._length = 0
        self._torn = False  # True if an incomplete write may follow these bytes

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
        self._length += len(data)

    def _put(self, data: bytes) -> None:
        """Writes the data, in several pieces if the file does not take it at once."""
        at = 0
        while at < len(data):
            size = os.pwrite(self._file, memoryview(data)[at:], self._length + at)
            if not size:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            at += size

    def _cut(self) -> None:
        os.ftruncate(self._file, self._length)
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
        self.cut_off = 0
        self._path = path
        if path.exists() and not path.is_file():
            raise JournalError(f"{path}: expected a file")
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
        with open(path, "ab+", opener=_private) as before:
            self._lock(before)
            if not os.path.samestat(os.fstat(before.fileno()), path.stat()):
                raise self._in_use()  # it was rewritten in the meantime
            before.seek(0)
            self._replay(before.read())
            self._file, self._tail = self._replace_file()

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
                os.fsync(self._file.fileno())
            except OSError as problem:
                raise JournalError(
                    f"{self._path} cannot be synced: {problem.strerror or problem}"
                ) from problem

    def _lock(self, file: BinaryIO | FileIO) -> None:
        """Locks the file until it is closed, at the latest by the end of the process."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._in_use() from None

    def _in_use(self) -> JournalError:
        return JournalError(f"{self._path}: another server is using this file")

    def _replace_file(self) -> tuple[FileIO, Tail]:
        """Replaces the file with a journal that has no history."""
        beside = self._path.with_name(self._path.name + ".new")
        file = FileIO(beside, "wb", opener=_private)
        try:
            self._lock(file)
            beside.chmod(self._path.stat().st_mode & PRIVATE)
            tail = Tail(file.fileno())
            head = _line(
                COMPACTED.encode(), b'{"metadata":{"resourceVersion":"%d"}}' % self.store.revision
            )
            tail.add(
                head
                + b"".join(_line(b"ADDED", stored.raw) for _, stored in self.store.everything())
            )
            os.fsync(file.fileno())
            beside.replace(self._path)
        except BaseException:
            file.close()
            beside.unlink()
            raise
        return file, tail

    def _write(self, kind: Kind, written: StoreEvent) -> None:
        """Adds a line for a write. Raises RefusedError with 500 if writing to the file fails."""
        try:
            self._tail.add(_line(written.type.encode(), written.after.raw))
        except OSError as problem:
            name = written.after.document["metadata"]["name"]
            why = f"{self._path} cannot be written to: {problem.strerror or problem}"
            raise RefusedError(
                500, "InternalError", f'{kind.resource} "{name}" cannot be kept: {why}'
            ) from problem

    def _replay(self, written: bytes) -> None:
        if not written:
            return
        lines = written.split(b"\n")
        self.cut_off = len(lines[-1])
        if not (lines[-1].startswith(_HEAD) or _HEAD.startswith(lines[-1])):
            # not the beginning of a journal's line
            raise JournalError(f"{self._path}, line {len(lines)}: not a write of an API server")
        living: dict[tuple[Kind, str, str], Document] = {}
        revision = 1
        for number, raw in enumerate(lines[:-1], 1):
            try:
                line = msgspec.json.decode(raw, type=Line)
                metadata = line.object["metadata"]
                revision = max(revision, int(metadata["resourceVersion"]))
                if line.type == COMPACTED:
                    continue
                kind = BY_KIND[line.object["apiVersion"], line.object["kind"]]
                key = (kind, metadata.get("namespace", ""), metadata["name"])
            except (msgspec.DecodeError, KeyError, TypeError, ValueError) as problem:
                raise JournalError(
                    f"{self._path}, line {number}: not a write of an API server: {problem}"
                ) from None
            if line.type == "DELETED":
                living.pop(key, None)
            else:
                living[key] = line.object
        for (kind, _, _), document in living.items():
            self.store.restore(kind, document)
        self.store.revision = max(self.store.revision, revision)
        self.store.compact()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


def _line(kind: bytes, raw: bytes) -> bytes:
    return _HEAD + kind + b'","object":' + raw + b"}\n"

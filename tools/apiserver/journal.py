"""The journal: a file in which every write is a line of JSON, so that a server started anew has its objects back.

The file is rewritten without its past when it is opened. A line that was cut off when the machine stopped is left out;
any other line that cannot be read is an error, since an object would be lost with it. One server at a time has the
file.
"""

from __future__ import annotations

import fcntl
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec

from tools.apiserver.resources import BY_KIND, Kind
from tools.apiserver.store import Document, Event, Store


class JournalError(ValueError):
    """The file is no journal, or another server's; the message says which."""


_HEAD = b'{"type":"'
COMPACTED = "COMPACTED"  # what came before, up to a revision, is left out


class Line(msgspec.Struct, frozen=True):
    type: str
    object: Document


class Journal:
    """A context manager. `store` is the store that the file describes, and every write to it goes into the file."""

    def __init__(self, path: Path) -> None:
        """Raises JournalError, or OSError if the file cannot be read or written."""
        self.store = Store(journal=self._write)
        self._path = path
        with path.open("ab+") as before:
            self._lock(before)
            before.seek(0)
            self._replay(before.read())
            rewritten = path.with_name(path.name + ".new")
            self._file = rewritten.open("wb", buffering=0)
            self._lock(self._file)
            self._file.write(self._rewritten())
            rewritten.replace(path)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _lock(self, file: BinaryIO | FileIO) -> None:
        """Held until the file is closed, also by the end of the process."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(f"{self._path}: another server keeps its objects there") from None

    def _rewritten(self) -> bytes:
        """The journal without its past."""
        head = _line(COMPACTED.encode(), b'{"metadata":{"resourceVersion":"%d"}}' % self.store.revision)
        return head + b"".join(_line(b"ADDED", stored.raw) for _, stored in self.store.everything())

    def _write(self, kind: Kind, written: Event) -> None:
        self._file.write(_line(written.type.encode(), written.after.raw))

    def _replay(self, written: bytes) -> None:
        if not written:
            return
        lines = written.split(b"\n")
        if not (lines[-1].startswith(_HEAD) or _HEAD.startswith(lines[-1])):  # no line of ours that was cut off
            raise JournalError(f"{self._path}, line {len(lines)}: no write of an API server")
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
                raise JournalError(f"{self._path}, line {number}: no write of an API server: {problem}") from None
            if line.type == "DELETED":
                living.pop(key, None)
            else:
                living[key] = line.object
        for (kind, _, _), document in living.items():
            self.store.restore(kind, document)
        self.store.revision = max(self.store.revision, revision)
        self.store.compact()


def _line(kind: bytes, raw: bytes) -> bytes:
    return _HEAD + kind + b'","object":' + raw + b"}\n"

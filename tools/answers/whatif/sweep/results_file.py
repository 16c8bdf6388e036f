"""The file of a sweep's results, from which an interrupted sweep continues.

It has a line of JSON for the sweep and one for each result. A line that was being written when the
sweep was stopped has no end, and is written again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from ...explain.cluster_source import SourceError
from .cell import CellResult


class Header(msgspec.Struct, frozen=True):
    sweep: str  # its hash
    cells: int


class Results:
    """The results of a sweep by cell. `append` writes a line at once."""

    def __init__(self, file: BinaryIO | None, results: dict[int, CellResult]) -> None:
        self._file = file
        self.by_cell = results

    def append(self, result: CellResult) -> None:
        self.by_cell[result.cell] = result
        if self._file is not None:
            self._file.write(_line(result))
            self._file.flush()


@contextmanager
def open_results(path: Path | None, header: Header) -> Iterator[Results]:
    """Opens the file of a sweep, which may be new. Without a path, the results are kept in memory.

    Raises SourceError for a file of another sweep, or a file to which another process writes.
    """
    if path is None:
        yield Results(None, {})
        return
    try:
        file = path.open("a+b")
    except OSError as problem:
        raise SourceError(f"--results {path}: {problem.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SourceError(f"--results {path}: another sweep writes to it") from None
        file.seek(0)
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            results = read(content, header)
        except SourceError as problem:
            raise SourceError(f"--results {path}: {problem}") from None
        os.truncate(file.fileno(), len(whole))
        if not whole:
            file.write(_line(header))
            file.flush()
        yield Results(file, results)


def read(content: bytes, header: Header) -> dict[int, CellResult]:
    """Returns the results in a file's content. A last line without an end is ignored. Raises
    SourceError.
    """
    *lines, last = content.split(b"\n")
    first = _line(header)
    if (lines[0] + b"\n" != first) if lines else (not first.startswith(last)):
        raise SourceError("it is of another sweep, cluster, workload or version, or no such file")
    results: dict[int, CellResult] = {}
    for number, line in enumerate(lines[1:], 2):
        try:
            result = msgspec.json.decode(line, type=CellResult)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
            raise SourceError(f"line {number}: {problem}") from None
        results[result.cell] = result
    return results


def _line(of: Header | CellResult) -> bytes:
    return msgspec.json.encode(of) + b"\n"

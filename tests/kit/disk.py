"""A disk that fails as a test wants it to, for `os.pwrite` and `os.ftruncate`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


class Disk:
    """`writes` and `truncations` are the results of the next calls: None for success, a number for
    that many bytes, an exception to raise.

    All later calls succeed.
    """

    def __init__(self) -> None:
        self.writes: list[int | OSError | None] = []
        self.truncations: list[OSError | None] = []
        self._pwrite, self._ftruncate = os.pwrite, os.ftruncate

    def pwrite(self, file: int, data: bytes | memoryview, offset: int) -> int:
        how = self.writes.pop(0) if self.writes else None
        if isinstance(how, OSError):
            raise how
        data = data if how is None else data[:how]
        return self._pwrite(file, data, offset) if data else 0

    def ftruncate(self, file: int, length: int) -> None:
        how = self.truncations.pop(0) if self.truncations else None
        if how is not None:
            raise how
        self._ftruncate(file, length)


@contextmanager
def failing_disk() -> Iterator[Disk]:
    disk = Disk()
    with patch("os.pwrite", disk.pwrite), patch("os.ftruncate", disk.ftruncate):
        yield disk

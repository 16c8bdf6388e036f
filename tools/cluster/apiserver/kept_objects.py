"""Where the objects of `berth apiserver` are kept: in a journal, in a snapshot, or nowhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from ...kubernetes.api.store import Store
from ...kubernetes.api.types.releases import Release
from .http import Gate
from .this_machine import this_machine


class Kept(msgspec.Struct, frozen=True):
    """The files of a journal and of a snapshot; None for those that there are not."""

    data: Path | None
    snapshot: Path | None

    @asynccontextmanager
    async def opened(self, release: Release) -> AsyncIterator[tuple[Store, Gate | None]]:
        """Yields the store, and what its answers wait for. Raises JournalError, SnapshotError and
        OSError.
        """
        if self.data is not None:
            with _journal(self.data) as journal:
                journal.store.release = release
                async with journal.tended():
                    yield journal.store, journal.commit
            return
        store = Store(this_machine())
        store.release = release
        if self.snapshot is not None and self.snapshot.exists():
            from .snapshot import load_snapshot

            load_snapshot(store, self.snapshot)
        yield store, None
        if self.snapshot is not None:
            from .snapshot import save_snapshot

            save_snapshot(store, self.snapshot)


def _journal(data: Path) -> Any:
    """Returns a Journal."""
    from .journal import Journal  # few servers keep one

    journal = Journal(data)
    if journal.cut_off:
        click.echo(
            f"{data}: left out the last write, which was cut off after {journal.cut_off} bytes",
            err=True,
        )
    return journal

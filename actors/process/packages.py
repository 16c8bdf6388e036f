"""The entry points of the installed packages. They are read once: berth finds a package that is
installed while it runs after its next start.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path


def entries_of(group: str) -> EntryPoints:
    """Returns the entry points of this group, of all packages on `sys.path`."""
    return _read(group, tuple(sys.path))


def installed_since(group: str) -> set[str]:
    """Returns the names of the entry points of this group that were not there when they were first
    read: a restart finds them.
    """
    return set(entry_points(group=group).names) - set(entries_of(group).names)


def unreadable() -> tuple[Path, ...]:
    """Returns what of `sys.path` this process may not read: folders of packages, or metadata of a
    package. Python leaves them out without a word.
    """
    return _unreadable(tuple(sys.path))


@cache
def _unreadable(places: tuple[str, ...]) -> tuple[Path, ...]:
    there = [Path(place) for place in places if os.access(place, os.F_OK)]
    folders = [path for path in there if _may_read(path) and path.is_dir()]
    metadata = [each for folder in folders for each in sorted(folder.glob("*.dist-info"))]
    entries = [each / "entry_points.txt" for each in metadata if _may_read(each)]
    files = [each for each in entries if each.exists()]
    return tuple(each for each in (*there, *metadata, *files) if not _may_read(each))


def _may_read(path: Path) -> bool:
    return os.access(path, os.R_OK) and (path.is_file() or os.access(path, os.X_OK))


@cache
def _read(group: str, _: tuple[str, ...]) -> EntryPoints:
    return entry_points(group=group)

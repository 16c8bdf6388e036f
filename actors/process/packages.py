"""The entry points of the installed packages. They are read once: berth finds a package that is
installed while it runs after its next start.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import EntryPoints, entry_points


def entries_of(group: str) -> EntryPoints:
    """Returns the entry points of this group, of all packages on `sys.path`."""
    return _read(group, tuple(sys.path))


def installed_since(group: str) -> set[str]:
    """Returns the names of the entry points of this group that were not there when they were first
    read: a restart finds them.
    """
    return set(entry_points(group=group).names) - set(entries_of(group).names)


@cache
def _read(group: str, _: tuple[str, ...]) -> EntryPoints:
    return entry_points(group=group)

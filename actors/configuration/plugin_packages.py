"""The plugins of installed packages, found through the entry-point group `berth.plugins`.

Each entry has the name of a plugin and refers to its class. A package is imported only when a
profile names one of its plugins, so an installed package that no profile names cannot do harm. If
two packages provide the same name, that is an error as soon as a profile names it.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint
from pathlib import Path

import msgspec

from berth.plugin import Plugin

from ..process.packages import entries_of, installed_since, unreadable
from ..scheduling.decision.failures import CRASHES, raise_if_not_plugins, text_of
from ..scheduling.decision.overruns import calls_plugins
from ..scheduling.decision.registry import OnDemand, RegistryError
from ..scheduling.framework.logger import get_logger
from ..scheduling.plugins.in_tree import IN_TREE
from .plugin_files import file_and_version, plugin_name, plugins_of_files

log = get_logger(__name__)

ENTRY_POINT_GROUP = "berth.plugins"


def every_plugin(others: Iterable[type[Plugin]] = ()) -> Mapping[str, type[Plugin]]:
    """Returns the in-tree plugins, the plugins of installed packages, those of files (`--plugin`)
    and these others, by name. Files and others take the place of packages' plugins of their names.

    Raises RegistryError if one of the others is no plugin, or has the name of an in-tree plugin.

    A plugin of a package is imported on each lookup, which may raise RegistryError. A package
    cannot replace an in-tree plugin: its entry is left out, and the log says so. It also says which
    packages cannot be read.
    """
    for path in unreadable():
        fields = {
            "path": str(path),
            "advice": f"let the user of this process ({os.getuid()}) read it",
        }
        log.warning("packages cannot be read", **fields, repeats=(ENTRY_POINT_GROUP, path))
    by_name = {**plugins_of_files(), **{plugin_name(plugin): plugin for plugin in others}}
    installed: dict[str, list[EntryPoint]] = defaultdict(list)
    for entry in entries_of(ENTRY_POINT_GROUP):
        if entry.name in IN_TREE:
            fields = {
                "plugin": entry.name,
                "package": _package(entry),
                "error": "the name is that of an in-tree plugin",
            }
            log.warning("plugin left out", **fields, repeats=(ENTRY_POINT_GROUP, entry.name))
        else:
            installed[entry.name].append(entry)

    def make(name: str) -> type[Plugin]:
        plugin = IN_TREE.get(name) or by_name.get(name)
        return _load(name, installed[name]) if plugin is None else plugin

    return OnDemand((*IN_TREE, *installed, *by_name), make)


def changed_since(started: float) -> list[str]:
    """Returns a line for each plugin of a package that a restart would change: its module or its
    package is newer than the process, which began at `started` in Unix seconds.
    """
    lines = [
        f"plugin {name}: its package was installed since the start: restart berth to use it"
        for name in sorted(installed_since(ENTRY_POINT_GROUP))
    ]
    for entry in entries_of(ENTRY_POINT_GROUP):
        file = getattr(sys.modules.get(entry.module), "__file__", None)
        with suppress(OSError):
            if file is not None and Path(file).stat().st_mtime > started:
                lines.append(
                    f"plugin {entry.name}: {file} is newer than the code that runs: restart berth"
                )
    return lines


class Origin(msgspec.Struct, frozen=True):
    """The package of a plugin with its version, or its file with a check sum of the content."""

    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}".rstrip()


def origin_of(kind: type[Plugin]) -> Origin | None:
    """Returns where a plugin comes from; None for one of berth, or of a test."""
    of_file = file_and_version(kind)
    if of_file is not None:
        return Origin(str(of_file[0]), of_file[1])
    entries = entries_of(ENTRY_POINT_GROUP).select(name=kind.name)
    dist = next((entry.dist for entry in entries), None)
    if kind.name in IN_TREE or dist is None:
        return None
    return Origin(dist.name, dist.version)


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "unknown"


@calls_plugins
def _load(name: str, entries: Sequence[EntryPoint]) -> type[Plugin]:
    if len(entries) > 1:
        packages = " and ".join(sorted(_package(entry) for entry in entries))
        raise RegistryError(
            f"plugin {name}: expected one package with an entry point of this name, got {packages}"
        )
    (entry,) = entries
    where = f"plugin {name} of package {_package(entry)}, entry point {entry.value}"
    try:
        plugin: object = entry.load()
    except CRASHES as exception:
        raise_if_not_plugins(exception)
        log.exception(
            "plugin cannot be loaded", plugin=name, package=_package(entry), exc_info=exception
        )
        raise RegistryError(f"{where}: cannot be loaded: {text_of(exception)}") from None
    if not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
        raise RegistryError(f"{where}: expected a Plugin class")
    own_name: object = getattr(plugin, "name", None)
    if own_name != name:
        raise RegistryError(f"{where}: expected a class with the name {name!r}, got {own_name!r}")
    return plugin

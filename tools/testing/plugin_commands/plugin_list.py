"""`berth plugin list`: the plugins that there are, where they run, and why some are not loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from berth.actors.configuration.file import file_or_default
from berth.actors.configuration.plugin_files import files_offered, plugins_of_files
from berth.actors.configuration.plugin_packages import ENTRY_POINT_GROUP, every_plugin
from berth.actors.process.packages import entries_of
from berth.actors.process.version import BERTH
from berth.actors.scheduling.decision.registry import (
    EXTENSION_POINTS,
    OnDemand,
    RegistryError,
    extension_points,
)
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.feature_gates import DEFAULTS
from berth.config.load import ConfigError
from berth.config.profiles import expand_profile
from berth.config.types import KubeSchedulerConfiguration
from berth.plugin import Plugin

from ...answers.terminal.options import config_option, output_option


class ListedPlugin(msgspec.Struct, frozen=True, rename="camel"):
    """A plugin. `enabled` has the scheduler names of the profiles that run it, and `problem` says
    why it is not loaded.
    """

    name: str
    points: list[str]
    package: str
    version: str
    enabled: list[str]
    problem: str


@click.command("list", short_help="List the plugins, and why some are not loaded.")
@config_option
@output_option()
def list_plugins(file: str | None, output: str) -> None:
    """List the in-tree plugins and those of installed packages.

    With --config, it says which profiles enable them; otherwise, what the default configuration
    enables. A plugin that cannot be loaded has the reason.
    """
    try:
        configuration = file_or_default(file)
        listed = sorted(_listed(configuration), key=lambda each: (each.package, each.name))
    except (ConfigError, RegistryError) as problem:
        raise click.ClickException(str(problem)) from None
    if output == "json":
        click.echo(msgspec.json.encode(listed))
        return
    table = Table(box=SIMPLE_HEAD)
    table.add_column("plugin", no_wrap=True)
    for column in ("points", "package", "enabled in"):
        table.add_column(column, overflow="fold")
    for each in listed:
        points = f"not loaded: {each.problem}" if each.problem else ", ".join(each.points)
        of_package = f"{each.package} {each.version}".strip()
        package = "in-tree" if each.name in IN_TREE and not each.problem else of_package
        table.add_row(each.name, points, package, ", ".join(each.enabled))
    Console().print(table)


def _listed(configuration: KubeSchedulerConfiguration) -> Iterator[ListedPlugin]:
    registry = every_plugin()
    enabled = _enabled(configuration, registry)
    for name, kind in IN_TREE.items():
        yield _of(name, kind, "berth-scheduler", BERTH, enabled)
    of_files = plugins_of_files()
    for file, (name, kind) in zip(files_offered(), of_files.items(), strict=True):
        yield _of(name, kind, file, "", enabled)
    for entry in entries_of(ENTRY_POINT_GROUP):
        if entry.name not in of_files:
            yield _of_package(entry, registry, enabled)


def _of_package(
    entry: EntryPoint, registry: Mapping[str, type[Plugin]], enabled: Mapping[str, list[str]]
) -> ListedPlugin:
    package = entry.dist.name if entry.dist is not None else "unknown"
    version = entry.dist.version if entry.dist is not None else ""
    if entry.name in IN_TREE:
        problem = "the name is that of an in-tree plugin"
        return ListedPlugin(entry.name, [], package, version, [], problem)
    try:
        kind = registry[entry.name]
    except RegistryError as invalid:
        return ListedPlugin(entry.name, [], package, version, [], str(invalid))
    return _of(entry.name, kind, package, version, enabled)


def _of(
    name: str, kind: type[Plugin], package: str, version: str, enabled: Mapping[str, list[str]]
) -> ListedPlugin:
    points = [point for point in EXTENSION_POINTS if point in extension_points(kind)]
    return ListedPlugin(name, points, package, version, enabled.get(name, []), "")


def _enabled(
    configuration: KubeSchedulerConfiguration, registry: Mapping[str, type[Plugin]]
) -> dict[str, list[str]]:
    """Returns the scheduler names of the profiles that enable each plugin."""
    points = OnDemand(tuple(registry), lambda name: extension_points(registry[name]))
    enabled: dict[str, list[str]] = {}
    for number, profile in enumerate(configuration.profiles):
        expanded = expand_profile(profile, points, f"profiles[{number}]", DEFAULTS)
        for name in {each.name for at_point in expanded.values() for each in at_point}:
            enabled.setdefault(name, []).append(profile.scheduler_name)
    return enabled

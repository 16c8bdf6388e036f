"""The configuration of a test's scheduler, and the plugins that it brings along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from berth.actors.configuration.file import load_file
from berth.actors.configuration.plugin_packages import plugin_name
from berth.config.load import from_mapping
from berth.config.types import (
    API_VERSION,
    KIND,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    PluginRef,
    PluginSet,
)
from berth.plugin import Plugin, QueueSortPlugin

Configuration = Mapping[str, Any] | Path | None
Plugins = Sequence[type[Plugin]]
Args = Mapping[str, Mapping[str, Any]]
NO_ARGS: Args = {}


def configuration_of(
    config: Configuration, gates: Mapping[str, bool]
) -> KubeSchedulerConfiguration:
    """Returns a configuration: a file, or a mapping whose apiVersion and kind may be missing; by
    default kube-scheduler's. No leader is elected unless it says so. Raises ConfigError.
    """
    if isinstance(config, Path):
        return load_file(config, gates)
    common = {"apiVersion": API_VERSION, "kind": KIND, "leaderElection": {"leaderElect": False}}
    return from_mapping({**common, **(config or {})}, gates)


def with_plugins(
    configuration: KubeSchedulerConfiguration, plugins: Plugins, args: Args
) -> KubeSchedulerConfiguration:
    """Returns the configuration with these arguments by plugin, and with the plugins enabled in
    every profile that does not name them. Raises RegistryError for what is no plugin.
    """
    profiles = tuple(_with(profile, plugins, args) for profile in configuration.profiles)
    return msgspec.structs.replace(configuration, profiles=profiles)


def _with(profile: KubeSchedulerProfile, plugins: Plugins, args: Args) -> KubeSchedulerProfile:
    sets = profile.plugins
    at_points = [getattr(sets, field) for field in sets.__struct_fields__]
    named = {ref.name for each in at_points for ref in (*each.enabled, *each.disabled)}
    new = [plugin for plugin in plugins if plugin_name(plugin) not in named]
    refs = tuple(PluginRef(plugin.name) for plugin in new)
    multi_point = sets.multi_point
    multi_point = msgspec.structs.replace(multi_point, enabled=(*multi_point.enabled, *refs))
    sets = msgspec.structs.replace(sets, multi_point=multi_point)
    for plugin in new:
        if issubclass(plugin, QueueSortPlugin):  # A profile has one.
            one = PluginSet(enabled=(PluginRef(plugin.name),), disabled=(PluginRef("*"),))
            sets = msgspec.structs.replace(sets, queue_sort=one)
    config = [entry for entry in profile.plugin_config if entry.name not in args]
    config += [PluginConfig(name, dict(each)) for name, each in args.items()]
    return msgspec.structs.replace(profile, plugins=sets, plugin_config=tuple(config))

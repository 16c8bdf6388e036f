"""Plugins that a configuration need not name: they are enabled in its profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from berth.config.types import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    PluginRef,
    PluginSet,
)
from berth.plugin import BindPlugin, Plugin, QueueSortPlugin

from .plugin_files import plugin_name, plugins_of_files

Plugins = Sequence[type[Plugin]]
Args = Mapping[str, Mapping[str, Any]]


def with_plugins_of_files(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Returns the configuration with the plugins of files enabled in each profile, but for those
    that it names somewhere. Raises RegistryError.
    """
    plugins = plugins_of_files()
    named = {name for profile in configuration.profiles for name in _named(profile)}
    new = [kind for name, kind in plugins.items() if name not in named]
    return with_plugins(configuration, new, {}) if new else configuration


def with_plugins(
    configuration: KubeSchedulerConfiguration, plugins: Plugins, args: Args
) -> KubeSchedulerConfiguration:
    """Returns the configuration with these arguments by plugin, and with the plugins enabled in
    every profile that does not name them. Raises RegistryError for what is no plugin.
    """
    profiles = tuple(_with(profile, plugins, args) for profile in configuration.profiles)
    return msgspec.structs.replace(configuration, profiles=profiles)


def _named(profile: KubeSchedulerProfile) -> set[str]:
    sets = profile.plugins
    at_points = [getattr(sets, field) for field in sets.__struct_fields__]
    return {ref.name for each in at_points for ref in (*each.enabled, *each.disabled)}


def _with(profile: KubeSchedulerProfile, plugins: Plugins, args: Args) -> KubeSchedulerProfile:
    sets, named = profile.plugins, _named(profile)
    new = [plugin for plugin in plugins if plugin_name(plugin) not in named]
    refs = tuple(PluginRef(plugin.name) for plugin in new)
    multi_point = sets.multi_point
    multi_point = msgspec.structs.replace(multi_point, enabled=(*multi_point.enabled, *refs))
    sets = msgspec.structs.replace(sets, multi_point=multi_point)
    for plugin in new:
        ref = PluginRef(plugin.name)
        if issubclass(plugin, QueueSortPlugin):  # A profile has one.
            one = PluginSet(enabled=(ref,), disabled=(PluginRef("*"),))
            sets = msgspec.structs.replace(sets, queue_sort=one)
        if issubclass(plugin, BindPlugin):  # The default binder leaves nothing to those after it.
            first = msgspec.structs.replace(sets.bind, enabled=(ref, *sets.bind.enabled))
            sets = msgspec.structs.replace(sets, bind=first)
    config = [entry for entry in profile.plugin_config if entry.name not in args]
    config += [PluginConfig(name, dict(each)) for name, each in args.items()]
    return msgspec.structs.replace(profile, plugins=sets, plugin_config=tuple(config))

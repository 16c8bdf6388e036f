"""The registry: plugin classes by name, and the profiles built from them.

In-tree plugins are handed in; plugins of users come from the entry-point group `berth.plugins`, where each entry
names a Plugin class. A name may be taken only once.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points

from actors.framework import interface as api
from actors.framework.interface import ArgsError, Handle, Plugin
from actors.framework.runner import Profile
from config.profiles import expand_profile
from config.types import KubeSchedulerConfiguration, KubeSchedulerProfile

ENTRY_POINT_GROUP = "berth.plugins"

EXTENSION_POINTS: Mapping[str, tuple[type[Plugin], ...]] = {
    "preEnqueue": (api.PreEnqueuePlugin,),
    "queueSort": (api.QueueSortPlugin,),
    "preFilter": (api.PreFilterPlugin,),
    "filter": (api.FilterPlugin, api.NodeFilterPlugin),
    "postFilter": (api.PostFilterPlugin,),
    "preScore": (api.PreScorePlugin,),
    "score": (api.ScorePlugin, api.NodeScorePlugin),
    "reserve": (api.ReservePlugin,),
    "permit": (api.PermitPlugin,),
    "preBind": (api.PreBindPlugin,),
    "bind": (api.BindPlugin,),
    "postBind": (api.PostBindPlugin,),
}


class RegistryError(ValueError):
    """The configuration asks for a plugin that cannot be had; the message names the field."""


def extension_points(plugin: type[Plugin]) -> frozenset[str]:
    """The extension points that a plugin class implements, by the names of the configuration file."""
    return frozenset(point for point, kinds in EXTENSION_POINTS.items() if issubclass(plugin, kinds))


def with_entry_points(in_tree: Mapping[str, type[Plugin]]) -> dict[str, type[Plugin]]:
    """The in-tree plugins and those of users. Raises RegistryError for what is no plugin or takes a name twice."""
    registry = dict(in_tree)
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        where = f"entry point {entry.name} in {ENTRY_POINT_GROUP}"
        try:
            found = entry.load()
        except (ImportError, AttributeError) as problem:
            raise RegistryError(f"{where}: {entry.value} cannot be loaded: {problem}") from problem
        if not (isinstance(found, type) and issubclass(found, Plugin) and hasattr(found, "name")):
            raise RegistryError(f"{where}: {entry.value} is no Plugin class with a name")
        if found.name in registry:
            raise RegistryError(f"{where}: the name {found.name} is taken")
        registry[found.name] = found
    return registry


def build_profiles(
    configuration: KubeSchedulerConfiguration,
    registry: Mapping[str, type[Plugin]],
    handle: Handle,
) -> dict[str, Profile]:
    """A Profile for every scheduler name. Raises RegistryError or ProfileError with the path of what does not fit."""
    points_of = {name: extension_points(plugin) for name, plugin in registry.items()}
    profiles = {}
    for i, profile in enumerate(configuration.profiles):
        expanded = expand_profile(profile, points_of, f"profiles[{i}]")
        wanted = {reference.name for enabled in expanded.values() for reference in enabled}
        made = {name: _make(registry[name], profile, handle, f"profiles[{i}]") for name in sorted(wanted)}
        points = {
            point: [(made[reference.name], reference.weight) for reference in enabled]
            for point, enabled in expanded.items()
        }
        profiles[profile.scheduler_name] = Profile(profile.scheduler_name, points, profile.percentage_of_nodes_to_score)
    return profiles


def _make(plugin: type[Plugin], profile: KubeSchedulerProfile, handle: Handle, path: str) -> Plugin:
    """The plugin with the arguments that the profile gives it."""
    for j, entry in enumerate(profile.plugin_config):
        if entry.name == plugin.name:
            try:
                return plugin(entry.args, handle)
            except ArgsError as invalid:
                raise RegistryError(f"{path}.pluginConfig[{j}].args.{invalid}") from None
    return plugin({}, handle)

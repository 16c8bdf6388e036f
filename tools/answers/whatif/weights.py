"""The weights of score plugins: those of a configuration, and a configuration with another one."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from berth.actors.configuration.plugin_packages import every_plugin
from berth.actors.scheduling.decision.registry import OnDemand, extension_points
from berth.config.profiles import expand_profile
from berth.config.types import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginRef,
    PluginSet,
)

from ..explain.cluster_source import SourceError


def weights_of(
    configuration: KubeSchedulerConfiguration, gates: Mapping[str, bool]
) -> dict[str, dict[str, int]]:
    """Returns the weights of score plugins by profile. The configuration must be valid."""
    plugins = every_plugin()
    points_of = OnDemand(tuple(plugins), lambda name: extension_points(plugins[name]))
    return {
        profile.scheduler_name: {
            plugin.name: plugin.weight
            for plugin in expand_profile(profile, points_of, "profile", gates)["score"]
        }
        for profile in configuration.profiles
    }


def with_weight(
    configuration: KubeSchedulerConfiguration, name: str, weight: int
) -> KubeSchedulerConfiguration:
    """Returns the configuration with another weight of a score plugin; with 0, its scores do not
    count.

    `name` is [PROFILE/]PLUGIN. Raises SourceError if there is no such profile.
    """
    scheduler, _, plugin = name.rpartition("/")
    names = [profile.scheduler_name for profile in configuration.profiles]
    if scheduler and scheduler not in names:
        raise SourceError(f"weight {name}: expected a profile of {', '.join(names)}")
    profiles = (
        _with_weight_in(profile, plugin, weight)
        if scheduler in ("", profile.scheduler_name)
        else profile
        for profile in configuration.profiles
    )
    return replace(configuration, profiles=tuple(profiles))


def _with_weight_in(
    profile: KubeSchedulerProfile, plugin: str, weight: int
) -> KubeSchedulerProfile:
    score = profile.plugins.score
    enabled = [ref for ref in score.enabled if ref.name != plugin]
    disabled = [ref for ref in score.disabled if ref.name != plugin]
    if weight:
        enabled.append(PluginRef(plugin, weight))
    else:
        disabled.append(PluginRef(plugin))
    score = PluginSet(tuple(enabled), tuple(disabled))
    return replace(profile, plugins=replace(profile.plugins, score=score))

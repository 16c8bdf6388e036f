"""Profiles as a configuration makes them, in few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.registry import build_profiles
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.load import from_mapping
from berth.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from berth.plugin import Plugin
from tests.kit.handle import NoApi

APART = ("VolumeBinding", "DynamicResources")  # they fail where an extension point runs alone


def configuration(**fields: Any) -> KubeSchedulerConfiguration:
    return from_mapping({"apiVersion": API_VERSION, "kind": KIND, **fields})


def profile_of(
    *enabled: str | type[Plugin],
    disabled: Iterable[str] = (),
    points: Mapping[str, Any] | None = None,
    args: Mapping[str, Any] | None = None,
    handle: Any = None,
) -> Profile:
    """Returns the default profile with these plugins at every extension point, and without those;
    `points` are the plugin sets of other extension points, `args` those of plugins by name. The
    plugins get a handle that writes nothing unless there is another.
    """
    own = {plugin.name: plugin for plugin in enabled if not isinstance(plugin, str)}
    names = [plugin if isinstance(plugin, str) else plugin.name for plugin in enabled]
    everywhere = {"enabled": _named(names), "disabled": _named(disabled)}
    document = {
        "plugins": {"multiPoint": everywhere, **(points or {})},
        "pluginConfig": [{"name": name, "args": given} for name, given in (args or {}).items()],
    }
    profiles = build_profiles(
        configuration(profiles=[document]), {**IN_TREE, **own}, handle or NoApi()
    )
    return profiles["default-scheduler"]


def at(point: str, *enabled: str, disabled: Iterable[str] = ()) -> dict[str, Any]:
    """Returns the plugin set of an extension point, for `points`."""
    return {point: {"enabled": _named(enabled), "disabled": _named(disabled)}}


def _named(plugins: Iterable[str]) -> list[dict[str, str]]:
    return [{"name": plugin} for plugin in plugins]

"""The ordered plugins of each extension point, from a profile as the user wrote it.

There are two steps, as in kube-scheduler. First the profile's multiPoint is merged with the default
one. Then multiPoint is spread over the extension points that each plugin implements; the sets of
the single points take precedence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from .fields import Problems, suggestion
from .foreign import project_of
from .types import (
    EXTENSION_POINTS,
    GROUP_POINTS,
    POD_GROUP_POST_FILTER,
    KubeSchedulerProfile,
    PluginRef,
    PluginSet,
)

DEFAULT_MULTI_POINT = (
    PluginRef("SchedulingGates"),
    PluginRef("PrioritySort"),
    PluginRef("NodeUnschedulable"),
    PluginRef("NodeName"),
    PluginRef("TaintToleration", 3),
    PluginRef("NodeAffinity", 2),
    PluginRef("NodePorts"),
    PluginRef("NodeResourcesFit", 1),
    PluginRef("VolumeRestrictions"),
    PluginRef("NodeVolumeLimits"),
    PluginRef("VolumeBinding"),
    PluginRef("VolumeZone"),
    PluginRef("PodTopologySpread", 2),
    PluginRef("InterPodAffinity", 2),
    PluginRef("DynamicResources", 2),
    PluginRef("DefaultPreemption"),
    PluginRef("NodeResourcesBalancedAllocation", 1),
    PluginRef("ImageLocality", 1),
    PluginRef("DefaultBinder"),
    PluginRef("NodeDeclaredFeatures"),
)
EVERY = "*"
_BY_DRIVER = "NodeVolumeLimits counts the volumes of every CSI driver"
# v1 refuses arguments for these plugins, and accepts arguments for other unknown plugins.
_REFUSED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
# The plugins that v1 no longer has, each with its replacement.
REMOVED: Mapping[str, str] = {
    **dict.fromkeys(_REFUSED, _BY_DRIVER),
    "NodeLabel": "NodeAffinity's addedAffinity requires or prefers labels of nodes",
    "NodePreferAvoidPods": "a taint with the effect PreferNoSchedule keeps pods away",
    "NodeResourcesLeastAllocated": "NodeResourcesFit has the scoringStrategy LeastAllocated",
    "NodeResourcesMostAllocated": "NodeResourcesFit has the scoringStrategy MostAllocated",
    "RequestedToCapacityRatio": "NodeResourcesFit has the scoringStrategy RequestedToCapacityRatio",
    "SelectorSpread": "PodTopologySpread spreads the pods of a Service by default",
    "ServiceAffinity": "InterPodAffinity keeps pods together",
}


class ProfileError(ValueError):
    """The plugins of a profile cannot be used as written; each message begins with the field."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class WeighedPlugin(msgspec.Struct, frozen=True):
    name: str
    weight: int


def default_multi_point(gates: Mapping[str, bool]) -> tuple[PluginRef, ...]:
    """Returns the default multiPoint with these feature gates."""
    # NodeDeclaredFeatures is also the name of its gate.
    return tuple(ref for ref in DEFAULT_MULTI_POINT if gates.get(ref.name, True))


def merged_multi_point(profile: KubeSchedulerProfile, gates: Mapping[str, bool]) -> list[PluginRef]:
    """Returns the profile's multiPoint on top of the default one."""
    return _merged(profile.plugins.multi_point, default_multi_point(gates))


def expand_profile(
    profile: KubeSchedulerProfile,
    points_of: Mapping[str, frozenset[str]],
    path: str,
    gates: Mapping[str, bool],
) -> dict[str, list[WeighedPlugin]]:
    """Returns the plugins of every extension point, in the order in which they run.

    `points_of` has the extension points that each known plugin implements. Raises ProfileError for
    an unknown plugin, a negative weight, a plugin enabled twice or at a point that it does not
    implement, and unless there is exactly one queueSort plugin.
    """
    problems = Problems()
    for point in (*EXTENSION_POINTS, "multiPoint"):
        enabled = profile.plugins.at(point).enabled
        _check(enabled, point, points_of, f"{path}.plugins.{point}.enabled", problems)
    for i, ref in enumerate(profile.plugins.pod_group_post_filter.enabled):
        if ref.name != "DefaultPreemption":
            where = f"{path}.plugins.{POD_GROUP_POST_FILTER}.enabled[{i}].name"
            problems.add(where, f"{ref.name} does not implement {POD_GROUP_POST_FILTER}")
    for point in GROUP_POINTS:
        if profile.plugins.at(point).enabled:
            problems.add(f"{path}.plugins.{point}.enabled", "berth does not schedule pod groups")
    for j, entry in enumerate(profile.plugin_config):
        if entry.name in _REFUSED:
            problems.add(f"{path}.pluginConfig[{j}].name", removed(entry.name))
    if problems:
        raise ProfileError(*problems)
    multi_point = merged_multi_point(profile, gates)
    points = {ref.name: points_of[ref.name] for ref in multi_point}
    weights = {
        ref.name: ref.weight or 1
        for ref in reversed((*profile.plugins.score.enabled, *multi_point))
    }
    expanded = {}
    for point in EXTENSION_POINTS:
        own = profile.plugins.at(point)
        names = [ref.name for ref in own.enabled]
        disabled = {ref.name for ref in own.disabled}
        spread = [
            ref.name
            for ref in multi_point
            if point in points[ref.name] and ref.name not in disabled
        ]
        if EVERY in disabled:
            spread = []
        overridden = [name for name in names if name in spread]
        inherited = [name for name in spread if name not in names]
        added = [name for name in names if name not in spread]
        order = (*overridden, *inherited, *added)
        expanded[point] = [WeighedPlugin(name, weights.get(name, 1)) for name in order]
    sorting = [each.name for each in expanded["queueSort"]]
    got = " and ".join(sorting) or 0
    problems.expect(len(sorting) == 1, f"{path}.plugins.queueSort", "exactly one plugin", got)
    problems.expect(bool(expanded["bind"]), f"{path}.plugins.bind", "at least one plugin", "none")
    if problems:
        raise ProfileError(*problems)
    return expanded


def profile_warnings(
    profile: KubeSchedulerProfile, points_of: Mapping[str, object], path: str
) -> list[str]:
    """Returns a line for each name without effect that kube-scheduler accepts too."""
    warnings = Problems()
    for point in (*EXTENSION_POINTS, "multiPoint"):
        for i, ref in enumerate(profile.plugins.at(point).disabled):
            if ref.name != EVERY and ref.name not in points_of:
                where = f"{path}.plugins.{point}.disabled[{i}].name"
                warnings.add(where, f"no effect: {_unknown(ref.name, points_of)}")
    if profile.plugins.pod_group_post_filter != PluginSet():
        where = f"{path}.plugins.{POD_GROUP_POST_FILTER}"
        warnings.add(where, "no effect: berth does not schedule pod groups")
    for j, entry in enumerate(profile.plugin_config):
        if entry.name not in points_of:
            where = f"{path}.pluginConfig[{j}].name"
            warnings.add(where, f"no effect: {_unknown(entry.name, points_of)}")
    return warnings


def points_left_out(
    profile: KubeSchedulerProfile, points_of: Mapping[str, frozenset[str]]
) -> dict[str, list[str]]:
    """Returns the points that a plugin implements and at which nobody enabled or disabled it, for
    each that is enabled at single points.
    """
    plugins = profile.plugins
    at = {point: plugins.at(point) for point in EXTENSION_POINTS}
    named = dict.fromkeys(ref.name for point in at.values() for ref in point.enabled)
    everywhere = {ref.name for ref in plugins.multi_point.enabled}
    left_out: dict[str, list[str]] = {}
    for name in named:
        if name in points_of and name not in everywhere:
            decided = {
                point
                for point, own in at.items()
                if any(ref.name == name for ref in (*own.enabled, *own.disabled))
            }
            missing = [point for point in at if point in points_of[name] - decided]
            if missing:
                left_out[name] = missing
    return left_out


def _merged(own: PluginSet, default: tuple[PluginRef, ...]) -> list[PluginRef]:
    """Returns the default multiPoint without the plugins that the profile disables there. An entry
    of the profile replaces the default one of the same name; the profile's other entries follow.
    """
    disabled = {ref.name for ref in own.disabled}
    named = {ref.name: ref for ref in own.enabled}
    kept = (
        []
        if EVERY in disabled
        else [named.pop(r.name, r) for r in default if r.name not in disabled]
    )
    return [*kept, *named.values()]


def _check(
    enabled: Sequence[PluginRef],
    point: str,
    points_of: Mapping[str, frozenset[str]],
    path: str,
    problems: Problems,
) -> None:
    seen: set[str] = set()
    for i, ref in enumerate(enabled):
        where = f"{path}[{i}]"
        if ref.name not in points_of:
            problems.add(f"{where}.name", _unknown(ref.name, points_of))
            continue
        points = points_of[ref.name]
        if point != "multiPoint" and points and point not in points:
            problems.add(f"{where}.name", f"{ref.name} does not implement {point}")
        elif "score" in points and point in ("score", "multiPoint"):
            weight = ref.weight or 0
            problems.expect(weight >= 0, f"{where}.weight", "an integer of at least 0", weight)
        if ref.name in seen:
            problems.add(f"{where}.name", f"{ref.name} is enabled twice")
        seen.add(ref.name)


def _unknown(name: str, points_of: Mapping[str, object]) -> str:
    if name in REMOVED:
        return removed(name)
    project = project_of(name)
    if project:
        return f"unknown plugin {name!r}, which is not Kubernetes' own: it belongs to {project}"
    return f"unknown plugin {name!r}{suggestion(name, points_of)}"


def removed(name: str) -> str:
    """Returns the advice about a plugin that Kubernetes has removed."""
    return f"{name} was removed from Kubernetes, {REMOVED[name]}"

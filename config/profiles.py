"""The ordered plugins of each extension point, from a profile as the user wrote it.

There are two steps, as in kube-scheduler. First the profile's multiPoint is merged with the default
one. Then multiPoint is spread over the extension points that each plugin implements; the sets of
the single points take precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

import msgspec

from berth.config.feature_gates import POD_SCHEDULING_CONTEXT
from berth.config.types import EXTENSION_POINTS, KubeSchedulerProfile, PluginRef, PluginSet

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
# The plugins that are added behind another one with a feature gate of berth's own.
_GATED = ((POD_SCHEDULING_CONTEXT, "DynamicResources", PluginRef("PodSchedulingContext")),)
WEIGHTLESS = frozenset(ref.name for ref in DEFAULT_MULTI_POINT if ref.weight is None)
EVERY = "*"
MAX_WEIGHT = (
    1 << 31
) - 1  # an int32 in Kubernetes; a sum of weighted scores stays far within int64


class ProfileError(ValueError):
    """A profile's plugins cannot be used as written; the message begins with the field."""


class WeighedPlugin(msgspec.Struct, frozen=True):
    name: str
    weight: int


def default_multi_point(gates: Mapping[str, bool]) -> tuple[PluginRef, ...]:
    """The default multiPoint with these feature gates."""
    # NodeDeclaredFeatures is also the name of its gate.
    found = [ref for ref in DEFAULT_MULTI_POINT if gates.get(ref.name, True)]
    for gate, behind, added in _GATED:
        if gates[gate]:
            found.insert(1 + [ref.name for ref in found].index(behind), added)
    return tuple(found)


def expand_profile(
    profile: KubeSchedulerProfile,
    points_of: Mapping[str, frozenset[str]],
    path: str,
    gates: Mapping[str, bool],
) -> dict[str, list[WeighedPlugin]]:
    """The plugins of every extension point, in the order in which they run.

    `points_of` gives the extension points that each known plugin implements. Raises ProfileError
    for an unknown plugin, a weight below 1, a plugin enabled twice or at a point that it does not
    implement, and unless there is exactly one queueSort plugin.
    """
    for j, entry in enumerate(profile.plugin_config):
        _check_known(entry.name, points_of, f"{path}.pluginConfig[{j}].name")
    for point in (*EXTENSION_POINTS, "multiPoint"):
        _check(profile.plugins.at(point), point, points_of, f"{path}.plugins.{point}")
    multi_point = _merged(profile.plugins.multi_point, default_multi_point(gates))
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
            if point in points_of[ref.name] and ref.name not in disabled
        ]
        if EVERY in disabled:
            spread = []
        overridden = [name for name in names if name in spread]
        inherited = [name for name in spread if name not in names]
        added = [name for name in names if name not in spread]
        order = (*overridden, *inherited, *added)
        expanded[point] = [WeighedPlugin(name, weights.get(name, 1)) for name in order]
    if len(expanded["queueSort"]) != 1:
        raise ProfileError(
            f"{path}.plugins.queueSort: expected exactly one plugin, got "
            f"{len(expanded['queueSort'])}"
        )
    if not expanded["bind"]:
        raise ProfileError(f"{path}.plugins.bind: expected at least one plugin")
    return expanded


def _merged(own: PluginSet, default: tuple[PluginRef, ...]) -> list[PluginRef]:
    """The default multiPoint without what the profile's disables, with the profile's entries of the
    same name in their places, followed by its new ones.
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
    plugins: PluginSet, point: str, points_of: Mapping[str, frozenset[str]], path: str
) -> None:
    seen: set[str] = set()
    for i, ref in enumerate(plugins.enabled):
        _check_known(ref.name, points_of, f"{path}.enabled[{i}].name")
        if point != "multiPoint" and points_of[ref.name] and point not in points_of[ref.name]:
            raise ProfileError(f"{path}.enabled[{i}].name: {ref.name} does not implement {point}")
        if ref.weight is not None and ref.weight < 1 and not _is_unset(ref, point, points_of):
            raise ProfileError(
                f"{path}.enabled[{i}].weight: expected a weight of at least 1, got {ref.weight}"
            )
        if ref.weight is not None and ref.weight > MAX_WEIGHT:
            raise ProfileError(
                f"{path}.enabled[{i}].weight: expected a weight of at most {MAX_WEIGHT}"
            )
        if ref.name in seen:
            raise ProfileError(f"{path}.enabled[{i}].name: {ref.name} is enabled twice")
        seen.add(ref.name)
    for i, ref in enumerate(plugins.disabled):
        if ref.name != EVERY:
            _check_known(ref.name, points_of, f"{path}.disabled[{i}].name")


def _check_known(name: str, points_of: Mapping[str, frozenset[str]], path: str) -> None:
    if name not in points_of:
        near = get_close_matches(name, points_of, 1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise ProfileError(f"{path}: unknown plugin {name!r}{hint}")


def _is_unset(ref: PluginRef, point: str, points_of: Mapping[str, frozenset[str]]) -> bool:
    """True if a weight of 0 means that none is given: kube-scheduler writes 0 where weights have no
    meaning.
    """
    scores = "score" in points_of[ref.name] and ref.name not in WEIGHTLESS
    return ref.weight == 0 and (point != "multiPoint" or not scores) and point != "score"

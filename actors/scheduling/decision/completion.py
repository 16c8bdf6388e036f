"""Completes a configuration as kube-scheduler does, and writes it in kube-scheduler's form: with
the default plugins merged in, and the arguments of every plugin with their defaults.

kube-scheduler reads the result. Mirrors the output of `--write-config-to`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from berth.config.extenders import without_ignored_resources
from berth.config.profiles import merged_multi_point
from berth.config.types import (
    API_VERSION,
    EXTENSION_POINTS,
    NEW_POINTS,
    Duration,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginRef,
    PluginSet,
)

from ..framework.interface import Plugin
from ..framework.plugin_args import TYPE_FIELDS, PluginArgs, read_args
from ..plugins.in_tree import IN_TREE

# Go writes these fields even if they are false, empty or null.
_ALWAYS = frozenset(
    (
        "filterTimeout",
        "ignorePreferredTermsOfExistingPods",
        "key",
        "name",
        "nodeSelectorTerms",
        "operator",
        "preference",
        "topologyKey",
        "urlPrefix",
    )
)
_EMPTY: tuple[object, ...] = (None, False, "", [], ())

Document = dict[str, Any]


def completed(
    configuration: KubeSchedulerConfiguration,
    registry: Mapping[str, type[Plugin]],
    gates: Mapping[str, bool],
) -> Document:
    """Returns the configuration as plain mappings, lists and values."""
    effective = without_ignored_resources(configuration)
    written: Document = _plain_values(effective)
    written["profiles"] = [_profile(profile, registry, gates) for profile in effective.profiles]
    written["extenders"] = [_extender(extender) for extender in written["extenders"]]
    for name in ("extenders", "delayCacheUntilActive"):
        if not written[name]:
            del written[name]
    connection = written["clientConnection"]
    if connection["qps"] == int(connection["qps"]):
        connection["qps"] = int(connection["qps"])
    return written


def _plain_values(value: object) -> Any:
    """Returns the value as plain values with every field; msgspec itself leaves out some fields
    with defaults.
    """
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {written: _plain_values(getattr(value, name)) for name, written in names}
    if isinstance(value, list | tuple):
        return [_plain_values(item) for item in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value.in_go() if isinstance(value, Duration) else value


def _without_empty(value: Any) -> Any:
    """Removes the fields that Go leaves out. An integer of 0 was set explicitly, and stays."""
    if isinstance(value, dict):
        return {
            name: _without_empty(below)
            for name, below in value.items()
            if name in _ALWAYS
            or (isinstance(below, int) and below is not False)
            or below not in _EMPTY
        }
    return [_without_empty(item) for item in value] if isinstance(value, list | tuple) else value


def _extender(extender: Document) -> Document:
    written: Document = _without_empty(extender)
    if not written.get("weight"):
        written.pop("weight", None)
    return written


def _profile(
    profile: KubeSchedulerProfile,
    registry: Mapping[str, type[Plugin]],
    gates: Mapping[str, bool],
) -> Document:
    multi_point = merged_multi_point(profile, gates)
    new = (point for point, change in NEW_POINTS.items() if gates[change])
    plugins = {
        point: _set_field(profile.plugins.at(point).enabled, profile.plugins.at(point))
        for point in (*EXTENSION_POINTS, *new)
    }
    plugins["multiPoint"] = _set_field(multi_point, profile.plugins.multi_point)
    needed = {ref["name"] for chosen in plugins.values() for ref in chosen.get("enabled", ())}
    written: Document = {"schedulerName": profile.scheduler_name, "plugins": plugins}
    config = [
        {"name": name, "args": args}
        for name in sorted(needed)
        if (args := _args(profile, name, registry, gates))
    ]
    if config:
        written["pluginConfig"] = config
    if profile.percentage_of_nodes_to_score is not None:
        written["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    return written


def _set_field(enabled: Sequence[PluginRef], own: PluginSet) -> Document:
    chosen: Document = {}
    if enabled:
        chosen["enabled"] = [{"name": ref.name, "weight": ref.weight or 0} for ref in enabled]
    if own.disabled:
        chosen["disabled"] = [{"name": ref.name, "weight": 0} for ref in own.disabled]
    return chosen


def _args(
    profile: KubeSchedulerProfile,
    name: str,
    registry: Mapping[str, type[Plugin]],
    gates: Mapping[str, bool],
) -> Document:
    """Returns the arguments of a plugin, with defaults if they have a type; otherwise unchanged."""
    configured = next((entry.args for entry in profile.plugin_config if entry.name == name), {})
    kind = registry[name].args_type
    if kind is None:
        return dict(configured)
    args = read_args(configured, kind, gates)
    if not issubclass(kind, PluginArgs):
        plain: Document = msgspec.json.decode(msgspec.json.encode(args))
        return plain
    values = _plain_values(args)
    typed = dict(zip(TYPE_FIELDS, (API_VERSION, f"{name}Args"), strict=True))
    return {**typed, **(_without_empty(values) if name in IN_TREE else values)}

"""The registry: the profiles of a configuration, built from plugin classes by name.

The caller gives the classes. Each lookup of a class may import the package that provides it, so a
profile's build looks up only the plugins that the profile names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import inf
from typing import TypeVar

import msgspec

from berth.config.profiles import (
    ProfileError,
    expand_profile,
    points_left_out,
    profile_warnings,
)
from berth.config.types import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
)

from ..framework import interface as api
from ..framework.breaker import Breaker
from ..framework.handle import Handles
from ..framework.interface import DependsOn, Plugin
from ..framework.measuring import UNMEASURED, Record
from ..framework.plugin_args import ArgsError, check_type_of_args, read_args
from ..kube.kinds import LOOKED_UP, WatchedKind
from ..kube.meta import ObjectMeta
from ..plugins.in_tree import IN_TREE
from ..plugins.node_unreadable import NodeUnreadable
from .failures import CRASHES, raise_if_not_plugins, text_of
from .overruns import calls_plugins
from .profile import Profile

V = TypeVar("V")
BreakerOf = Callable[[type[Plugin], str], Breaker]
_LOOKED_UP = tuple(kind.type for kind in LOOKED_UP)

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
    """Plugins in the configuration that cannot be used; each message starts with the field.

    `crashes` has the names and the exceptions of plugins that cannot be made.
    """

    def __init__(self, *problems: str, crashes: Iterable[tuple[str, BaseException]] = ()) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
        self.crashes = tuple(crashes)


@lru_cache(maxsize=256)
def extension_points(plugin: type[Plugin]) -> frozenset[str]:
    """Returns the extension points that a plugin class implements, with their names in the
    configuration file.
    """
    return frozenset(
        point for point, kinds in EXTENSION_POINTS.items() if issubclass(plugin, kinds)
    )


class OnDemand(Mapping[str, V]):
    """A mapping with fixed keys, which makes its value at each look-up."""

    def __init__(self, names: Sequence[str], make: Callable[[str], V]) -> None:
        self._names = dict.fromkeys(names)
        self._make = make

    def __getitem__(self, name: str) -> V:
        if name not in self._names:
            raise KeyError(name)
        return self._make(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def build_profiles(
    configuration: KubeSchedulerConfiguration,
    registry: Mapping[str, type[Plugin]],
    handle: Handles,
    gate_of: Callable[[str], Record] = lambda _: UNMEASURED,
    breaker_of: BreakerOf | None = None,
) -> dict[str, Profile]:
    """Returns a Profile for every scheduler name. Raises RegistryError with every field that is
    wrong. `gate_of` gives a profile's record of PreEnqueue, `breaker_of` the breaker of a
    plugin of a package in a profile.
    """
    points_of = _points_of(registry)
    profiles = {}
    problems: list[str] = []
    crashes: list[tuple[str, BaseException]] = []
    for i, profile in enumerate(configuration.profiles):
        path = f"profiles[{i}]"
        problems += _args_problems(profile, registry, handle.feature_gates, path)
        try:
            points = _plugins_by_point(profile, registry, points_of, handle, path, breaker_of)
        except (ArgsError, ProfileError, RegistryError) as invalid:
            problems += [problem for problem in invalid.problems if problem not in problems]
            crashes += invalid.crashes if isinstance(invalid, RegistryError) else ()
            continue
        profiles[profile.scheduler_name] = Profile(
            profile.scheduler_name,
            points,
            profile.percentage_of_nodes_to_score,
            gate_of(profile.scheduler_name),
        )
    if problems:
        raise RegistryError(*problems, crashes=crashes)
    return profiles


def plugin_problems(
    configuration: KubeSchedulerConfiguration,
    registry: Mapping[str, type[Plugin]],
    gates: Mapping[str, bool],
) -> list[str]:
    """Returns the problems of the plugins in profiles and of their arguments, without creating the
    plugins.
    """
    points_of = _points_of(registry)
    problems: list[str] = []
    for i, profile in enumerate(configuration.profiles):
        path = f"profiles[{i}]"
        enabled: frozenset[str] = frozenset()
        try:
            expanded = expand_profile(profile, points_of, path, gates)
            enabled = frozenset(each.name for point in expanded.values() for each in point)
        except ProfileError as invalid:
            problems += invalid.problems
        except RegistryError as invalid:
            problems.append(f"{path}.plugins: {invalid}")
        problems += _args_problems(profile, registry, gates, path, enabled)
    return problems


def plugin_warnings(
    configuration: KubeSchedulerConfiguration, registry: Mapping[str, type[Plugin]]
) -> list[str]:
    """Returns warnings about plugins without effect, and about those of packages that lack a part
    of themselves. kube-scheduler tolerates both.
    """
    warnings: list[str] = []
    points_of = _points_of(registry)
    for i, profile in enumerate(configuration.profiles):
        path = f"profiles[{i}]"
        warnings += profile_warnings(profile, registry, path)
        warnings += [
            f"{path}.plugins: {name} does not run at {', '.join(left_out)}, which it implements: "
            "multiPoint enables it at all points"
            for name, left_out in points_left_out(profile, points_of).items()
            if name not in IN_TREE
        ]
        warnings += [
            f"{path}.pluginConfig[{j}].args: no effect: {entry.name} takes no arguments"
            for j, entry in enumerate(profile.plugin_config)
            if entry.args and _takes_none(entry.name)
        ]
    return warnings


def _points_of(registry: Mapping[str, type[Plugin]]) -> OnDemand[frozenset[str]]:
    return OnDemand(tuple(registry), lambda name: extension_points(registry[name]))


def _takes_none(name: str) -> bool:
    """True for an in-tree plugin without arguments. kube-scheduler ignores arguments for it."""
    return name in IN_TREE and IN_TREE[name].args_type is None


def _args_problems(
    profile: KubeSchedulerProfile,
    registry: Mapping[str, type[Plugin]],
    gates: Mapping[str, bool],
    path: str,
    enabled: frozenset[str] = frozenset(),
) -> list[str]:
    """Returns the problems of the arguments of in-tree plugins, even disabled ones, and of the
    `enabled` plugins of packages, as far as their class tells. Those check more at their creation.
    """
    problems: list[str] = []
    for j, entry in enumerate(profile.plugin_config):
        in_tree = entry.name in IN_TREE
        kind = registry.get(entry.name) if in_tree or entry.name in enabled else None
        if kind is None or (in_tree and kind.args_type is None):
            continue
        field = f"{path}.pluginConfig[{j}].args"
        try:
            if in_tree:
                check_type_of_args(entry.args, entry.name)
            if kind.args_type is not None:
                read_args(entry.args, kind.args_type, gates)
            elif kind.__init__ is Plugin.__init__:
                kind.refuse_args(entry.args)
        except ArgsError as invalid:
            problems += [f"{field}.{problem}" for problem in invalid.problems]
    return problems


def _plugins_by_point(
    profile: KubeSchedulerProfile,
    registry: Mapping[str, type[Plugin]],
    points_of: Mapping[str, frozenset[str]],
    handle: Handles,
    path: str,
    breaker_of: BreakerOf | None,
) -> dict[str, list[tuple[Plugin, int]]]:
    """Returns the plugins of each extension point with their weights."""
    try:
        expanded = expand_profile(profile, points_of, path, handle.feature_gates)
    except RegistryError as problem:
        raise RegistryError(f"{path}.plugins: {problem}") from None
    names = {reference.name for enabled in expanded.values() for reference in enabled}
    plugins = {name: _make(registry[name], profile, handle, path) for name in sorted(names)}
    for name, plugin in plugins.items():
        with _made(name, path):  # its class may refuse attributes
            plugin.neighbours = tuple(plugins.values())
            if breaker_of is not None and type(plugin) is not IN_TREE.get(name):
                plugin.breaker = breaker_of(type(plugin), profile.scheduler_name)
    points: dict[str, list[tuple[Plugin, int]]] = {
        point: [(plugins[reference.name], reference.weight) for reference in enabled]
        for point, enabled in expanded.items()
    }
    points["filter"] = [(NodeUnreadable({}, handle), 0), *points.get("filter", ())]
    return points


@calls_plugins
def _make(kind: type[Plugin], profile: KubeSchedulerProfile, handle: Handles, path: str) -> Plugin:
    """Creates the plugin with the arguments from the profile."""
    args, field = {}, f".pluginConfig[{kind.name}].args"
    for j, entry in enumerate(profile.plugin_config):
        if entry.name == kind.name:
            args = {} if _takes_none(kind.name) else entry.args
            field = f".pluginConfig[{j}].args"
            break
    in_tree = IN_TREE.get(kind.name) is kind
    with _made(kind.name, path):
        try:
            own = handle if in_tree else handle.for_plugin(kind.name, kind.__module__)
            plugin = kind(args, own)
        except ArgsError as invalid:
            problems = (f"{path}{field}.{problem}" for problem in invalid.problems)
            raise RegistryError(*problems) from None
        made: object = plugin
        if not isinstance(made, Plugin):
            raise RegistryError(
                f"{path}: plugin {kind.name}: expected its class to make it, got {made!r:.80}"
            )
        _check_declarations(plugin, path)
    return plugin


@contextmanager
def _made(name: str, path: str) -> Iterator[None]:
    """Raises RegistryError for what a plugin raises while it is made."""
    try:
        yield
    except RegistryError:
        raise
    except CRASHES as exception:
        raise_if_not_plugins(exception)
        problem = f"{path}: plugin {name} cannot be made: {text_of(exception)}"
        raise RegistryError(problem, crashes=((name, exception),)) from None


def _check_declarations(plugin: Plugin, path: str) -> None:
    lookups: object = plugin.lookups
    if not isinstance(lookups, tuple | list):
        raise RegistryError(f"plugin {plugin.name}: lookups: expected a tuple, got {lookups!r:.80}")
    for kind in plugin.lookups:
        if isinstance(kind, WatchedKind) and (problem := _problem_of(kind)):
            raise RegistryError(f"plugin {plugin.name}: lookups: {kind.kind}: {problem}")
        if kind not in _LOOKED_UP and not isinstance(kind, WatchedKind):
            expected = ", ".join(each.__name__ for each in _LOOKED_UP)
            type_name = getattr(kind, "__name__", repr(kind))
            raise RegistryError(
                f"plugin {plugin.name}: lookups: expected a WatchedKind or some of {expected}, "
                f"got {type_name}"
            )
    depends_on: object = plugin.depends_on
    if not isinstance(depends_on, DependsOn):
        raise RegistryError(
            f"{path}: plugin {plugin.name}: expected depends_on to be a member of DependsOn, "
            f"got {depends_on!r}"
        )


def _problem_of(kind: WatchedKind) -> str:
    """Returns what is wrong with a kind that a plugin declares, "" for nothing."""
    of: object = kind.type
    if not (isinstance(of, type) and issubclass(of, msgspec.Struct)):
        return f"expected a type that is a msgspec Struct, got {of!r}"
    metadata = next((each for each in msgspec.structs.fields(of) if each.name == "metadata"), None)
    if metadata is None or metadata.type is not ObjectMeta:
        return f"expected {of.__name__} to have the field metadata: ObjectMeta"
    place = f"/{'apis' if '/' in kind.api_version else 'api'}/{kind.api_version}/"
    if not kind.path.startswith(place):
        return f"expected a path that begins with {place}, got {kind.path!r}"
    if not 0 <= kind.every < inf:
        return f"expected every to be a number of seconds, got {kind.every!r}"
    return ""

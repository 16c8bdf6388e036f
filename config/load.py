"""Reads a configuration as strictly as kube-scheduler does: an unknown field or a value that does
not fit is refused with the path of the field, and all problems are reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from .extenders import extender_problems
from .feature_gates import DEFAULTS, first_with
from .fields import Problems, converted, read_document, shown
from .legacy import refusal_of_removed
from .types import (
    API_VERSION,
    KIND,
    NEW_POINTS,
    RESOURCE_LOCKS,
    ClientConnectionConfiguration,
    Duration,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginSet,
)

# The fields of which Go cannot tell the zero value from an absent one.
_ZERO_IS_DEFAULT = {
    "leader_election": (
        LeaderElectionConfiguration(),
        (
            "lease_duration",
            "renew_deadline",
            "retry_period",
            "resource_lock",
            "resource_name",
            "resource_namespace",
        ),
    ),
    "client_connection": (ClientConnectionConfiguration(), ("content_type", "qps", "burst")),
}


class ConfigError(ValueError):
    """The configuration cannot be used. `problems` has a line for each reason; `file` is the file
    that was read, or "".
    """

    def __init__(self, *problems: str, file: str = "") -> None:
        super().__init__((f"{file}: " if file else "") + "; ".join(problems))
        self.problems = problems
        self.file = file


def from_mapping(
    document: Mapping[str, Any] | None, gates: Mapping[str, bool] = DEFAULTS
) -> KubeSchedulerConfiguration:
    """Reads, defaults and validates a configuration; None is the default. The gates say which
    fields of later versions are known. Raises ConfigError.
    """
    if document is None:
        return KubeSchedulerConfiguration()
    refusal = refusal_of_removed(document)
    if refusal:
        raise ConfigError(*refusal)
    version, kind = document.get("apiVersion"), document.get("kind")
    if version != API_VERSION:
        raise ConfigError(f"apiVersion: expected {API_VERSION}, got {_shown_or_nothing(version)}")
    if kind != KIND:
        raise ConfigError(f"kind: expected {KIND}, got {_shown_or_nothing(kind)}")
    problems = Problems()
    read: Any = read_document(document, KubeSchedulerConfiguration, problems)
    _check_points(read, gates, problems)
    if problems:
        raise ConfigError(*problems)
    return validated(_defaulted(converted(_completed(read), KubeSchedulerConfiguration)))


def validated(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Returns the configuration itself. Raises ConfigError with every problem in it."""
    problems = Problems()
    read_document(to_document(configuration), KubeSchedulerConfiguration, problems)
    _check_leader_election(configuration.leader_election, problems)
    initial, most = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    problems.expect(
        most >= initial,
        "podMaxBackoffSeconds",
        f"at least podInitialBackoffSeconds ({initial})",
        most,
    )
    _check_profiles(configuration.profiles, problems)
    problems += extender_problems(configuration.extenders)
    if problems:
        raise ConfigError(*problems)
    return configuration


def to_document(configuration: KubeSchedulerConfiguration) -> object:
    """Returns the configuration with all its defaults, as plain mappings, lists and values."""
    return plain(configuration)


def plain(value: object) -> object:
    """Returns a part of the configuration as mappings, lists and values; durations in Go's form."""
    builtins: object = msgspec.to_builtins(value, enc_hook=_encoded)
    return builtins


def _encoded(value: object) -> object:
    if isinstance(value, Duration):
        return value.in_go()
    raise NotImplementedError(type(value))


def _shown_or_nothing(value: object) -> str:
    return "nothing" if value is None else shown(value)


def _check_points(document: Any, gates: Mapping[str, bool], problems: Problems) -> None:
    """Adds a problem for each extension point that the version does not have."""
    profiles = document.get("profiles")
    for i, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        plugins = profile.get("plugins") if isinstance(profile, Mapping) else None
        for point in plugins if isinstance(plugins, Mapping) else ():
            if point in NEW_POINTS and not gates[NEW_POINTS[point]]:
                since = first_with(NEW_POINTS[point]).text
                problem = f"unknown field, Kubernetes has it since {since}"
                problems.add(f"profiles[{i}].plugins.{point}", problem)


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the document with the defaults that depend on other fields."""
    profiles = document.get("profiles") or [{}]
    if len(profiles) > 1:
        # Only a single profile has a default name.
        profiles = [{"schedulerName": "", **profile} for profile in profiles]
    profiling = document.get("enableProfiling", True)
    return {"enableContentionProfiling": profiling, **document, "profiles": profiles}


def _defaulted(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    changed = {}
    for part, (defaults, fields) in _ZERO_IS_DEFAULT.items():
        settings = getattr(configuration, part)
        zero = {name: getattr(defaults, name) for name in fields if not getattr(settings, name)}
        changed[part] = msgspec.structs.replace(settings, **zero)
    return msgspec.structs.replace(configuration, **changed)


def _check_leader_election(election: LeaderElectionConfiguration, problems: Problems) -> None:
    if not election.leader_elect:
        return
    path = "leaderElection"
    lease, renew, retry = election.lease_duration, election.renew_deadline, election.retry_period
    for name, duration in (("leaseDuration", lease), ("renewDeadline", renew)):
        problems.expect(duration > 0, f"{path}.{name}", "more than 0s", duration)
    problems.expect(retry > 0, f"{path}.retryPeriod", "more than 0s", retry)
    # kube-scheduler refuses this only when the election starts.
    expected = f"more than 1.2 x retryPeriod ({retry})"
    problems.expect(renew > retry * 1.2, f"{path}.renewDeadline", expected, renew)
    expected = f"more than renewDeadline ({renew})"
    problems.expect(lease > renew, f"{path}.leaseDuration", expected, lease)
    lock = election.resource_lock
    expected = f"one of {', '.join(RESOURCE_LOCKS)}"
    problems.expect(lock in RESOURCE_LOCKS, f"{path}.resourceLock", expected, repr(lock))
    name, namespace = election.resource_name, election.resource_namespace
    problems.expect(bool(name), f"{path}.resourceName", "a name", repr(name))
    problems.expect(bool(namespace), f"{path}.resourceNamespace", "a namespace", repr(namespace))


def _check_profiles(profiles: Sequence[KubeSchedulerProfile], problems: Problems) -> None:
    problems.expect(bool(profiles), "profiles", "at least one profile", "none")
    names = [profile.scheduler_name for profile in profiles]
    for i, profile in enumerate(profiles):
        path, name = f"profiles[{i}]", profile.scheduler_name
        problems.expect(bool(name), f"{path}.schedulerName", "a name", "nothing")
        expected = "a name of its own"
        problems.expect(
            not name or name not in names[:i], f"{path}.schedulerName", expected, repr(name)
        )
        problems.expect(
            _sorting(profile) == _sorting(profiles[0]),
            f"{path}.plugins.queueSort",
            "the same plugin with the same args in all profiles",
            "another one",
        )
        configured = [entry.name for entry in profile.plugin_config]
        for j, plugin in enumerate(configured):
            where = f"{path}.pluginConfig[{j}].name"
            expected = "a plugin named once"
            problems.expect(plugin not in configured[:j], where, expected, repr(plugin))


def _sorting(profile: KubeSchedulerProfile) -> object:
    """Returns the part of a profile that decides the order of the queue."""
    chosen: PluginSet = profile.plugins.queue_sort
    names = [ref.name for ref in chosen.enabled]
    args = [entry.args for entry in profile.plugin_config if entry.name in names[:1]]
    weights = [ref.weight or 0 for ref in chosen.enabled]
    return names, weights, [ref.name for ref in chosen.disabled], args

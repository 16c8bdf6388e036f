"""Strict reading of a configuration: an unknown field or a value out of range is refused with the
path of the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from berth.config.extenders import extender_problems
from berth.config.fields import path_first, without_nulls
from berth.config.types import API_VERSION, KIND, Duration, KubeSchedulerConfiguration


class ConfigError(ValueError):
    """The configuration cannot be used; `problems` has a line for each reason."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def from_mapping(document: Mapping[str, Any] | None) -> KubeSchedulerConfiguration:
    """Reads, defaults and validates a configuration; None gives the default one. Raises
    ConfigError.
    """
    if document is None:
        return KubeSchedulerConfiguration()
    if document.get("apiVersion") != API_VERSION:
        raise ConfigError(f"apiVersion: expected {API_VERSION}, got {document.get('apiVersion')!r}")
    if document.get("kind") != KIND:
        raise ConfigError(f"kind: expected {KIND}, got {document.get('kind')!r}")
    try:
        configuration = msgspec.convert(
            without_nulls(document), KubeSchedulerConfiguration, dec_hook=_decode
        )
    except msgspec.ValidationError as invalid:
        raise ConfigError(path_first(invalid, KubeSchedulerConfiguration)) from None
    return validated(configuration)


def validated(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """The configuration itself. Raises ConfigError with every problem in it."""
    problems = _problems(configuration)
    if problems:
        raise ConfigError(*problems)
    return configuration


def dump(configuration: KubeSchedulerConfiguration) -> str:
    """The configuration with all its defaults, as YAML that is read back to the same."""
    return yaml.safe_dump(to_document(configuration), sort_keys=False)


def to_document(configuration: KubeSchedulerConfiguration) -> object:
    """The configuration with all its defaults, as plain mappings, lists and values."""
    document: object = msgspec.to_builtins(configuration, enc_hook=str)
    return document


def _decode(kind: type, value: object) -> object:
    if kind is Duration:
        if not isinstance(value, str):
            raise ValueError(f"expected a duration such as 15s, got {value!r}")
        return Duration.parse(value)
    raise NotImplementedError(kind)


def _problems(configuration: KubeSchedulerConfiguration) -> list[str]:
    problems = []

    def expect(holds: bool, field: str, expected: str, got: object) -> None:
        if not holds:
            problems.append(f"{field}: expected {expected}, got {got}")

    c = configuration
    expect(c.parallelism > 0, "parallelism", "a positive integer", c.parallelism)
    percentage = c.percentage_of_nodes_to_score
    expect(0 <= percentage <= 100, "percentageOfNodesToScore", "0 to 100", percentage)
    initial, most = c.pod_initial_backoff_seconds, c.pod_max_backoff_seconds
    expect(initial > 0, "podInitialBackoffSeconds", "a positive integer", initial)
    expect(
        most >= initial,
        "podMaxBackoffSeconds",
        f"at least podInitialBackoffSeconds ({initial})",
        most,
    )
    connection = c.client_connection
    expect(
        connection.burst > 0 or connection.qps <= 0,
        "clientConnection.burst",
        "a positive integer",
        connection.burst,
    )
    election = c.leader_election
    if election.leader_elect:
        path = "leaderElection"
        lease, renew, retry = (
            election.lease_duration,
            election.renew_deadline,
            election.retry_period,
        )
        expect(retry > 0, f"{path}.retryPeriod", "more than 0s", retry)
        expect(
            renew > retry * 1.2,
            f"{path}.renewDeadline",
            f"more than 1.2 x retryPeriod ({retry})",
            renew,
        )
        expect(lease > renew, f"{path}.leaseDuration", f"more than renewDeadline ({renew})", lease)
        lock = election.resource_lock
        expect(lock == "leases", f"{path}.resourceLock", "leases", repr(lock))
        expect(
            bool(election.resource_name),
            f"{path}.resourceName",
            "a name",
            repr(election.resource_name),
        )
        namespace = election.resource_namespace
        expect(bool(namespace), f"{path}.resourceNamespace", "a namespace", repr(namespace))
    expect(bool(c.profiles), "profiles", "at least one profile", "none")
    names = [profile.scheduler_name for profile in c.profiles]
    for i, profile in enumerate(c.profiles):
        path = f"profiles[{i}]"
        expect(bool(names[i]), f"{path}.schedulerName", "a name", "''")
        expect(
            names[i] not in names[:i], f"{path}.schedulerName", "a name of its own", repr(names[i])
        )
        own = profile.percentage_of_nodes_to_score
        expect(own is None or 0 <= own <= 100, f"{path}.percentageOfNodesToScore", "0 to 100", own)
        configured = [entry.name for entry in profile.plugin_config]
        for j, name in enumerate(configured):
            expect(
                name not in configured[:j],
                f"{path}.pluginConfig[{j}].name",
                "a plugin named once",
                repr(name),
            )
    return problems + extender_problems(c.extenders)

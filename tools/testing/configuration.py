"""The configuration of a test's scheduler, and the plugins that it brings along."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from berth.actors.configuration.enabled_plugins import (
    Args,
    Plugins,
    with_plugins,
    with_plugins_of_files,
)
from berth.actors.configuration.file import load_file
from berth.config.load import ConfigError, from_mapping
from berth.config.types import API_VERSION, KIND, KubeSchedulerConfiguration

__all__ = [
    "NO_ARGS",
    "Args",
    "Configuration",
    "Plugins",
    "configuration_of",
    "refuse_extenders",
    "refuse_text",
    "with_plugins",
]

Configuration = Mapping[str, Any] | Path | None
NO_ARGS: Args = {}
_COMMON = {"apiVersion": API_VERSION, "kind": KIND, "leaderElection": {"leaderElect": False}}


def configuration_of(
    config: Configuration, gates: Mapping[str, bool], plugins: Plugins = ()
) -> KubeSchedulerConfiguration:
    """Returns a configuration: a file, or a mapping whose apiVersion and kind may be missing; by
    default kube-scheduler's. It may name these plugins. No leader is elected unless it says so. The
    plugins of files that are offered are enabled, as with every command. Raises ConfigError,
    RegistryError and TypeError.
    """
    refuse_text(config, "a mapping")
    if isinstance(config, Path):
        return load_file(config, gates, plugins)
    read = from_mapping({**_COMMON, **config}, gates) if config else _default()
    return with_plugins_of_files(read)


@cache
def _default() -> KubeSchedulerConfiguration:
    return from_mapping(_COMMON)


def refuse_extenders(configuration: KubeSchedulerConfiguration) -> None:
    """Raises ConfigError for extenders in virtual time, which passes before they have answered."""
    if configuration.extenders:
        raise ConfigError(
            "extenders: expected none in virtual time, which does not wait for their answers; a"
            " ServedCluster asks them"
        )


def refuse_text(given: object, expected: str) -> None:
    """Raises TypeError for a text, which most likely is the name of a file."""
    if isinstance(given, str):
        raise TypeError(f"expected {expected} or a Path, got {given!r}: Path({given!r})?")

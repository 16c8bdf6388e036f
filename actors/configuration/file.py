"""The configuration file of `--config`: YAML or JSON with one KubeSchedulerConfiguration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from berth.config.feature_gates import DEFAULTS
from berth.config.fields import sort_of
from berth.config.load import (
    ConfigError,
    from_mapping,
    validated,
)
from berth.config.schema import json_schema
from berth.config.types import (
    KIND,
    KubeSchedulerConfiguration,
)

from ..scheduling.decision.completion import completed
from ..scheduling.decision.registry import plugin_problems, plugin_warnings
from ..scheduling.framework.plugin_args import read_args
from ..scheduling.kube.yaml_documents import documents
from ..scheduling.plugins.in_tree import IN_TREE
from .plugin_packages import every_plugin

MOST_BYTES = 16 << 20


class ConfigurationFile:
    """A file that is read again while its configuration is in use. `finish` applies what does not
    come from the file, such as flags.
    """

    def __init__(
        self,
        path: str | Path,
        gates: Mapping[str, bool] = DEFAULTS,
        finish: Callable[[KubeSchedulerConfiguration], KubeSchedulerConfiguration] = validated,
    ) -> None:
        self.path = str(path)
        self._gates = gates
        self._finish = finish
        self.parsed = b""  # the content that was parsed last

    def read(self) -> bytes:
        """The content of the file. Raises ConfigError."""
        return _read(self.path)

    def parse(self, raw: bytes) -> KubeSchedulerConfiguration:
        """The configuration of a content. Raises ConfigError with every problem."""
        self.parsed = raw
        return self._finish(_parsed(raw, self.path, self._gates))

    def warnings(self, configuration: KubeSchedulerConfiguration) -> list[str]:
        """What a configuration says without effect, a line each; kube-scheduler accepts it too."""
        return warnings_of(configuration)


def load_file(path: str | Path, gates: Mapping[str, bool] = DEFAULTS) -> KubeSchedulerConfiguration:
    """Reads, defaults and validates a configuration file. Raises ConfigError with every problem."""
    return _parsed(_read(str(path)), str(path), gates)


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=path) from None
    if len(raw) > MOST_BYTES:
        raise ConfigError(f"expected at most {MOST_BYTES} bytes", file=path)
    return raw


def _parsed(raw: bytes, path: str, gates: Mapping[str, bool]) -> KubeSchedulerConfiguration:
    document = _document(raw, path)
    try:
        configuration = from_mapping(document)
    except ConfigError as invalid:
        raise ConfigError(*invalid.problems, file=path) from None
    problems = plugin_problems(configuration, every_plugin(), gates)
    if problems:
        raise ConfigError(*problems, file=path)
    return configuration


def warnings_of(configuration: KubeSchedulerConfiguration) -> list[str]:
    """What a configuration says without effect, a line each; kube-scheduler accepts it too."""
    return plugin_warnings(configuration, every_plugin())


def written(configuration: KubeSchedulerConfiguration, gates: Mapping[str, bool] = DEFAULTS) -> str:
    """The configuration with all its defaults, as kube-scheduler writes and reads it."""
    return yaml.safe_dump(completed(configuration, every_plugin(), gates))


def read_document(path: str | Path) -> Mapping[str, Any]:
    """The one document of a file, as it is written. Raises ConfigError."""
    return _document(_read(str(path)), str(path))


def _document(raw: bytes, path: str) -> Mapping[str, Any]:
    try:
        found = [document for document in documents(raw) if document is not None]
    except ValueError as error:
        raise ConfigError(f"cannot be read: {error}", file=path) from None
    if len(found) != 1:
        got = len(found) or "none"
        raise ConfigError(f"expected one document, a {KIND}, got {got}", file=path)
    if not isinstance(found[0], Mapping):
        raise ConfigError(f"expected a {KIND}, got {sort_of(found[0])}", file=path)
    return found[0]


def schema() -> dict[str, Any]:
    """The JSON Schema of a configuration file, with the plugins that are installed."""
    registry = every_plugin()
    types = {name: kind.args_type for name, kind in IN_TREE.items()}
    args = {name: read_args({}, kind, DEFAULTS) for name, kind in types.items() if kind is not None}
    return json_schema(registry, args)

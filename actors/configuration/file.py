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

from ..runtime.own_thread import in_daemon_thread
from ..scheduling.decision.completion import completed
from ..scheduling.decision.registry import plugin_problems, plugin_warnings
from ..scheduling.framework.plugin_args import read_args
from ..scheduling.kube.yaml_documents import documents
from ..scheduling.plugins.in_tree import IN_TREE
from .enabled_plugins import Plugins, with_plugins_of_files
from .plugin_packages import every_plugin

MOST_BYTES = 16 << 20


class ConfigurationFile:
    """A file that is read again while its configuration is in use. `finish` applies settings from
    elsewhere, such as flags.
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
        """Returns the content of the file. Raises ConfigError."""
        return _read(self.path)

    async def read_again(self) -> bytes | None:
        """Returns the present content; None unless it is a regular file, because the content of a
        pipe is gone once it is read.

        Waits in a thread, because a file system may hang. Raises ConfigError.
        """
        return await in_daemon_thread(self.read_if_regular, "configuration file")

    def read_if_regular(self) -> bytes | None:
        path = Path(self.path)
        return None if path.exists() and not path.is_file() else self.read()

    def parse(self, raw: bytes) -> KubeSchedulerConfiguration:
        """Returns the configuration that the content of a file states. Raises ConfigError with
        every problem.
        """
        self.parsed = raw
        return self._finish(_parsed(raw, self.path, self._gates))


def load_file(
    path: str | Path, gates: Mapping[str, bool] = DEFAULTS, others: Plugins = ()
) -> KubeSchedulerConfiguration:
    """Reads, defaults and validates a configuration file, which may name these other plugins.
    Raises ConfigError with every problem.
    """
    return _parsed(_read(str(path)), str(path), gates, others)


def file_or_default(
    path: str | Path | None, gates: Mapping[str, bool] = DEFAULTS
) -> KubeSchedulerConfiguration:
    """Reads a configuration file; without one, returns the default configuration. Raises
    ConfigError.
    """
    return load_file(path, gates) if path else with_plugins_of_files(from_mapping(None))


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=path) from None
    if len(raw) > MOST_BYTES:
        raise ConfigError(f"expected at most {MOST_BYTES} bytes", file=path)
    return raw


def _parsed(
    raw: bytes, path: str, gates: Mapping[str, bool], others: Plugins = ()
) -> KubeSchedulerConfiguration:
    document = _document(raw, path)
    try:
        configuration = from_mapping(document, gates)
    except ConfigError as invalid:
        raise ConfigError(*invalid.problems, file=path) from None
    problems = plugin_problems(configuration, every_plugin(others), gates)
    if problems:
        raise ConfigError(*problems, file=path)
    return with_plugins_of_files(configuration)


def warnings_of(configuration: KubeSchedulerConfiguration, raw: bytes) -> list[str]:
    """Returns a line for each setting without effect in the content of a file. kube-scheduler
    accepts such settings too.
    """
    more = sum(document is not None for document in documents(raw)) - 1
    ignored = "the documents after the first have no effect, as in kube-scheduler"
    return [*([ignored] if more > 0 else ()), *plugin_warnings(configuration, every_plugin())]


def completed_text(
    configuration: KubeSchedulerConfiguration, gates: Mapping[str, bool] = DEFAULTS
) -> str:
    """Returns the configuration with all defaults, in the form that kube-scheduler writes and
    reads.
    """
    return yaml.safe_dump(completed(configuration, every_plugin(), gates))


def read_document(path: str | Path) -> Mapping[str, Any]:
    """Returns the first document of a file, unchanged. Raises ConfigError."""
    return _document(_read(str(path)), str(path))


def _document(raw: bytes, path: str) -> Mapping[str, Any]:
    try:
        mappings = [document for document in documents(raw) if document is not None]
    except ValueError as error:
        raise ConfigError(f"cannot be read: {error}", file=path) from None
    if not mappings:
        raise ConfigError(f"expected a document, a {KIND}, got none", file=path)
    first = mappings[0]
    if not isinstance(first, Mapping):
        raise ConfigError(f"expected a {KIND}, got {sort_of(first)}", file=path)
    if first.get("kind") == "ConfigMap":
        raise ConfigError(
            f"expected a {KIND}, got a ConfigMap{_path_in_config_map(first)}", file=path
        )
    return first


def _path_in_config_map(config_map: Mapping[str, Any]) -> str:
    """Returns the path in a ConfigMap at which the configuration stands, if it does."""
    data = config_map.get("data")
    texts = data.items() if isinstance(data, Mapping) else ()
    names = [name for name, text in texts if isinstance(text, str) and KIND in text]
    return f"; write the text of its data[{names[0]!r}] to a file of its own" if names else ""


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of a configuration file, with the plugins that are installed."""
    registry = every_plugin()
    types = {name: kind.args_type for name, kind in IN_TREE.items()}
    args = {name: read_args({}, kind, DEFAULTS) for name, kind in types.items() if kind is not None}
    return json_schema(registry, args)

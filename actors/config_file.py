"""The configuration file of `--config`: YAML or JSON with one KubeSchedulerConfiguration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from berth.actors.scheduling.kube.yaml_documents import documents
from berth.config.fields import sort_of
from berth.config.load import ConfigError, from_mapping
from berth.config.types import KIND, KubeSchedulerConfiguration


def load_file(path: str | Path) -> KubeSchedulerConfiguration:
    """Reads, defaults and validates a configuration file. Raises ConfigError."""
    try:
        found = [
            document for document in documents(Path(path).read_bytes()) if document is not None
        ]
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: cannot be read: {problem}") from None
    if len(found) != 1:
        raise ConfigError(f"{path}: expected one document, a {KIND}, got {len(found) or 'none'}")
    if not isinstance(found[0], Mapping):
        raise ConfigError(f"{path}: expected a {KIND}, got {sort_of(found[0])}")
    return from_mapping(found[0])

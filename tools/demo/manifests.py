"""Manifests from files and folders: ordinary Kubernetes YAML, several documents a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tools.apiserver.resources import KINDS, Kind

BY_KIND = {(kind.api_version, kind.kind): kind for kind in KINDS}
WITHOUT_CONTROLLER = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController")


class ManifestError(ValueError):
    """A manifest cannot be used; the message names the file."""


def read(paths: Iterable[Path]) -> list[tuple[Kind, dict[str, Any]]]:
    """Every document of the files, and of the *.yaml, *.yml and *.json files of the folders. Raises ManifestError."""
    return [found for path in paths for file in _files(path) for found in _documents(file)]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.suffix in (".yaml", ".yml", ".json"))
    return [path]


def _documents(file: Path) -> Iterable[tuple[Kind, dict[str, Any]]]:
    try:
        documents = [document for document in yaml.safe_load_all(file.read_text(encoding="utf-8")) if document]
    except (OSError, UnicodeDecodeError) as problem:
        raise ManifestError(f"{file}: cannot be read: {problem}") from None
    except yaml.YAMLError as problem:
        raise ManifestError(f"{file}: no valid YAML: {' '.join(str(problem).split())}") from None
    for number, document in enumerate(documents, 1):
        where = f"{file}, document {number}"
        if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
            raise ManifestError(f"{where}: expected an object with apiVersion, kind and metadata")
        kind = BY_KIND.get((document.get("apiVersion", ""), document.get("kind", "")))
        if kind is None:
            raise ManifestError(f"{where}: unknown kind {document.get('apiVersion')} {document.get('kind')}")
        if kind.kind in WITHOUT_CONTROLLER:
            raise ManifestError(f"{where}: no controller for {kind.kind} runs here yet; give its pods instead")
        yield kind, document

"""Manifests from files and folders: ordinary Kubernetes YAML or JSON, several documents a file, Lists taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.apiserver.resources import BY_KIND, Kind

SUFFIXES = (".yaml", ".yml", ".json")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ManifestError(ValueError):
    """A manifest cannot be used; the message names the file."""


def read(paths: Iterable[Path]) -> list[tuple[Kind, dict[str, Any]]]:
    """Every object of the files, and of the *.yaml, *.yml and *.json files of the folders. Raises ManifestError."""
    return [found for path in paths for file in _files(path) for found in _documents(file)]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
    return [path]


def _documents(file: Path) -> Iterator[tuple[Kind, dict[str, Any]]]:
    try:
        documents = [d for d in yaml.load_all(file.read_text(encoding="utf-8"), _LOADER) if d is not None]
    except (OSError, UnicodeDecodeError) as problem:
        raise ManifestError(f"{file}: cannot be read: {problem}") from None
    except yaml.YAMLError as problem:
        raise ManifestError(f"{file}: no valid YAML: {' '.join(str(problem).split())}") from None
    for number, document in enumerate(documents, 1):
        yield from _objects(document, f"{file}, document {number}")


def _objects(document: Any, where: str) -> Iterator[tuple[Kind, dict[str, Any]]]:
    if not isinstance(document, dict) or not {"kind", "apiVersion"} <= document.keys():
        raise ManifestError(f"{where}: expected an object with apiVersion, kind and metadata")
    if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
        for number, item in enumerate(document["items"]):
            yield from _objects(item, f"{where}, items[{number}]")
        return
    if not isinstance(document.get("metadata"), dict):
        raise ManifestError(f"{where}: metadata: expected an object with a name")
    kind = BY_KIND.get((str(document.get("apiVersion", "")), str(document.get("kind", ""))))
    if kind is None:
        raise ManifestError(f"{where}: unknown kind {document.get('apiVersion')} {document.get('kind')}")
    yield kind, document

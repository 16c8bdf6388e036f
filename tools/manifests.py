"""Reads manifests from files and folders: Kubernetes YAML or JSON, several documents per file.

Lists are split into their items. The check is as strict as kubectl's: an error names the path of an
unknown field or of a value of the wrong type. The API server's rules check the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from berth.actors.scheduling.kube.yaml_documents import (
    YamlError,
    documents,
)

from .apiserver.resources import BY_KIND, Kind
from .apiserver.schema import unknown_and_mistyped

SUFFIXES = (".yaml", ".yml", ".json")
Document = dict[str, Any]


class ManifestError(ValueError):
    """A manifest cannot be used; the message names the file."""


def read(paths: Iterable[Path]) -> list[tuple[Kind, Document]]:
    """Every object of the files and, for folders, of their *.yaml, *.yml and *.json files.

    Raises ManifestError.
    """
    return [(kind_of(document, where), document) for document, where in found_in(paths)]


def found_in(paths: Iterable[Path]) -> Iterator[tuple[Document, str]]:
    """Objects of any kind, which have metadata, each with its place in the files.

    Raises ManifestError.
    """
    return (found for path in paths for file in _files(path) for found in _objects_of(file))


def _files(path: Path) -> list[Path]:
    """Raises ManifestError for a folder without such files."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise ManifestError(
            f"{path}: expected a folder with {', '.join(f'*{suffix}' for suffix in SUFFIXES)} files"
        )
    return files


def _objects_of(file: Path) -> Iterator[tuple[Document, str]]:
    """Raises ManifestError, also for an empty file."""
    try:
        found = [document for document in documents(file.read_bytes()) if document is not None]
    except OSError as problem:
        raise ManifestError(f"{file}: cannot be read: {problem.strerror}") from None
    except YamlError as problem:
        raise ManifestError(f"{file}: cannot be read: {problem}") from None
    if not found:
        raise ManifestError(
            f"{file}: expected an object with apiVersion, kind and metadata, got nothing"
        )
    for number, document in enumerate(found, 1):
        yield from _objects(document, f"{file}, document {number}")


def _objects(document: Any, where: str) -> Iterator[tuple[Document, str]]:
    if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
        raise ManifestError(f"{where}: expected an object with apiVersion, kind and metadata")
    version, name = str(document["apiVersion"]), str(document["kind"])
    if name.endswith("List") and (version, name) not in BY_KIND:
        items = document.get("items") or []
        if not isinstance(items, list):
            raise ManifestError(f"{where}: items: expected a list")
        for number, item in enumerate(items):
            yield from _objects(item, f"{where}, items[{number}]")
        return
    if not isinstance(document.get("metadata"), dict):
        raise ManifestError(f"{where}: metadata: expected an object with a name")
    yield document, where


def kind_of(document: Document, where: str) -> Kind:
    """The kind of an object. Raises ManifestError if berth does not know it, or if the object does
    not have its fields.
    """
    version, name = str(document["apiVersion"]), str(document["kind"])
    kind = BY_KIND.get((version, name))
    if kind is None:
        raise ManifestError(f"{where}: unknown kind {version} {name}")
    found = unknown_and_mistyped(kind.type_name, document)
    if found.mistyped:
        raise ManifestError(f"{_named(where, document)}: {found.where}: {found.mistyped}")
    if found.unknown:
        raise ManifestError(f"{_named(where, document)}: {', '.join(found.unknown)}")
    return kind


def _named(where: str, document: Document) -> str:
    name = document["metadata"].get("name")
    return (
        f"{where}, {document['kind']} {name}"
        if isinstance(name, str) and name
        else f"{where}, {document['kind']}"
    )

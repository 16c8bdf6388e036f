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
    """Reads every object of the files and, for folders, of their *.yaml, *.yml and *.json files.

    Raises ManifestError.
    """
    return [(kind_of(document, where), document) for document, where in objects_in(paths)]


def objects_in(paths: Iterable[Path]) -> Iterator[tuple[Document, str]]:
    """Yields every object that has metadata, of any kind, each with its place in the files.

    Raises ManifestError.
    """
    return (placed for path in paths for file in _files(path) for placed in _objects_of(file))


def _files(path: Path) -> list[Path]:
    """Returns the files of a path. Raises ManifestError for a folder without manifests."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise ManifestError(
            f"{path}: expected a folder with {', '.join(f'*{suffix}' for suffix in SUFFIXES)} files"
        )
    return files


def _objects_of(file: Path) -> Iterator[tuple[Document, str]]:
    """Yields the objects of a file with their places. Raises ManifestError, also if it is empty."""
    try:
        contents = [document for document in documents(file.read_bytes()) if document is not None]
    except OSError as problem:
        raise ManifestError(f"{file}: cannot be read: {problem.strerror}") from None
    except YamlError as problem:
        raise ManifestError(f"{file}: cannot be read: {problem}") from None
    if not contents:
        raise ManifestError(
            f"{file}: expected an object with apiVersion, kind and metadata, got nothing"
        )
    for number, document in enumerate(contents, 1):
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
    """Returns the kind of an object. Raises ManifestError if berth does not know the kind, or if
    the object has fields that the kind does not have.
    """
    version, name = str(document["apiVersion"]), str(document["kind"])
    kind = BY_KIND.get((version, name))
    if kind is None:
        raise ManifestError(f"{where}: unknown kind {version} {name}")
    problems = unknown_and_mistyped(kind.type_name, document)
    if problems.mistyped:
        raise ManifestError(f"{_named(where, document)}: {problems.where}: {problems.mistyped}")
    if problems.unknown:
        raise ManifestError(f"{_named(where, document)}: {', '.join(problems.unknown)}")
    return kind


def _named(where: str, document: Document) -> str:
    name = document["metadata"].get("name")
    return (
        f"{where}, {document['kind']} {name}"
        if isinstance(name, str) and name
        else f"{where}, {document['kind']}"
    )

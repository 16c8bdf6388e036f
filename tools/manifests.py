"""Reads manifests from files and folders: Kubernetes YAML or JSON, several documents per file.

Lists are split into their items. The check is as strict as kubectl's: an error names the path of an
unknown field or of a value of the wrong type. The API server's rules check the values. Objects of
kinds that neither the scheduler nor a controller here reads, such as an Ingress, are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from berth.actors.scheduling.kube.yaml_documents import (
    YamlError,
    documents,
)
from berth.config.fields import suggestion

from .apiserver.resources import BY_KIND, Kind
from .apiserver.schema import unknown_and_mistyped

SUFFIXES = (".yaml", ".yml", ".json")
STANDARD_INPUT = Path("-")
Document = dict[str, Any]
_KUSTOMIZATION = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
_NOTHING = "expected an object with apiVersion, kind and metadata, got nothing"
_VERSIONS_OF: dict[str, list[str]] = {}
for _version, _name in BY_KIND:
    _VERSIONS_OF.setdefault(_name, []).append(_version)


class ManifestError(ValueError):
    """A manifest cannot be used; the message names the file."""


class Manifests(msgspec.Struct):
    """The objects in files: objects of berth's kinds, objects of `declared` kinds, and the number
    of objects of each kind that is left out.
    """

    objects: list[tuple[Kind, Document]] = []
    others: list[Document] = []
    left_out: dict[str, int] = {}

    @property
    def report(self) -> str:
        """A line about the objects that are left out; "" if there are none."""
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.left_out.items()))
        return f"left out: {kinds}: nothing for the scheduler" if kinds else ""


def read(paths: Iterable[Path], declared: Collection[tuple[str, str]] = ()) -> Manifests:
    """Reads every object of the files and, for folders, of their *.yaml, *.yml and *.json files;
    the path `-` is the standard input. `declared` are the apiVersions and names of further kinds.

    A file of a folder may hold no object, but not all of its files. Raises ManifestError.
    """
    return _sorted_out((pair for path in paths for pair in _objects_at(path)), declared)


def read_objects(objects: Iterable[Any], where: str) -> Manifests:
    """Sorts objects that are not in files; messages name their place. Raises ManifestError."""
    pairs = (_objects(each, f"{where}[{number}]") for number, each in enumerate(objects))
    return _sorted_out(chain.from_iterable(pairs), ())


def read_text(text: bytes, where: str) -> Manifests:
    """Reads the objects of a YAML text, which messages name `where`. Raises ManifestError, also
    without any.
    """
    pairs = list(_objects_in(text, where))
    if not pairs:
        raise ManifestError(f"{where}: {_NOTHING}")
    return _sorted_out(pairs, ())


def _sorted_out(
    objects: Iterable[tuple[Document, str]], declared: Collection[tuple[str, str]]
) -> Manifests:
    manifests = Manifests()
    for document, where in objects:
        version, name = document["apiVersion"], document["kind"]
        if (version, name) in BY_KIND:
            manifests.objects.append((kind_of(document, where), document))
        elif name in _VERSIONS_OF:
            expected = " or ".join(_VERSIONS_OF[name])
            raise ManifestError(f"{where}: unknown kind {version} {name}: expected {expected}")
        elif (version, name) in declared:
            _named_object(document, where)
            manifests.others.append(document)
        else:
            shown = f"{name}{_hint(version, name)}"
            manifests.left_out[shown] = manifests.left_out.get(shown, 0) + 1
    return manifests


def _hint(version: str, name: str) -> str:
    """Returns the kind of the same apiVersion whose name is near, as a question, or ""."""
    near = suggestion(name, (kind for of, kind in BY_KIND if of == version))
    return f" ({near.removeprefix(', ')})" if near else ""


def _objects_at(path: Path) -> Iterator[tuple[Document, str]]:
    """Yields the objects of a path with their places. Raises ManifestError, also without any."""
    found = False
    for file in _files(path) if path.is_dir() else (path,):
        for pair in _objects_of(file):
            found = True
            yield pair
    if not found:
        raise ManifestError(f"{_place_of(path)}: {_NOTHING}")


def _files(path: Path) -> list[Path]:
    """Returns the files of a folder. Raises ManifestError if it has none with manifests."""
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise ManifestError(
            f"{path}: expected a folder with {', '.join(f'*{suffix}' for suffix in SUFFIXES)} files"
        )
    return files


def _objects_of(file: Path) -> Iterator[tuple[Document, str]]:
    """Yields the objects of a file with their places. Raises ManifestError."""
    place = _place_of(file)
    try:
        text = sys.stdin.buffer.read() if file == STANDARD_INPUT else file.read_bytes()
    except OSError as problem:
        raise ManifestError(f"{place}: cannot be read: {problem.strerror}") from None
    return _objects_in(text, place, is_kustomization=file.stem == "kustomization")


def _place_of(path: Path) -> str:
    return "standard input" if path == STANDARD_INPUT else str(path)


def _objects_in(
    text: bytes, place: str, *, is_kustomization: bool = False
) -> Iterator[tuple[Document, str]]:
    """Yields the objects of a text with their places. Raises ManifestError."""
    try:
        contents = [document for document in documents(text) if document is not None]
    except YamlError as problem:
        raise ManifestError(f"{place}: cannot be read: {problem}") from None
    if is_kustomization:
        contents = [{**_KUSTOMIZATION, **part} for part in contents if isinstance(part, dict)]
    for number, document in enumerate(contents, 1):
        yield from _objects(document, f"{place}, document {number}")


def _objects(document: Any, where: str) -> Iterator[tuple[Document, str]]:
    kinds = (document.get("apiVersion"), document.get("kind")) if isinstance(document, dict) else ()
    if not kinds or not all(part and isinstance(part, str) for part in kinds):
        raise ManifestError(f"{where}: expected an object with apiVersion, kind and metadata")
    version, name = document["apiVersion"], document["kind"]
    if name.endswith("List") and (version, name) not in BY_KIND:
        items = document.get("items") or []
        if not isinstance(items, list):
            raise ManifestError(f"{where}: items: expected a list")
        for number, item in enumerate(items):
            yield from _objects(item, f"{where}, items[{number}]")
        return
    yield document, where


def _named_object(document: Document, where: str) -> None:
    if not isinstance(document.get("metadata"), dict):
        raise ManifestError(f"{where}: metadata: expected an object with a name")


def kind_of(document: Document, where: str) -> Kind:
    """Returns the kind of an object. Raises ManifestError if berth does not know the kind, or if
    the object has fields that the kind does not have.
    """
    _named_object(document, where)
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

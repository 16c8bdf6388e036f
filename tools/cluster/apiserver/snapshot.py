"""A snapshot: all objects of a cluster in one file, in the form of `kubectl get -o yaml`.

Objects with a uid and a resourceVersion are put back as they are, unlike manifests, which are
created. So a dump of another cluster can be read as well as a file that a server has saved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import msgspec

from berth.actors.scheduling.kube.yaml_documents import YamlError, documents

from ...kubernetes.api.store import DEFINITIONS, Store
from ...kubernetes.api.types.api_documents import Document, RefusedError, names_of
from ...kubernetes.api.types.conversion import stored_form
from ...kubernetes.api.types.resources import BY_KIND, Kind
from ...kubernetes.api.writes.registry import Api
from .kept_errors import SnapshotError

_NAMESPACE = BY_KIND["v1", "Namespace"]
_HEAD = b'{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":[\n'
_PRIVATE = 0o600  # there are secrets in the file


def load_snapshot(store: Store, path: Path) -> None:
    """Fills an empty store with the objects of a file. Raises SnapshotError and OSError."""
    fill_store(store, read_snapshot(path), str(path))


def read_snapshot(path: Path) -> list[Document]:
    """Returns the objects of a file. Raises SnapshotError and OSError."""
    return [*_flat(_documents(path))]


def fill_store(store: Store, found: Sequence[Document], where: str) -> None:
    """Fills an empty store with objects. Raises SnapshotError, which names their place."""
    definitions = [each for each in found if each.get("kind") == DEFINITIONS.kind]
    others = [each for each in found if each.get("kind") != DEFINITIONS.kind]
    try:
        _load(store, definitions)
        _load(store, others)
    except (SnapshotError, RefusedError) as problem:
        raise SnapshotError(f"{where}: {problem}") from None


def _load(store: Store, documents: Iterable[Document]) -> None:
    """Puts objects back, and creates the new ones. Raises SnapshotError and RefusedError."""
    found = [(_kind_of(store, document), document) for document in documents]
    for kind, document in found:
        if _is_stored(document):
            store.restore(kind.stored_as or kind, stored_form(kind, document))
    store.compact()
    api = Api(store)
    api.seed()
    new = [each for each in found if not _is_stored(each[1])]
    spaces = {names_of(document)[0] or "default" for kind, document in found if kind.namespaced}
    made = {document["metadata"]["name"] for kind, document in new if kind == _NAMESPACE}
    for name in sorted(spaces - made):
        if store.find(_NAMESPACE, "", name) is None:
            api.create(_NAMESPACE, "", {"metadata": {"name": name}})
    for kind, document in sorted(new, key=lambda each: each[0] != _NAMESPACE):
        _create(api, kind, document)


def save_snapshot(store: Store, path: Path) -> None:
    """Writes all objects to a file, a line for each. The file is replaced once the new one is
    whole. Raises OSError.
    """
    beside = path.with_name(path.name + ".new")
    with FileIO(beside, "wb", opener=_private) as file:
        with suppress(FileNotFoundError):
            beside.chmod(path.stat().st_mode)
        lines = [stored.raw for _, stored in store.everything()]
        _write(file, _HEAD + b",\n".join(lines) + b"\n]}\n")
        os.fsync(file.fileno())
    beside.replace(path)


def _kind_of(store: Store, document: Document) -> Kind:
    """Returns the kind of an object. Raises SnapshotError if there is none, or no name."""
    place = str(document.get("apiVersion")), str(document.get("kind"))
    kind = BY_KIND.get(place) or store.catalog.named(*place)
    if kind is None:
        raise SnapshotError(f"there is no kind {place[1]} in {place[0]}")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not _are_names(names_of(document)):
        raise SnapshotError(f"an object of kind {place[1]} has no name")
    return kind


def _documents(path: Path) -> list[Any]:
    """Returns what is in a file. A file of JSON is read as that, which is much quicker."""
    raw = path.read_bytes()
    try:
        return [msgspec.json.decode(raw)]
    except msgspec.DecodeError:
        try:
            return [*documents(raw)]
        except YamlError as problem:
            raise SnapshotError(f"{path}, {problem}") from None


def _flat(read: Iterable[Any]) -> Iterator[Document]:
    """Yields the objects and those in lists, such as a v1 List or a PodList."""
    for document in read:
        if document is None:
            continue
        if not isinstance(document, dict):
            raise SnapshotError("expected objects or lists of them")
        items = document.get("items")
        kind = str(document.get("kind"))
        if kind.endswith("List") and isinstance(items, list):
            of = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
            yield from _flat({**of, **item} if isinstance(item, dict) else item for item in items)
        else:
            yield document


def _are_names(names: tuple[Any, Any]) -> bool:
    namespace, name = names
    return isinstance(namespace, str) and isinstance(name, str) and bool(name)


def _is_stored(document: Document) -> bool:
    metadata = document["metadata"]
    return bool(metadata.get("uid")) and str(metadata.get("resourceVersion", "")).isdecimal()


def _create(api: Api, kind: Kind, document: Document) -> None:
    """Creates an object, with its status. Raises RefusedError."""
    namespace = (names_of(document)[0] or "default") if kind.namespaced else ""
    created = api.create(kind, namespace, document).document
    status = document.get("status")
    if kind.status and status:
        name = created["metadata"]["name"]
        api.update(kind, namespace, name, {**created, "status": status}, "status")


def _write(file: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, _PRIVATE)

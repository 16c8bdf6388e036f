"""A cluster from a dump: objects as an API server has stored them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..cluster.apiserver.kept_errors import SnapshotError
from ..cluster.apiserver.snapshot import fill_store, read_snapshot
from ..kubernetes.api.store import Store

Document = dict[str, Any]
SUFFIXES = (".yaml", ".yml", ".json")


def load_dump(store: Store, path: Path) -> None:
    """Fills an empty store from a file or from the files of a folder and its sub-folders, such as
    `kubectl get -A -o yaml`, `kubectl cluster-info dump --output-directory` or `berth apiserver
    --snapshot` writes them. Objects keep their uids and their status.

    What belongs to an object that is not in the dump belongs to nobody, so that the garbage
    collector leaves it there. Raises SnapshotError and OSError.
    """
    files = sorted(_files(path)) if path.is_dir() else [path]
    found = [document for file in files for document in read_snapshot(file)]
    if not found:
        raise SnapshotError(f"{path}: expected objects, got none")
    fill_store(store, [*_without_absent_owners(found)], str(path))


def _files(folder: Path) -> Iterable[Path]:
    return (file for file in folder.rglob("*") if file.suffix in SUFFIXES and file.is_file())


def _without_absent_owners(found: list[Document]) -> Iterable[Document]:
    metadata = (document.get("metadata") for document in found)
    uids = {of.get("uid") for of in metadata if isinstance(of, dict)}
    for document in found:
        about = document.get("metadata")
        owners = about.get("ownerReferences") if isinstance(about, dict) else None
        if not isinstance(about, dict) or not owners:
            yield document
            continue
        present = [owner for owner in owners if owner.get("uid") in uids]
        yield {**document, "metadata": {**about, "ownerReferences": present}}

"""Reads the files of devices that users give to the hollow driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from berth.actors.scheduling.kube.yaml_documents import (
    YamlError,
    documents,
)

from ...kubernetes.devices.inventory import Inventory, InventoryError, checked_inventory, is_object
from ...kubernetes.objects.structs import Document


def read_inventories(path: Path) -> list[Inventory]:
    """Returns the inventories of a file. Raises InventoryError."""
    inventories: list[Inventory] = []
    seen: set[tuple[str, str]] = set()
    for number, document in enumerate(_documents(path), 1):
        if is_object(document):
            continue
        where = f"{path}, document {number}"
        inventory = checked_inventory(document, where)
        place = inventory.driver, inventory.pool
        if inventory.network and place in seen:
            expected = f'another name than "{inventory.pool}", which an earlier document has'
            raise InventoryError(f"{where}: pool: expected {expected}")
        if inventory.network:
            seen.add(place)
        inventories.append(inventory)
    return inventories


def read_objects(path: Path) -> list[tuple[Document, str]]:
    """Returns the objects of Kubernetes in a file of devices, each with its place.

    Raises InventoryError.
    """
    objects: list[tuple[Document, str]] = []
    for number, document in enumerate(_documents(path), 1):
        where = f"{path}, document {number}"
        if not is_object(document):
            continue
        if not document.get("apiVersion") or not isinstance(document.get("metadata"), dict):
            expected = "an object with apiVersion, kind and metadata"
            raise InventoryError(f"{where}: expected {expected}")
        objects.append((document, where))
    return objects


def _documents(path: Path) -> list[Any]:
    try:
        return [document for document in documents(path.read_bytes()) if document is not None]
    except OSError as problem:
        raise InventoryError(f"{path}: cannot be read: {problem.strerror}") from None
    except YamlError as problem:
        raise InventoryError(f"{path}: cannot be read: {problem}") from None

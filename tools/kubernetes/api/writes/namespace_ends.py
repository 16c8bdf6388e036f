"""The end of a namespace: it is marked as Terminating, emptied by a controller, then deleted."""

from __future__ import annotations

from ..store import Store
from ..types.api_documents import StoredObject, names_of
from .admission import NAMESPACES
from .first_objects import FIRST_NAMESPACES
from .namespace_objects import EVERYWHERE, is_of_every_namespace
from .new_objects import FINALIZER
from .refusals import forbidden


def terminating(store: Store, namespace: StoredObject) -> StoredObject:
    """Marks a namespace as Terminating, so that nothing enters it. Returns it.

    Raises RefusedError with 403 for a namespace that every cluster has.
    """
    metadata = namespace.document["metadata"]
    name = metadata["name"]
    if name in FIRST_NAMESPACES:
        raise forbidden(NAMESPACES, name, "this namespace may not be deleted")
    if "deletionTimestamp" in metadata:
        return namespace
    status = {**(namespace.document.get("status") or {}), "phase": "Terminating"}
    metadata = {**metadata, "deletionTimestamp": store.outside.now()}
    ending = {**namespace.document, "metadata": metadata, "status": status}
    return store.update(NAMESPACES, ending)


def end_if_empty(store: Store, name: str) -> StoredObject | None:
    """Deletes a namespace that is Terminating, if nothing is left that it waits for."""
    namespace = store.find(NAMESPACES, "", name)
    if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
        return None
    others = {*((namespace.get("spec") or {}).get("finalizers") or ())} - {FINALIZER}
    if others or namespace["metadata"].get("finalizers") or not _is_empty(store, name):
        return None
    for kind in EVERYWHERE:
        for stored in list(store.list(kind, name)):
            store.delete(kind, *names_of(stored.document))
    return store.delete(NAMESPACES, "", name)


def _is_empty(store: Store, namespace: str) -> bool:
    """True if a namespace has nothing but what every namespace has."""
    return all(
        is_of_every_namespace(kind, stored.document["metadata"]["name"])
        for kind in store.catalog.kinds
        if kind.namespaced
        for stored in store.list(kind, namespace)
    )

"""The life of a CustomResourceDefinition: its names, and its end.

A definition that is deleted stays until its objects are gone; they are deleted first. Mirrors the
controllers naming, establishing and finalizer of k8s.io/apiextensions-apiserver, which here act at
once.
"""

from __future__ import annotations

from collections.abc import Callable

from ..requests.request_bodies import DeleteOptions
from ..store import DEFINITIONS, Store
from ..types.api_documents import Document, RefusedError, StoredObject
from ..types.resources import Kind

_PENDING = (
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)
_IN_PROGRESS = "InstanceDeletionInProgress", "CustomResource deletion is in progress"
# Deletes an object without asking admission policies.
Delete = Callable[[Kind, StoredObject, DeleteOptions], StoredObject]


def settle_names(store: Store, changed: Document) -> None:
    """Accepts names of definitions, after one of their group was written or deleted."""
    from ..types.custom_definitions import settled  # most stores have no custom kinds

    group = changed["spec"]["group"]
    of_group = [
        stored.document
        for stored in store.list(DEFINITIONS)
        if stored.document["spec"]["group"] == group
    ]
    for i, definition in enumerate(of_group):
        others = of_group[:i] + of_group[i + 1 :]
        after = settled(definition, others, store.outside.now())
        if after is not definition:
            of_group[i] = store.update(DEFINITIONS, after).document


def check_not_ending(store: Store, kind: Kind, document: Document) -> None:
    """Raises RefusedError with 403 for a new object whose definition is being deleted."""
    if kind.custom is None:
        return
    definition = store.find(DEFINITIONS, "", kind.custom.definition)
    if definition is not None and "deletionTimestamp" in definition["metadata"]:
        why = "create not allowed while custom resource definition is terminating"
        metadata = document.get("metadata")
        name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
        details = {"name": name, "group": kind.group, "kind": kind.plural}
        message = f'{kind.resource} "{name}" is forbidden: {why}'
        raise RefusedError(403, "Forbidden", message, details)


def end_definition(store: Store, before: StoredObject, delete: Delete) -> StoredObject:
    """Deletes a definition and its objects; returns it as it was when its end began."""
    from ..types.custom_definitions import CLEANUP, with_condition

    definition, metadata = before.document, before.document["metadata"]
    name = metadata["name"]
    if "deletionTimestamp" not in metadata:
        finalizers = [*(metadata.get("finalizers") or ()), CLEANUP]
        now = store.outside.now()
        ending = {**metadata, "deletionTimestamp": now, "finalizers": [*dict.fromkeys(finalizers)]}
        doomed = {**definition, "metadata": ending}
        pending = store.update(DEFINITIONS, with_condition(doomed, "Terminating", *_PENDING, now))
        ended = with_condition(pending.document, "Terminating", *_IN_PROGRESS, now)
        store.update(DEFINITIONS, ended)
        before = pending
    for kind in _kinds_of(store, name):
        for stored in list(store.list(kind)):
            delete(kind, stored, DeleteOptions(propagation_policy="Background"))
    end_if_unused(store, name)
    return before


def _kinds_of(store: Store, name: str) -> list[Kind]:
    return [kind for kind in store.catalog.added if kind.custom and kind.custom.definition == name]


def end_if_unused(store: Store, name: str) -> StoredObject | None:
    """Takes the finalizer from a definition that is being deleted, once it has no objects, and
    removes it if it has no other. Returns it.
    """
    from ..types.custom_definitions import CLEANUP

    definition = store.find(DEFINITIONS, "", name)
    if definition is None or "deletionTimestamp" not in definition["metadata"]:
        return None
    if any(True for kind in _kinds_of(store, name) for _ in store.list(kind)):
        return None
    metadata = definition["metadata"]
    others = [each for each in metadata.get("finalizers") or () if each != CLEANUP]
    if not others:
        gone = store.delete(DEFINITIONS, "", name)
        settle_names(store, gone.document)
        return gone
    if len(others) == len(metadata.get("finalizers") or ()):
        return None
    return store.update(DEFINITIONS, {**definition, "metadata": {**metadata, "finalizers": others}})

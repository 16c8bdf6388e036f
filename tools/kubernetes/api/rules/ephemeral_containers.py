"""Rules for the ephemeral containers of a pod: they are added to a pod that exists, and stay.

Mirrors podEphemeralContainersStrategy and ValidatePodEphemeralContainersUpdate.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..types.schema import TYPES, canonical
from .fields import Document, forbidden
from .pod_updates import MIRROR

_FIELD = "ephemeralContainers"
_PATH = f"spec.{_FIELD}"


def with_ephemeral_containers(after: Document, before: Document) -> Document:
    """Returns a pod with the ephemeral containers of `after`, and otherwise unchanged."""
    spec = {field: value for field, value in before["spec"].items() if field != _FIELD}
    if after["spec"].get(_FIELD):
        spec[_FIELD] = after["spec"][_FIELD]
    metadata = {**before["metadata"]}
    for field in ("resourceVersion", "generation"):
        if field in after["metadata"]:
            metadata[field] = after["metadata"][field]
    return {**after, "metadata": metadata, "spec": spec}


def ephemeral_update(after: Document, before: Document) -> Iterator[str]:
    """Yields the problems of an update, besides those of the pod itself. Both pods have their
    defaults.
    """
    if MIRROR in (before["metadata"].get("annotations") or {}):
        yield forbidden("[]", "static pods do not support ephemeral containers")
        return
    shape = TYPES["EphemeralContainer"]
    added = after["spec"].get(_FIELD) or ()
    now = {each.get("name", ""): canonical(shape, each) for each in added}
    for each in before["spec"].get(_FIELD) or ():
        name = each["name"]
        which = f'existing ephemeral containers "{name}" may not be'
        if name not in now:
            yield forbidden(_PATH, f"{which} removed\n")
        elif now[name] != canonical(shape, each):
            yield forbidden(_PATH, f"{which} changed\n")

"""Kinds that two API versions serve: an object is stored in one form, and converted for the other.

An Event of events.k8s.io/v1 is stored as one of core/v1. The two differ in the names of their
fields and in what a client may write (see rules.cluster). A HorizontalPodAutoscaler of
autoscaling/v1 is stored as one of v2 (see autoscaler_versions), devices of v1beta1 and v1beta2 as
those of v1 (see device_versions). The versions of a custom kind are told
apart by their apiVersion alone.
"""

from __future__ import annotations

import msgspec

from .api_documents import Document, StoredObject
from .autoscaler_versions import as_v1, as_v2
from .device_versions import as_devices_v1, as_devices_v1beta1
from .resources import Kind

_DEVICES = "resource.k8s.io"
_STORED = {
    "deprecatedCount": "count",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedSource": "source",
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
}
_SERVED = {stored: served for served, stored in _STORED.items()}


def stored_form(kind: Kind, document: Document) -> Document:
    """Returns the document of one version of a kind in the version that is stored; a custom object
    stays as it is, because its own version validates it.
    """
    if kind.stored_as is None or kind.custom is not None:
        return document
    if kind.kind == "Event":
        stored = {_STORED.get(name, name): value for name, value in document.items()}
    elif kind.group == _DEVICES:
        stored = as_devices_v1(document) if kind.version == "v1beta1" else document
    else:
        stored = as_v2(document)
    return {**stored, "apiVersion": kind.stored_as.api_version}


def served_form(kind: Kind, document: Document) -> Document:
    """Converts a stored document to the form of this kind."""
    if kind.stored_as is None:
        return document
    if kind.custom is not None:
        return in_version(kind, document)
    if kind.kind == "Event":
        served = {_SERVED.get(name, name): value for name, value in document.items()}
    elif kind.group == _DEVICES:
        served = as_devices_v1beta1(document) if kind.version == "v1beta1" else document
    else:
        served = as_v1(document)
    return {**served, "apiVersion": kind.api_version}


def served_raw(kind: Kind, stored: StoredObject) -> bytes:
    """Returns the JSON of `served_form`."""
    if kind.stored_as is None:
        return stored.raw
    document = served_form(kind, stored.document)
    if document is stored.document:
        return stored.raw
    return msgspec.json.encode(served_form(kind, stored.whole))


def in_version(kind: Kind, document: Document) -> Document:
    """Returns a custom object in the version of a custom kind."""
    if kind.custom is None or document["apiVersion"] == kind.api_version:
        return document
    from .custom_decoding import without_unknown  # where a definition has several versions

    here = {**document, "apiVersion": kind.api_version}
    return without_unknown(here, kind.custom.schema)[0]


def in_stored_version(kind: Kind, document: Document) -> Document:
    """Returns a custom object in the version in which it is to be stored."""
    if kind.custom is None or document["apiVersion"] == kind.custom.stored_version:
        return document
    from .custom_decoding import decoded

    there = {**document, "apiVersion": kind.custom.stored_version}
    return decoded(there, kind.custom.stored_schema).document

"""Kinds that are served by two APIs: each object is stored in one form and shown in the other one,
too.

There is one such kind: an Event of events.k8s.io/v1 is stored as one of core/v1. The two differ in
the names of their fields, and in what may be written through them (see rules.cluster).
"""

from __future__ import annotations

import msgspec
from berth.tools.apiserver.resources import Kind
from berth.tools.apiserver.store import Document, Stored

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
    """A document as it came, of the fields that its kind has, as it is stored."""
    if kind.stored_as is None:
        return document
    renamed = {_STORED.get(name, name): value for name, value in document.items()}
    return {**renamed, "apiVersion": kind.stored_as.api_version}


def served_form(kind: Kind, document: Document) -> Document:
    """A stored document as the API of this kind shows it."""
    if kind.stored_as is None:
        return document
    renamed = {_SERVED.get(name, name): value for name, value in document.items()}
    return {**renamed, "apiVersion": kind.api_version}


def served_raw(kind: Kind, stored: Stored) -> bytes:
    """The JSON of `served_form`."""
    return (
        stored.raw
        if kind.stored_as is None
        else msgspec.json.encode(served_form(kind, stored.document))
    )

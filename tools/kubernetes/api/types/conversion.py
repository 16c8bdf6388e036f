"""Kinds that two API versions serve: an object is stored in one form, and converted for the other.

An Event of events.k8s.io/v1 is stored as one of core/v1. The two differ in the names of their
fields and in what a client may write (see rules.cluster). A HorizontalPodAutoscaler of
autoscaling/v1 is stored as one of v2 (see autoscaler_versions), devices of v1beta1 and v1beta2 as
those of v1 (see device_versions). The versions of a custom kind are told
apart by their apiVersion alone, unless a webhook converts them (see webhook_conversion).
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """Returns a custom object in the version of a custom kind. Raises what a webhook does that
    converts it.
    """
    custom = kind.custom
    if custom is None or document["apiVersion"] == kind.api_version:
        return document
    from .custom_decoding import with_defaults, without_unknown  # where there are several versions

    if custom.webhook is None:
        here = {**document, "apiVersion": kind.api_version}
    else:
        here = with_defaults(custom.webhook.converted(document, kind.api_version), custom.schema)
    return without_unknown(here, custom.schema)[0]


def in_stored_version(kind: Kind, document: Document) -> Document:
    """Returns a custom object in the version in which it is to be stored. Raises what a webhook
    does that converts it.
    """
    custom = kind.custom
    if custom is None or document["apiVersion"] == custom.stored_version:
        return document
    from .custom_decoding import decoded

    if custom.webhook is None:
        there = {**document, "apiVersion": custom.stored_version}
        return decoded(there, custom.stored_schema).document
    there = custom.webhook.converted(document, custom.stored_version)
    there = decoded(there, custom.stored_schema).document
    in_version(kind, there)  # the answer has to be known before anything is stored
    return there


def prepare_conversion(kind: Kind, documents: Sequence[Document]) -> None:
    """Raises ConversionsNeededError if a webhook has to convert some of these stored objects before
    they can be shown as objects of this kind.
    """
    if kind.custom is not None and kind.custom.webhook is not None:
        kind.custom.webhook.prepare(documents, kind.api_version)

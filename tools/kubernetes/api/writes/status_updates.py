"""What a write of a status, or of an approval, makes of an object.

Mirrors the strategies of pkg/registry for these subresources.
"""

from __future__ import annotations

from functools import cache

from ..store import Store
from ..types.api_documents import Document
from ..types.conversion import stored_form
from ..types.defaults import defaulted
from ..types.resources import BY_KIND, Kind
from ..types.schema import Shape
from ..types.status_metadata import with_sent_metadata
from .admission import DEVICE_CLAIMS, admin_access_problems
from .admission_order import AdmissionAttributes, with_mutated_status
from .certificate_requests import REQUESTS, check_signer, decided, decision_problems
from .evictions import PODS
from .object_rules import problems_of_status
from .pod_conditions import written_status
from .refusals import refuse_invalid
from .service_addresses import SERVICES

NODES = BY_KIND["v1", "Node"]


def with_status(write: AdmissionAttributes, version: str) -> Document:
    """Returns the object before with what `after`, which the client sent, says of its status.
    Raises RefusedError.
    """
    kind, sent, before = write.kind, write.after, write.before or {}
    metadata = {**before["metadata"], "resourceVersion": version}
    metadata = with_sent_metadata(kind, metadata, sent.get("metadata") or {})
    status = stored_form(kind, sent).get("status") or {}
    if kind.custom is None:
        status = with_whole_conditions(shape_of(write.store, kind), status)
    if kind is PODS:
        status = written_status(status, before.get("status") or {})
    write.after = {**before, "metadata": metadata, "status": status}
    if kind.custom is not None and "status" not in sent:
        del write.after["status"]
    if write.caller is not None and write.caller.changes_objects(write.store):
        write.after = with_mutated_status(write)
    if (kind.stored_as or kind) is DEVICE_CLAIMS[0]:
        return _checked_claim(write, before)
    if kind is REQUESTS:
        return _decided(write, before)
    refuse_invalid(kind, write.after, problems_of_status(kind, write.after, before))
    return defaulted(kind, write.after) if kind in (NODES, SERVICES) else write.after


def shape_of(store: Store, kind: Kind) -> Shape:
    """Returns the type of the stored objects of a built-in kind."""
    return store.catalog.types[(kind.stored_as or kind).type_name]


def _decided(write: AdmissionAttributes, before: Document) -> Document:
    """Returns a certificate request with a decision or a certificate. Raises RefusedError."""
    now, subresource = write.store.outside.now(), write.subresource
    after = {**write.after, "status": decided(subresource, write.after["status"], before, now)}
    refuse_invalid(REQUESTS, after, decision_problems(subresource, after, before))
    if write.caller is not None:
        check_signer(write.store, write.caller.user, subresource, after)
    return after


def _checked_claim(write: AdmissionAttributes, before: Document) -> Document:
    """Returns a claim with its new status. Raises RefusedError with 422 if it is invalid."""
    from ..rules.device_claim_rules import without_deallocated

    status = without_deallocated(write.after["status"], before.get("status") or {})
    after = {**write.after, "status": status}
    problems = admin_access_problems(write.store, write.kind, after, before)
    if write.caller is not None:
        problems += write.caller.claim_problems(write.store, after, before)
    refuse_invalid(write.kind, after, problems + problems_of_status(write.kind, after, before))
    return after


def with_whole_conditions(shape: Shape, status: Document) -> Document:
    """Returns a status of a type of object whose conditions all have a type and a status, "" where
    the client sent none.
    """
    conditions = status.get("conditions")
    blank = _always_written(shape)
    if not conditions or all(field in each for each in conditions for field in blank):
        return status
    return {**status, "conditions": [{**blank, **each} for each in conditions]}


@cache
def _always_written(shape: Shape) -> Document:
    """Returns the required texts of a condition, empty."""
    place = shape
    for step in ("status", "conditions"):
        field = (place.fields or {}).get(step)
        if field is None:
            return {}
        place = field.shape
    fields = (place.item.fields if place.item is not None else None) or {}
    return {
        name: ""
        for name, field in fields.items()
        if field.required and field.shape.name == "string"
    }

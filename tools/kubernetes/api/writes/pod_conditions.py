"""Conditions that the API server itself sets in a pod's status."""

from __future__ import annotations

from ..types.api_documents import Document


def with_condition(
    status: Document, kind: str, value: str, now: str, reason: str = "", message: str = ""
) -> Document:
    """Returns a pod's status with this condition, which replaces the condition of the same type.

    Its lastTransitionTime changes only if `value` (True or False) changes.
    """
    conditions: list[Document] = list(status.get("conditions") or ())
    place = next(
        (i for i, condition in enumerate(conditions) if condition["type"] == kind), len(conditions)
    )
    before = conditions[place : place + 1]
    since = (
        before[0].get("lastTransitionTime") if before and before[0].get("status") == value else None
    )
    condition: Document = {
        "type": kind,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": since or now,
    }
    condition |= {field: text for field, text in (("reason", reason), ("message", message)) if text}
    conditions[place : place + 1] = [condition]
    return {**status, "conditions": conditions}

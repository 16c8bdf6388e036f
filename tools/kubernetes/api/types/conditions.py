"""The conditions of a status, as Go writes them: with the fields that it does not omit."""

from __future__ import annotations

from functools import cache

from .api_documents import Document
from .schema import Shape


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

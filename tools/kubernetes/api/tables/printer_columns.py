"""The columns of a custom kind, from additionalPrinterColumns; its age, if there are none.

Mirrors k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from ..types.api_documents import Document
from ..types.resources import Kind
from .column import AGE, NAME, Column
from .duration import age
from .json_path import found


def columns_of(kind: Kind) -> tuple[Column, ...]:
    custom = kind.custom
    assert custom is not None
    return (NAME, *(map(_column, custom.columns) if custom.columns else (AGE,)))


def _column(told: Document) -> Column:
    return Column(
        told["name"],
        _cell(told["jsonPath"], told["type"]),
        told.get("description")
        or f"Custom resource definition column (in JSONPath format): {told['jsonPath']}",
        told["type"],
        told.get("priority", 0),
        told.get("format", ""),
    )


def _cell(path: str, type_: str) -> Callable[[Document, datetime], Any]:
    def cell(document: Document, now: datetime) -> Any:
        values = found(path, document)
        return _shown(values[0], type_, now) if values else None

    return cell


def _shown(value: Any, type_: str, now: datetime) -> Any:
    """Returns a value in the type of its column; None if it has another."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match type_:
        case "string":
            if isinstance(value, dict | list | bool):
                return msgspec.json.encode(value).decode()
            return None if value is None else str(value)
        case "integer":
            return int(value) if is_number else None
        case "number":
            return value if is_number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return age(value, now) if isinstance(value, str) else None
        case _:
            return None

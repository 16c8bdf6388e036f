"""Columns of a table, and the functions with which their cells read documents.

Documents of the store are as clients wrote them, unvalidated and without defaults. The readers here
accept anything: where a field is missing or of another type, they return the API's default.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from ..types.api_documents import Document
from .duration import age

Cell = str | int | bool
Read = Callable[[Document, datetime], Cell]
WIDE = 1
NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"


class Column(msgspec.Struct, frozen=True):
    """A column. The function `cell` takes the object and the time.

    kubectl shows a column of WIDE priority only with -o wide.
    """

    name: str
    cell: Read
    description: str
    type: str = "string"
    priority: int = 0
    format: str = ""

    def definition(self) -> Document:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def value_at(document: Document, *path: str) -> Any:
    """Returns the value at a path of keys, or None."""
    value: Any = document
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def text(document: Document, *path: str, default: str = "") -> str:
    """Returns a non-empty string, or the digits of a number, as an int-or-string or a quantity may
    be.
    """
    value = value_at(document, *path)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return default
    return str(value) or default


def number(document: Document, *path: str, default: int = 0) -> int:
    value = value_at(document, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def flag(document: Document, *path: str, default: bool = False) -> bool:
    value = value_at(document, *path)
    return value if isinstance(value, bool) else default


def mapping(document: Document, *path: str) -> Document:
    value = value_at(document, *path)
    return value if isinstance(value, dict) else {}


def entries(document: Document, *path: str) -> list[Document]:
    """Returns the objects of a list."""
    value = value_at(document, *path)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def strings(document: Document, *path: str) -> list[str]:
    """Returns the strings of a list."""
    value = value_at(document, *path)
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def condition(document: Document, type_: str) -> str:
    """Returns the status of the first condition of this type: True, False or Unknown; else ""."""
    return next(
        (
            text(c, "status")
            for c in entries(document, "status", "conditions")
            if c.get("type") == type_
        ),
        "",
    )


def labels_text(labels: Document) -> str:
    return ",".join(sorted(f"{key}={value}" for key, value in labels.items())) or NONE


def selector_text(selector: Document) -> str:
    """Writes a metav1.LabelSelector in the notation of kubectl's -l; "" if it selects all."""
    requirements = [
        (key, f"{key}={value}") for key, value in mapping(selector, "matchLabels").items()
    ]
    for expression in entries(selector, "matchExpressions"):
        key, values = text(expression, "key"), ",".join(sorted(strings(expression, "values")))
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        requirements.append((key, forms.get(text(expression, "operator"), f"!{key}")))
    return ",".join(requirement for _, requirement in sorted(requirements))


def field(*path: str, default: str = "") -> Read:
    return lambda document, _: text(document, *path, default=default)


def integer(*path: str) -> Read:
    return lambda document, _: number(document, *path)


def boolean(*path: str, default: bool = False) -> Read:
    return lambda document, _: flag(document, *path, default=default)


def size(*paths: tuple[str, ...]) -> Read:
    """Returns a reader that counts the entries of the lists and objects at these paths."""

    def read(document: Document, _: datetime) -> int:
        values = [value_at(document, *path) for path in paths]
        return sum(len(value) for value in values if isinstance(value, dict | list))

    return read


def label_selector(*path: str) -> Read:
    return lambda document, _: selector_text(mapping(document, *path)) or NONE


def since(*path: str) -> Read:
    """Returns a reader of the time that has passed since the timestamp at this path."""
    return lambda document, now: age(text(document, *path), now)


NAME = Column(
    "Name", field("metadata", "name"), "Name of the object, unique in its namespace.", format="name"
)
AGE = Column("Age", since("metadata", "creationTimestamp"), "Time since the object was created.")

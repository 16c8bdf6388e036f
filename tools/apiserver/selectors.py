"""Label and field selectors of list and watch requests."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from actors.kube.labels import SelectorError, parse
from tools.apiserver.store import Document, Refused

Matches = Callable[[Document], bool]
_FIELD = re.compile(r"([\w.]+)(!=|==|=)(.*)")


def matches_of(labels: str, fields: str) -> Matches | None:
    """What a request selects; None if everything. Raises Refused with 400."""
    chosen = [match for match in (_labels(labels), _fields(fields)) if match is not None]
    match chosen:
        case []:
            return None
        case [one]:
            return one
        case _:
            return lambda document: all(match(document) for match in chosen)


def _labels(text: str) -> Matches | None:
    if not text.strip():
        return None
    try:
        selector = parse(text)
    except SelectorError as problem:
        raise Refused(400, "BadRequest", f"unable to parse requirement: {problem}") from None
    return lambda document: selector.matches(document["metadata"].get("labels") or {})


def _fields(text: str) -> Matches | None:
    requirements = []
    for part in filter(None, text.split(",")):
        match = _FIELD.fullmatch(part)
        if match is None:
            raise Refused(
                400, "BadRequest", f"invalid selector: {part!r}; can't understand it as key=value or key!=value"
            )
        path, operator, value = match.groups()
        requirements.append((tuple(path.split(".")), value, operator != "!="))
    if not requirements:
        return None

    def holds(document: Document) -> bool:
        return all((_field(document, path) == value) == equal for path, value, equal in requirements)

    return holds


def _field(document: Document, path: tuple[str, ...]) -> str:
    found: Any = document
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return str(found).lower()
    return "" if found is None else str(found)

"""Label and field selectors of list and watch requests."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tools.apiserver.store import Document, Refused

Matches = Callable[[Document], bool]
_SET = re.compile(r"(!?)\s*([\w./-]+)\s*(?:(=|==|!=)\s*([\w.-]*)|(in|notin)\s*\(([^)]*)\))?")
_SPLIT = re.compile(r",(?![^(]*\))")


def labels_match(text: str) -> Matches:
    """A label selector as kubectl's -l takes it. Raises Refused with 400."""
    requirements = [_requirement(part.strip()) for part in _SPLIT.split(text) if part.strip()]
    return lambda document: all(holds(document["metadata"].get("labels") or {}) for holds in requirements)


def _requirement(text: str) -> Callable[[dict[str, str]], bool]:
    match = _SET.fullmatch(text)
    if match is None:
        raise Refused(400, "BadRequest", f"labelSelector: cannot read {text!r}")
    absent, key, operator, value, in_set, values = match.groups()
    if in_set:
        wanted = {part.strip() for part in values.split(",")}
        return lambda labels: (labels.get(key) in wanted) == (in_set == "in")
    if operator:
        return lambda labels: (labels.get(key) == value) == (operator != "!=")
    return lambda labels: (key in labels) != bool(absent)


def fields_match(text: str) -> Matches:
    """A field selector such as `spec.nodeName!=,status.phase=Running`. Raises Refused with 400."""
    requirements = []
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"([\w.]+)(!=|==|=)(.*)", part)
        if match is None:
            raise Refused(400, "BadRequest", f"fieldSelector: cannot read {part!r}")
        requirements.append(match.groups())

    def holds(document: Document) -> bool:
        return all((_field(document, path) == value) == (op != "!=") for path, op, value in requirements)

    return holds


def _field(document: Document, path: str) -> str:
    found: Any = document
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return str(found).lower()
    return "" if found is None else str(found)

"""The subresource scale of a custom kind: its replicas and its selector are where the definition
says.
"""

from __future__ import annotations

from typing import Any

from ..types.api_documents import Document, RefusedError
from ..types.resources import Kind


def replicas_and_selector(kind: Kind, document: Document) -> tuple[int, int, str]:
    """Returns the wanted replicas, the present ones, and the selector."""
    scale = kind.custom.scale if kind.custom is not None else None
    assert scale is not None
    wanted = value_at(document, scale["specReplicasPath"])
    present = value_at(document, scale["statusReplicasPath"])
    selector = value_at(document, scale.get("labelSelectorPath") or "") or ""
    return int(wanted or 0), int(present or 0), str(selector)


def check_replicas(kind: Kind, document: Document) -> None:
    """Raises RefusedError with 500 for a custom object that has no wanted replicas."""
    scale = kind.custom.scale if kind.custom is not None else None
    if scale is not None and value_at(document, scale["specReplicasPath"]) is None:
        message = f'the spec replicas field "{scale["specReplicasPath"]}" does not exist'
        why = f"Internal error occurred: {message}"
        raise RefusedError(500, "InternalError", why, {"causes": [{"message": message}]})


def with_custom_replicas(kind: Kind, document: Document, replicas: int) -> Document:
    """Returns a custom object with other replicas."""
    scale = kind.custom.scale if kind.custom is not None else None
    assert scale is not None
    after: Document = _with(
        document, scale["specReplicasPath"].removeprefix(".").split("."), replicas
    )
    return after


def _with(value: Any, steps: list[str], new: int) -> Any:
    if not steps:
        return new
    below = value if isinstance(value, dict) else {}
    return {**below, steps[0]: _with(below.get(steps[0]), steps[1:], new)}


def value_at(document: Document, path: str) -> Any:
    """Returns the value at a path such as `.spec.replicas`; None if there is none."""
    value: Any = document
    for step in path.removeprefix(".").split("."):
        if type(value) is not dict or step not in value:
            return None
        value = value[step]
    return value

"""The option `timeout` of a request, a duration in Go's notation.

An answer needs no waiting, so any duration that can be read is long enough.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..types.api_documents import RefusedError

_PART = re.compile(r"(\d+\.?\d*|\.\d+)([^.\d]*)")
_UNITS = ("ns", "us", "µs", "μs", "ms", "s", "m", "h")


def check_timeout(query: Mapping[str, str]) -> None:
    """Raises RefusedError with 400 for a timeout that is no duration."""
    text = query.get("timeout", "")
    if text and (problem := _problem(text)):
        message = f"invalid timeout specified in the request URL - time: {problem}"
        raise RefusedError(400, "BadRequest", message)


def _problem(text: str) -> str:
    """Returns what Go says of a duration; "" if it is one."""
    left = text[1:] if text[0] in "+-" else text
    if left == "0":
        return ""
    quoted = f'duration "{text}"'
    if not left:
        return f"invalid {quoted}"
    while left:
        part = _PART.match(left)
        if part is None:
            return f"invalid {quoted}"
        unit, left = part[2], left[part.end() :]
        if not unit:
            return f"missing unit in {quoted}"
        if unit not in _UNITS:
            return f'unknown unit "{unit}" in {quoted}'
    return ""

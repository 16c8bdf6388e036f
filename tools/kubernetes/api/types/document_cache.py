"""A cache of results by document, as thousands of pods come from a few templates.

Only for functions whose result depends on the document alone and is never changed. Kubernetes has
no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import msgspec

MOST = 512
MOST_BYTES = 32 << 10  # of a cached document; a template is far smaller
_ENCODER = msgspec.msgpack.Encoder()
_T = TypeVar("_T")


def cached_by_document(function: Callable[[dict[str, Any]], _T]) -> Callable[[dict[str, Any]], _T]:
    """Wraps the function in a cache of its results for the latest documents."""
    results: dict[bytes, _T] = {}

    @wraps(function)
    def recall(document: dict[str, Any]) -> _T:
        try:
            key = _ENCODER.encode(document)
        except (OverflowError, RecursionError):
            # no well-formed document has such a number or such a depth
            return function(document)
        if len(key) > MOST_BYTES:
            return function(document)
        result = results.get(key)
        if result is None:
            result = function(document)
            if len(results) >= MOST:
                results.clear()
            results[key] = result
        return result

    return recall

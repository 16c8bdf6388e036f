"""What a test waits for: a function that is asked again and again, until its answer is true."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable, iscoroutine, isroutine


def answer_of(condition: Callable[[], object]) -> object:
    """Returns the answer of a condition. Raises TypeError for one that would be true whatever the
    cluster does: a coroutine that nobody awaits, or a method that nobody calls.
    """
    if not callable(condition):
        raise TypeError(f"expected a function to call, got {condition!r}")
    found = condition()
    if isawaitable(found):
        if iscoroutine(found):
            found.close()
        raise TypeError(
            "expected the answer of a plain function, got a coroutine, which nobody awaits here:"
            " await it in the test, and pass a function that only looks"
        )
    if isroutine(found):
        name = found.__name__
        raise TypeError(f"expected an answer, got the method {name}; call it: {name}()")
    return found

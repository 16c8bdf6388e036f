"""Interrupts a call of a plugin that does not return: raises an exception in the plugin's own code.

A handler of a signal calls it, which Python runs in the thread of the event loop, between two steps
of what runs there. So it sees on the stack whether a plugin with a breaker is being asked, since
when, and whether it is the plugin's own code that runs, and not berth's, which could be left half
done: of berth's functions on the stack, the innermost must be one that calls plugins. Calls of C
code that do not look at signals cannot be interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar

from ..framework.breaker import Breaker

F = TypeVar("F", bound=Callable[..., Any])
LONGEST_TO_MAKE = 30.0  # seconds: a plugin has no breaker yet while it is imported or made
OURS = "berth."  # the modules that are not interrupted
_CALLERS: set[CodeType] = set()


class PluginOverrunError(BaseException):
    """A call of a plugin took too long, and was interrupted. It is no Exception, so that a plugin
    does not catch it by accident.
    """


def calls_plugins(function: F) -> F:
    """Marks a function that calls code of plugins, and does nothing else that takes time."""
    assert isinstance(function, FunctionType)
    _CALLERS.add(function.__code__)
    return function


def caller(innermost: FrameType | None) -> FrameType | None:
    """Returns the frame that called the code which runs in a frame, if that is a plugin's."""
    frame = innermost
    while frame is not None and not str(frame.f_globals.get("__name__")).startswith(OURS):
        frame = frame.f_back
    return frame if frame is not None and frame.f_code in _CALLERS else None


def interrupt(innermost: FrameType, now: float, still: float) -> None:
    """Raises PluginOverrunError if a call of a plugin is to end here. `still` are the seconds for
    which the event loop has stood still.
    """
    frame = calls = caller(innermost)
    if calls is None or calls is innermost:
        return
    took, longest = still, LONGEST_TO_MAKE
    while frame is not None:
        breaker = frame.f_locals.get("breaker")
        if isinstance(breaker, Breaker):
            began = frame.f_locals.get("began")
            took = still if began is None else now - began
            longest = breaker.longest_call(now)
            break
        frame = frame.f_back
    if took > longest:
        at = f"{innermost.f_code.co_filename}:{innermost.f_lineno}"
        raise PluginOverrunError(f"interrupted after {took:.1f} s at {at}")

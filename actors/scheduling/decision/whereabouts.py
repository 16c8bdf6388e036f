"""The plugin, its line and the pod in a stack, for the log line about a stuck hook."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import TypeVar

from ..framework.interface import Plugin
from ..model.pod_info import PodInfo

T = TypeVar("T")


def whereabouts(innermost: FrameType) -> dict[str, str]:
    """Returns `plugin`, `pod` and `at` (file:line), if available. The stack may belong to a running
    thread.

    The runner calls a plugin through a variable named `plugin`, and a plugin calls itself `self`;
    nothing has to be recorded while plugins run.
    """
    frames = list(_outwards(innermost))
    plugin = _first(frames, ("self", "plugin"), Plugin)
    info = _first(frames, ("info",), PodInfo)
    at = frames[0]
    if plugin is not None:
        file = getattr(sys.modules.get(type(plugin).__module__), "__file__", None)
        at = next((frame for frame in frames if frame.f_code.co_filename == file), at)
    place = {"at": f"{at.f_code.co_filename}:{at.f_lineno}"}
    if plugin is not None:
        place["plugin"] = plugin.name
    if info is not None:
        place["pod"] = info.key
    return place


def _outwards(innermost: FrameType) -> Iterator[FrameType]:
    frame: FrameType | None = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back


def _first(frames: list[FrameType], names: tuple[str, ...], kind: type[T]) -> T | None:
    """Returns the first local variable with one of these names and of this type."""
    for frame in frames:
        for name in names:
            value = frame.f_locals.get(name)
            if issubclass(type(value), kind):
                variable: T | None = value
                return variable
    return None

"""Finds out from a stack where a stuck plugin is: its name, extension point and line, and the
pod.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TypeVar

from ..framework.interface import Plugin
from ..kube.core import Pod
from ..model.pod_info import PodInfo
from .failures import Point
from .guard import Hook

T = TypeVar("T")


def whereabouts(innermost: FrameType) -> dict[str, str]:
    """Returns `plugin`, `point`, `pod` and `at` (file:line), as far as the stack shows them.

    The runner calls a plugin by a Hook, or through variables named `plugin` and `point`, and a
    plugin calls itself `self`; nothing has to be recorded while plugins run.
    """
    frames = list(_frames_outwards(innermost))
    plugin = _first(frames, ("self", "plugin"), Plugin)
    hook = _first(frames, ("self",), Hook)
    point = _first(frames, ("point",), Point) if hook is None else hook.point
    info = _first(frames, ("info",), PodInfo)
    pod = _first(frames, ("info", "pod"), Pod)
    at = frames[0]
    if plugin is not None:
        file = getattr(sys.modules.get(type(plugin).__module__), "__file__", None)
        at = next((frame for frame in frames if frame.f_code.co_filename == file), at)
    place = {"at": f"{at.f_code.co_filename}:{at.f_lineno}"}
    if plugin is not None:
        place["plugin"] = plugin.name
        if point is not None:
            place["point"] = point.name
    if info is not None:
        place["pod"] = info.key
    elif pod is not None:
        place["pod"] = PodInfo(pod).key
    return place


def in_words(place: Mapping[str, str]) -> str:
    """Returns a place, such as "in Filter of the plugin Price about default/web (price.py:31)"."""
    of = f"the plugin {place['plugin']}" if "plugin" in place else ""
    by = " of ".join(filter(None, (place.get("point", ""), of)))
    about = f" about {place['pod']}" if "pod" in place else ""
    return f"in {by}{about} ({place['at']})" if by else f"at {place['at']}"


def _frames_outwards(innermost: FrameType) -> Iterator[FrameType]:
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

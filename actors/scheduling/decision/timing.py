"""Timing: in an attempt that is recorded in detail, the profile runner asks each plugin through
`watched` or `timed`, which measure how long the plugin takes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from inspect import isgeneratorfunction
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from ..framework.interface import Plugin
from ..framework.measuring import Record
from ..framework.post_filter import PostFiltered
from ..framework.status import Code, Status
from ..framework.verdicts import PASSES, Verdicts
from ..model.vectors import any_true
from .failures import (
    BIND,
    PERMIT,
    POST_BIND,
    POST_FILTER,
    PRE_BIND,
    PRE_BIND_PRE_FLIGHT,
    PRE_ENQUEUE,
    PRE_FILTER,
    PRE_SCORE,
    RESERVE,
    UNRESERVE,
    Point,
)

P = ParamSpec("P")
T = TypeVar("T")
Q = TypeVar("Q", bound=Plugin)
# The extension point of each hook that is asked through `watched`.
_POINTS = {
    "pre_enqueue": PRE_ENQUEUE,
    "pre_filter": PRE_FILTER,
    "pre_score": PRE_SCORE,
    "post_filter": POST_FILTER,
    "reserve": RESERVE,
    "unreserve": UNRESERVE,
    "permit": PERMIT,
    "pre_bind_pre_flight": PRE_BIND_PRE_FLIGHT,
    "pre_bind": PRE_BIND,
    "bind": BIND,
    "post_bind": POST_BIND,
}


def code_of(answer: object) -> Code:
    """The code of a plugin's or an extension point's answer, whatever its form.

    A filter's verdicts on many nodes count as success if one node passes.
    """
    if type(answer) is Status:
        return answer.code
    match answer:
        case PostFiltered(status=status):
            return code_of(status)
        case (Status(code=code), _):  # Permit
            return code
        case Verdicts(codes=codes):
            return code_of(np.asarray(codes == PASSES))
        case np.ndarray(dtype=np.bool_):
            return Code.SUCCESS if any_true(answer) or not len(answer) else Code.UNSCHEDULABLE
        case _:
            return Code.SUCCESS


def watched(record: Record, plugins: Sequence[Q]) -> Sequence[Q]:
    """The plugins, each of which is timed if the attempt is recorded in detail."""
    if not record.detailed:
        return plugins
    known = record.watched.get(id(plugins))
    if known is None:
        made = [cast("Q", _Watched(record, plugin)) for plugin in plugins]
        known = record.watched[id(plugins)] = (plugins, made)
    return cast("Sequence[Q]", known[1])


def timed(record: Record, point: Point, ask: Callable[P, T], plugin: str) -> Callable[P, T]:
    """The function that asks a plugin, timed."""
    name = point.name

    def timing(*args: P.args, **kwargs: P.kwargs) -> T:
        started = record.now()
        try:
            answer = ask(*args, **kwargs)
        except BaseException:
            record.ran(plugin, name, Code.ERROR, started)
            raise
        record.ran(plugin, name, code_of(answer), started)
        return answer

    return timing


class _Watched:
    """A plugin whose hooks are timed; everything else is the plugin's."""

    __slots__ = ("_plugin", "name", *_POINTS)

    def __init__(self, record: Record, plugin: Plugin) -> None:
        self._plugin = plugin
        self.name = plugin.name
        for hook, point in _POINTS.items():
            found = getattr(plugin, hook, None)
            if found is not None:
                around = _AROUND.get(hook, timed)
                setattr(self, hook, around(record, point, found, plugin.name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plugin, name)


def _timed_async(
    record: Record, point: Point, hook: Callable[..., Awaitable[Any]], plugin: str
) -> Callable[..., Awaitable[Any]]:
    async def ask(*args: Any) -> Any:
        started, code = record.now(), Code.ERROR
        try:
            answer = await hook(*args)
            code = code_of(answer)
        finally:
            record.ran(plugin, point.name, code, started)
        return answer

    return ask


def _timed_steps(
    record: Record, point: Point, hook: Callable[..., Any], plugin: str
) -> Callable[..., Any]:
    """For PostFilter, which may ask extenders before it answers."""

    def until_answered(steps: Generator[Any, Any, Any], started: float) -> Any:
        code = Code.ERROR
        try:
            answer = yield from steps
            code = code_of(answer)
        finally:
            record.ran(plugin, point.name, code, started)
        return answer

    ask = timed(record, point, hook, plugin)

    def asking(*args: Any) -> Any:
        started = record.now()
        steps = hook(*args) if isgeneratorfunction(hook) else None
        return ask(*args) if steps is None else until_answered(steps, started)

    return asking


_AROUND: dict[str, Callable[..., Callable[..., Any]]] = {
    "post_filter": _timed_steps,
    "pre_bind": _timed_async,
    "bind": _timed_async,
}

"""Timing: in an attempt that is recorded in detail, the profile runner asks each plugin through
`watched` or `timed`, which measure how long the plugin takes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from inspect import isawaitable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from berth.actors.scheduling.decision.failures import (
    BIND,
    PERMIT,
    POST_BIND,
    POST_FILTER,
    PRE_BIND,
    PRE_BIND_PRE_FLIGHT,
    PRE_ENQUEUE,
    RESERVE,
    UNRESERVE,
    Point,
)
from berth.actors.scheduling.framework.interface import Plugin
from berth.actors.scheduling.framework.measuring import Record
from berth.actors.scheduling.framework.post_filter import PostFiltered
from berth.actors.scheduling.framework.status import Code, Status
from berth.actors.scheduling.framework.verdicts import PASSES, Verdicts
from berth.actors.scheduling.model.vectors import any_true

P = ParamSpec("P")
T = TypeVar("T")
Q = TypeVar("Q", bound=Plugin)
# The extension point of each hook that is asked through `watched`.
_POINTS = {
    "pre_enqueue": PRE_ENQUEUE,
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
    match answer:
        case Status(code=code):
            return code
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
    return [cast("Q", _Watched(record, plugin)) for plugin in plugins]


def timed(record: Record, point: Point, ask: Callable[P, T], plugin: str) -> Callable[P, T]:
    """The function that asks a plugin, timed."""

    def timing(*args: P.args, **kwargs: P.kwargs) -> T:
        started = record.now()
        code = Code.ERROR
        try:
            answer = ask(*args, **kwargs)
            code = code_of(answer)
        finally:
            record.ran(plugin, point.name, code, started)
        return answer

    return timing


class _Watched:
    """A plugin whose hooks are timed; everything else is the plugin's."""

    def __init__(self, record: Record, plugin: Plugin) -> None:
        self._record = record
        self._plugin = plugin

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._plugin, name)
        point = _POINTS.get(name)
        return found if point is None else self._timing(point, found)

    def _timing(self, point: Point, hook: Callable[..., Any]) -> Callable[..., Any]:
        record, plugin = self._record, self._plugin.name

        def ask(*args: Any) -> Any:
            started = record.now()
            try:
                answer = hook(*args)
            except BaseException:
                record.ran(plugin, point.name, Code.ERROR, started)
                raise
            if isinstance(answer, Generator):
                return self._until_answered(point, answer, started)
            if isawaitable(answer):
                return self._awaited(point, answer, started)
            record.ran(plugin, point.name, code_of(answer), started)
            return answer

        return ask

    def _until_answered(
        self, point: Point, steps: Generator[Any, Any, Any], started: float
    ) -> Generator[Any, Any, Any]:
        code = Code.ERROR
        try:
            answer = yield from steps
            code = code_of(answer)
        finally:
            self._record.ran(self._plugin.name, point.name, code, started)
        return answer

    async def _awaited(self, point: Point, answer: Awaitable[Any], started: float) -> Any:
        code = Code.ERROR
        try:
            found = await answer
            code = code_of(found)
        finally:
            self._record.ran(self._plugin.name, point.name, code, started)
        return found

"""Calls of plugins that have a breaker: each is admitted and timed, and its failures counted.

A plugin that is switched off fails the attempts of its pods with a status that says so. One that
declares `may_be_left_out` is not asked, as if it had nothing to say. It is asked to undo what it
did all the same, unless that took too long. Time in which a plugin waits does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from ..framework.breaker import Breaker
from ..framework.cycle_state import CycleState
from ..framework.interface import Plugin
from ..framework.post_filter import FailedAttempt, PostFiltered
from ..framework.questions import Steps
from ..framework.status import SKIP, SUCCESS, Code, Status
from ..kube.core import Pod
from ..kube.meta import key
from ..model.cluster_objects import UnlistedError
from ..model.pod_info import PodInfo
from .failures import (
    BIND,
    CRASHES,
    FILTER,
    NORMALIZE,
    PERMIT,
    POST_BIND,
    POST_FILTER,
    PRE_BIND,
    PRE_BIND_PRE_FLIGHT,
    PRE_ENQUEUE,
    PRE_FILTER,
    PRE_SCORE,
    RESERVE,
    ROLL_BACK,
    SCORE,
    UNRESERVE,
    PluginError,
    Point,
    failure,
    failure_status,
    text_of,
)
from .guard import NO_ANSWER, Check, Hook, IsCancelled, Points, key_of
from .overruns import calls_plugins
from .timed_steps import StepTimes, timed, timed_wait

A = TypeVar("A")
T = TypeVar("T")
# What a plugin that is left out answers, given the subject of the call.
NEUTRAL: Mapping[Point, Callable[[Any], Any]] = {
    PRE_ENQUEUE: lambda _: SUCCESS,
    PRE_FILTER: lambda _: SKIP,
    FILTER: lambda _: None,
    POST_FILTER: lambda _: PostFiltered(Status(Code.UNSCHEDULABLE)),
    PRE_SCORE: lambda _: SKIP,
    SCORE: lambda nodes: np.zeros(nodes.size, dtype=np.int64),
    NORMALIZE: lambda raw: raw[0] * 0,
    RESERVE: lambda _: SUCCESS,
    PERMIT: lambda _: (SUCCESS, 0.0),
    PRE_BIND_PRE_FLIGHT: lambda _: SKIP,
    PRE_BIND: lambda _: SUCCESS,
    BIND: lambda _: SKIP,
    POST_BIND: lambda _: None,
}
ALWAYS_ASKED = (UNRESERVE, ROLL_BACK)


class WatchedHook(Hook[A]):
    """A Hook of a plugin with a breaker."""

    __slots__ = ("breaker",)

    def __init__(self, plugin: Plugin, *args: Any) -> None:
        super().__init__(plugin, *args)
        assert plugin.breaker is not None
        self.breaker = plugin.breaker

    def ask(self, state: CycleState, info: PodInfo | Pod, about: Any) -> A:
        breaker = self.breaker
        now = breaker.now
        began = now()
        if not self._is_asked(began):
            return self._instead(breaker, about, began)
        try:
            answer = super().ask(state, info, about)
        except PluginError as problem:
            self._failed(problem, now() - began, state, info)
            raise
        self._succeeded(now() - began, state, info)
        return answer

    async def ask_async(
        self, state: CycleState, info: PodInfo, node: str, is_cancelled: IsCancelled
    ) -> A:
        breaker, now = self.breaker, self.breaker.now
        if not self._is_asked(now()):
            return self._instead(breaker, node, now())
        with self._counted(state, info) as times:
            call = super().ask_async(state, info, node, is_cancelled)
            return await timed_wait(call, now, times.note)

    def ask_in_steps(self, attempt: FailedAttempt, _times: StepTimes | None = None) -> Steps[A]:
        breaker, now = self.breaker, self.breaker.now
        if not breaker.admits(now()):
            return self._instead(breaker, attempt, now())
        with self._counted(attempt.state, attempt.info) as times:
            return (yield from timed(super().ask_in_steps(attempt, times), now, times.note))

    @contextmanager
    def _counted(self, state: CycleState, info: PodInfo) -> Iterator[StepTimes]:
        """Counts a call that waits or pauses, by its steps, which are noted."""
        times = StepTimes()
        try:
            yield times
        except PluginError as problem:
            self._failed(problem, times.seconds, state, info)
            raise
        self._succeeded(times.seconds, state, info)

    def _is_asked(self, now: float) -> bool:
        """True if the plugin is asked: in any case to undo, unless it took too long for that."""
        breaker, point = self.breaker, self.point
        undoes = point in ALWAYS_ASKED and not breaker.blocks_in(point.name)
        return undoes or breaker.admits(now)

    def _instead(self, breaker: Breaker, about: Any, now: float) -> A:
        """Returns the answer of a plugin that is left out. Raises PluginError for one that is
        not.
        """
        if breaker.left_out and self.point in NEUTRAL:
            answer: A = NEUTRAL[self.point](about)
            return answer
        raise PluginError(failure(self.plugin, self.point, breaker.in_words(now)))

    def _succeeded(self, seconds: float, state: CycleState, asker: PodInfo | Pod) -> None:
        """Notes a call that held everybody up for so many seconds."""
        if self._took(seconds, state, asker):
            self.breaker.succeeded(self.point.name, self.breaker.now())

    def _failed(
        self, problem: PluginError, seconds: float, state: CycleState, asker: PodInfo | Pod
    ) -> None:
        """Notes the failure of a call. A rejection is none, nor is a kind that is not listed."""
        breaker, why = self.breaker, self._why(problem)
        if not self._took(seconds, state, asker, why):
            return
        now = breaker.now()
        if problem.status.rejected:
            breaker.succeeded(self.point.name, now)
        elif not is_unlisted(problem):
            breaker.failed(self.point.name, key_of(asker), why, now, pod_of(asker))

    def _took(self, seconds: float, state: CycleState, asker: PodInfo | Pod, why: str = "") -> bool:
        """Notes the time of a call. False if it took too long."""
        # All pods share the state of PreEnqueue, which is no attempt.
        attempt = None if self.point is PRE_ENQUEUE else state
        about = key_of(asker), self.breaker.now(), pod_of(asker)
        return self.breaker.took(attempt, self.point.name, seconds, *about, why)

    def _why(self, problem: PluginError) -> str:
        return problem.status.message.removeprefix(self.point.failed.format(self.name))


def guarded_call(
    plugin: Plugin,
    point: Point,
    call: Callable[..., Any],
    check: Callable[[Any], T],
    instead: Callable[..., T],
    pod_of: Callable[..., Pod | None] = lambda *_: None,
) -> Callable[..., T]:
    """Returns `call` under guard, such that its failures fail no attempt.

    After a failure, the value comes from `instead`, which takes the status of the failure and the
    arguments. `pod_of` takes the arguments and returns the pod that the call is about.
    """

    def ask(*args: Any) -> T:
        try:
            return check(call(*args))
        except CRASHES as exception:
            pod = pod_of(*args)
            about = "" if pod is None else key(pod)
            return instead(failure_status(plugin, point, exception, pod=about), *args)

    breaker = plugin.breaker
    if breaker is None:
        return ask

    @calls_plugins
    def watched(*args: Any) -> T:
        began = breaker.now()
        if not breaker.admits(began):
            return instead(failure(plugin, point, breaker.in_words(began)), *args)
        try:
            answer = check(call(*args))
        except CRASHES as exception:
            now, pod = breaker.now(), pod_of(*args)
            about, why = "" if pod is None else key(pod), text_of(exception)
            status = failure_status(plugin, point, exception, pod=about)
            if breaker.took(None, point.name, now - began, about, now, pod, why):
                breaker.failed(point.name, about, why, now, pod)
            return instead(status, *args)
        now = breaker.now()
        pod = pod_of(*args) if now - began > breaker.limits.call_seconds else None
        if breaker.took(None, point.name, now - began, "", now, pod):
            breaker.succeeded(point.name, now)
        return answer

    return watched


def hook_of(
    plugin: Plugin,
    point: Point,
    call: Callable[..., Any],
    check: Check[A],
    usual: object = NO_ANSWER,
    skip: object = NO_ANSWER,
) -> Hook[A]:
    """Returns a hook of a plugin, which is watched if the plugin has a breaker."""
    kind = Hook if plugin.breaker is None else WatchedHook
    return kind(plugin, point, call, check, usual, skip)


def hooks(
    points: Points,
    at: str,
    point: Point,
    method: str,
    check: Check[A],
    usual: object = NO_ANSWER,
    skip: object = NO_ANSWER,
) -> list[Hook[A]]:
    """Returns the hooks of the plugins at an extension point, in order."""
    return [
        hook_of(plugin, point, getattr(plugin, method), check, usual, skip)
        for plugin, _ in points.get(at, ())
    ]


def pod_of(asker: PodInfo | Pod) -> Pod:
    return asker if isinstance(asker, Pod) else asker.pod


def is_unlisted(problem: BaseException) -> bool:
    """True if an error comes from the look-up of a kind that is not listed."""
    cause: BaseException | None = problem
    seen: set[int] = set()  # two exceptions may be the causes of each other
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, UnlistedError):
            return True
        seen.add(id(cause))
        cause = cause.__cause__
    return False

"""The guard around plugins: times and checks each call of a plugin, and catches its errors.

Plugins are other people's code. An exception of a plugin, an invalid answer, and a status that the
extension point does not allow become a PluginError, which names the plugin and fails the attempt of
one pod, never the process. A plugin is timed if the attempt is recorded in detail.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from inspect import isawaitable
from typing import Any, Generic, TypeVar

import numpy as np

from ..framework.cycle_state import CycleState
from ..framework.interface import Plugin
from ..framework.measuring import Record
from ..framework.post_filter import FailedAttempt, PostFiltered
from ..framework.questions import Answer, Steps
from ..framework.status import Code, Status
from ..framework.verdicts import PASSES, Verdicts
from ..kube.core import Pod
from ..kube.meta import key
from ..model.node_info import NodeInfo
from ..model.pod_info import PodInfo
from ..model.vectors import any_true
from .answers import ScoreRangeError, as_question, expected
from .failures import (
    APPLY_WEIGHTS,
    CRASHES,
    PluginError,
    Point,
    failure_status,
    is_unawaited,
)
from .overruns import PluginOverrunError, calls_plugins
from .timed_steps import MOST_QUESTIONS, StepTimes

A = TypeVar("A")
T = TypeVar("T")
# By the name of an extension point in the configuration: its plugins in order, with weights.
Points = Mapping[str, Sequence[tuple[Plugin, int]]]
# True if an exception is the cancellation of the running task: then it is not the plugin's failure.
IsCancelled = Callable[[BaseException], bool]
# Takes a plugin's answer, the subject of the call, and the hook; returns the answer in the form
# that the profile works with. Raises WrongAnswerError for an invalid answer, and PluginError
# for a status that ends the attempt.
Check = Callable[[Any, Any, "Hook[Any]"], A]
NO_ANSWER = object()


class Hook(Generic[A]):
    """A plugin's method at an extension point, under guard.

    `call` takes the CycleState, the pod and the subject of the call, such as the snapshot, nodes,
    or the name of a node. The answers `usual` and `skip` need no check. A hook that is called
    within the call of another one is not `timed`. `evaluations` is the number of pods or nodes that
    the plugin was asked about.
    """

    __slots__ = (
        "call",
        "check",
        "evaluations",
        "metric",
        "name",
        "plugin",
        "point",
        "skip",
        "usual",
    )

    def __init__(
        self,
        plugin: Plugin,
        point: Point,
        call: Callable[..., Any],
        check: Check[A],
        usual: object = NO_ANSWER,
        skip: object = NO_ANSWER,
        *,
        timed: bool = True,
    ) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.point = point
        self.call = call
        self.check = check
        self.usual = usual
        self.skip = skip
        self.metric = "" if not timed else point.name if point.metric is None else point.metric
        self.evaluations = 0

    @calls_plugins
    def ask(self, state: CycleState, info: PodInfo | Pod, about: Any) -> A:
        """Returns the plugin's answer. Raises PluginError."""
        record, call = state.record, self.call
        if record.detailed:
            return self._ask_timed(state, info, about)
        try:  # As little as possible: each pod asks ten plugins.
            answer: A = call(state, info, about)
            if answer is self.usual or answer is self.skip:
                return answer
            return self.check(answer, about, self)
        except CRASHES as exception:
            raise self._failure(exception, record, 0.0, info, about) from exception

    @calls_plugins
    def _ask_timed(self, state: CycleState, info: PodInfo | Pod, about: Any) -> A:
        record = state.record
        started = record.now()
        try:
            answer = self._checked(self.call(state, info, about), about)
        except CRASHES as exception:
            raise self._failure(exception, record, started, info, about) from exception
        self._record_call(record, code_of(answer), started)
        return answer

    @calls_plugins
    async def ask_async(
        self, state: CycleState, info: PodInfo, node: str, is_cancelled: IsCancelled
    ) -> A:
        """Does what `ask` does, for a method that may wait. Passes on a cancellation."""
        record = state.record
        started = record.now() if record.detailed else 0.0
        try:
            waiting = self.call(state, info, node)
            if not isawaitable(waiting):
                raise expected("an async function, which can be awaited", waiting)
            answer = self._checked(await waiting, node)
        except CRASHES as exception:
            if is_cancelled(exception) or is_unawaited(exception):
                raise
            raise self._failure(exception, record, started, info, node) from exception
        if record.detailed:
            self._record_call(record, code_of(answer), started)
        return answer

    @calls_plugins
    def ask_in_steps(self, attempt: FailedAttempt, times: StepTimes | None = None) -> Steps[A]:
        """Does what `ask` does, for PostFilter, which may put questions to extenders first. `times`
        are those of its steps so far, which somebody notes.
        """
        record = attempt.state.record
        started = record.now() if record.detailed else 0.0
        try:
            reply = self.call(attempt)
            if isinstance(reply, Generator):
                reply = yield from questions_of(reply, times)
            answer: A = self.check(reply, attempt, self)
        except CRASHES as exception:
            if is_unawaited(exception):
                raise
            raise self._failure(exception, record, started, attempt.info) from exception
        if record.detailed:
            self._record_call(record, code_of(answer), started)
        return answer

    def _checked(self, answer: A, about: Any) -> A:
        if answer is self.usual or answer is self.skip:
            return answer
        return self.check(answer, about, self)

    def _failure(
        self,
        exception: BaseException,
        record: Record,
        started: float,
        asker: PodInfo | Pod,
        about: object = None,
    ) -> PluginError:
        """Returns the error of a call. Raises exceptions again that the plugin did not cause."""
        if isinstance(exception, PluginError):
            status = exception.status
        else:
            point = APPLY_WEIGHTS if isinstance(exception, ScoreRangeError) else self.point
            pod = key_of(asker)
            node = about if isinstance(about, str) else ""
            named = about.name if isinstance(about, NodeInfo) else ""
            status = failure_status(self.plugin, point, exception, pod=pod, node=node, named=named)
        self._record_call(record, status.code, started)
        return PluginError(status)

    def _record_call(self, record: Record, code: Code, started: float) -> None:
        if record.detailed and self.metric:
            record.ran(self.name, self.metric, code, started)


def key_of(asker: PodInfo | Pod) -> str:
    return key(asker) if isinstance(asker, Pod) else asker.key


def code_of(answer: object) -> Code:
    """Returns the code of a plugin's answer in any form.

    A filter's verdicts on many nodes count as success if one node passes.
    """
    if type(answer) is Status:
        return answer.code
    match answer:
        case PostFiltered(status=status):
            return status.code
        case (Status(code=code), _):  # Permit
            return code
        case Verdicts(codes=codes):
            return code_of(np.asarray(codes == PASSES))
        case np.ndarray(dtype=np.bool_):
            return Code.SUCCESS if any_true(answer) or not len(answer) else Code.UNSCHEDULABLE
        case _:
            return Code.SUCCESS


@calls_plugins
def questions_of(
    steps: Generator[object, Answer, object], times: StepTimes | None = None
) -> Steps[object]:
    """Passes on the questions that a plugin yields. Raises WrongAnswerError for any but
    PreemptVictims and a pause, and PluginOverrunError if they have no end.
    """
    asked = 0
    answer: Answer | None = None
    while True:
        try:
            question = next(steps) if answer is None else steps.send(answer)
        except StopIteration as done:
            return done.value
        asked += 1
        if asked > MOST_QUESTIONS:
            raise PluginOverrunError(f"no answer after {asked:,} questions or pauses")
        if times is not None and times.take_too_long:
            raise PluginOverrunError(f"no answer after {times}")
        answer = yield as_question(question)

"""The profile runner: the plugins of one profile, run in order at each extension point.

This module and `rules` are the only ones that catch everything a plugin raises. An exception
becomes an ERROR status that names the plugin and fails that pod's attempt, never the process; so
does an invalid answer. Mirrors frameworkImpl.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from ..framework import measuring as at
from ..framework.cycle_state import CycleState
from ..framework.events import ALWAYS, Concerns, Hint, Registration
from ..framework.interface import (
    BindPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    QueueSortPlugin,
    Reads,
    ReservePlugin,
)
from ..framework.measuring import UNMEASURED, Record
from ..framework.post_filter import Deletion, FailedAttempt, Patch, PostFiltered
from ..framework.questions import Answer, Steps
from ..framework.status import SKIP, SUCCESS, Code, Status, error
from ..kube.core import Pod
from ..kube.meta import key
from ..model.cluster_objects import UnlistedError
from ..model.pod_info import PodInfo
from .answers import (
    as_hint,
    as_keys,
    as_permission,
    as_post_filtered,
    as_question,
    as_registrations,
    as_sort_key,
    as_status,
)
from .failures import (
    BIND,
    CRASHES,
    EVENTS_TO_REGISTER,
    PERMIT,
    POST_BIND,
    POST_FILTER,
    PRE_BIND,
    PRE_BIND_PRE_FLIGHT,
    PRE_ENQUEUE,
    QUEUE_SORT,
    QUEUEING_HINT,
    RESERVE,
    ROLL_BACK,
    UNRESERVE,
    as_error,
    crashed,
    refused,
    signed,
    unsupported_pre_flight,
)
from .rules import KEPT, PluginError, Points, Rules
from .timing import watched

PreBindStep = Callable[[], Awaitable[Status]]
# True if the running task is being cancelled: then a cancelled wait is not the plugin's failure.
IsCancelled = Callable[[], bool]


def hinting(plugin: Plugin, registration: Registration) -> Registration:
    """The registration with a guarded hint: if the hint fails, the pod is tried again, as in
    kube-scheduler.
    """
    hint, concerns = registration.hint, registration.concerns
    if concerns is not None:
        concerns = _concerning(plugin, concerns)
    if hint is None:
        return msgspec.structs.replace(registration, concerns=concerns)

    def guarded(pod: Pod, old: object | None, new: object | None) -> Hint:
        try:
            return as_hint(hint(pod, old, new))
        except CRASHES as exception:
            crashed(plugin, QUEUEING_HINT, exception, pod=key(pod))
            return Hint.QUEUE

    return Registration(registration.event, guarded, concerns)


def _concerning(plugin: Plugin, concerns: Concerns) -> Concerns:
    """The same, guarded: if a function fails, the change or the pod is concerned by all."""

    def of_pod(pod: Pod) -> Iterable[str]:
        try:
            return as_keys(concerns.of_pod(pod))
        except CRASHES as exception:
            crashed(plugin, QUEUEING_HINT, exception, pod=key(pod))
            return (ALWAYS,)

    def of_change(old: object | None, new: object | None) -> Iterable[str] | None:
        try:
            keys = concerns.of_change(old, new)
            return None if keys is None else as_keys(keys)
        except CRASHES as exception:
            crashed(plugin, QUEUEING_HINT, exception)
            return None

    return Concerns(of_pod, of_change)


def _asking(steps: Generator[object, Answer, object]) -> Steps[object]:
    """A plugin's questions, checked. Raises WrongAnswerError for anything but a question to
    extenders.
    """
    answer: Answer | None = None
    while True:
        try:
            question = next(steps) if answer is None else steps.send(answer)
        except StopIteration as done:
            return done.value
        answer = yield as_question(question)


class Profile(Rules):
    """The plugins of one scheduler name. `points` maps an extension point's name to (plugin,
    weight) in order. PreEnqueue, which belongs to no attempt, is recorded in `gate`.
    """

    def __init__(
        self,
        scheduler_name: str,
        points: Points,
        percentage_of_nodes_to_score: int | None = None,
        gate: Record = UNMEASURED,
    ) -> None:
        super().__init__(points)
        self._gate = gate
        self.parts: Mapping[Reads, Rules] = {reads: self.reading(reads) for reads in Reads}
        self.of_cluster = self.parts[Reads.CLUSTER]
        self.of_pod = self.reading(Reads.CLAIMS, Reads.CLUSTER)
        self.kept = self.reading(*KEPT)
        self.scheduler_name = scheduler_name
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        every = {plugin.name: plugin for plugins in points.values() for plugin, _ in plugins}
        self.plugins: tuple[Plugin, ...] = tuple(every.values())

        def at(point: str) -> list[Plugin]:
            return [plugin for plugin, _ in points.get(point, ())]

        self.pre_enqueue_plugins = [p for p in at("preEnqueue") if isinstance(p, PreEnqueuePlugin)]
        self.queue_sort = next(p for p in at("queueSort") if isinstance(p, QueueSortPlugin))
        self._post_filter = [p for p in at("postFilter") if isinstance(p, PostFilterPlugin)]
        self._reserve = [p for p in at("reserve") if isinstance(p, ReservePlugin)]
        self._permit = [p for p in at("permit") if isinstance(p, PermitPlugin)]
        self._pre_bind = [p for p in at("preBind") if isinstance(p, PreBindPlugin)]
        self._bind = [p for p in at("bind") if isinstance(p, BindPlugin)]
        self._post_bind = [p for p in at("postBind") if isinstance(p, PostBindPlugin)]

    # ----------------------------------------------------------------------------- before the queue

    def pre_enqueue(self, pod: Pod) -> Status:
        """The first status that keeps the pod out of the active queue, or success."""
        record, plugins, answer = self._gate, self.pre_enqueue_plugins, SUCCESS
        began = record.now()
        for plugin in watched(record, plugins) if record.detailed else plugins:
            try:
                status = as_status(plugin.pre_enqueue(pod))
            except CRASHES as exception:
                answer = crashed(plugin, PRE_ENQUEUE, exception, pod=key(pod))
                break
            if not status.ok:
                answer = refused(plugin, PRE_ENQUEUE, status)
                break
        # As in kube-scheduler, this counts as a success whatever the plugins answer.
        record.marks.extend((at.PRE_ENQUEUE, began, at.SUCCEEDED, record.now()))
        return answer

    def sort_key(self, info: PodInfo, enqueued_at: float) -> tuple[float, ...]:
        """The pod's sort key in the active queue, which hands out the least first.

        The queue needs a key: if the plugin fails, the pod gets the key of PrioritySort.
        """
        try:
            return as_sort_key(self.queue_sort.sort_key(info, enqueued_at))
        except CRASHES as exception:
            crashed(self.queue_sort, QUEUE_SORT, exception, pod=info.key)
            return (-info.priority, enqueued_at)

    def hints(self) -> dict[str, Sequence[Registration]]:
        """The events that each plugin registered for, by the plugin's name.

        A plugin is left out if it does not override events_to_register, or fails there: then every
        event may help the pods that it rejected.
        """
        registered: dict[str, Sequence[Registration]] = {}
        for plugin in self.plugins:
            if type(plugin).events_to_register is Plugin.events_to_register:
                continue
            try:
                registrations = as_registrations(plugin.events_to_register())
            except CRASHES as exception:
                crashed(plugin, EVENTS_TO_REGISTER, exception)
                continue
            registered[plugin.name] = tuple(
                hinting(plugin, registration) for registration in registrations
            )
        return registered

    # --------------------------------------------------------------------------- where no node fits

    def post_filter(self, attempt: FailedAttempt) -> Steps[PostFiltered | None]:
        """Runs PostFilter until a plugin makes room; None if there is no plugin.

        The reasons of the plugins that could not are joined; an error replaces them. Raises
        PluginError if a plugin looks up objects that are not listed.
        """
        if not self._post_filter:
            return None
        record = attempt.state.record
        began = record.now()
        answer = yield from self._post_filtered(attempt)
        record.marks.extend((at.POST_FILTER, began, answer.status.code, record.now()))
        return answer

    def _post_filtered(self, attempt: FailedAttempt) -> Steps[PostFiltered]:
        reasons: list[str] = []
        patches: tuple[Patch | Deletion, ...] = ()
        denominate = False
        for plugin in watched(attempt.state.record, self._post_filter):
            try:
                answer: object = plugin.post_filter(attempt)
                if isinstance(answer, Generator):
                    answer = yield from _asking(answer)
                made = as_post_filtered(answer, attempt)
            except PluginError as failure:
                return PostFiltered(failure.status)
            except (
                UnlistedError
            ) as unlisted:  # Without these objects nothing can be decided; the pod is tried again.
                raise PluginError(crashed(plugin, POST_FILTER, unlisted)) from None
            except CRASHES as exception:
                return PostFiltered(crashed(plugin, POST_FILTER, exception, pod=attempt.info.key))
            patches += made.patches
            made = msgspec.structs.replace(
                made, status=signed(plugin, made.status), patches=patches
            )
            status = made.status
            if (
                status.ok
                or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
                or not status.rejected
            ):
                return made
            reasons += status.reasons
            denominate = denominate or made.denominate
        status = Status(Code.UNSCHEDULABLE, tuple(reasons))
        return PostFiltered(status, denominate=denominate, patches=patches)

    # ----------------------------------------------------------------------- after a node is chosen

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """Runs Reserve in order. The first failure ends it; the caller then runs unreserve."""
        record = state.record
        began = record.now()
        status = SUCCESS
        for plugin in watched(record, self._reserve) if record.detailed else self._reserve:
            try:
                status = as_status(plugin.reserve(state, info, node))
            except CRASHES as exception:
                status = crashed(plugin, RESERVE, exception, pod=info.key, node=node)
                break
            if not status.ok:
                status = refused(plugin, RESERVE, status)
                break
        record.marks.extend((at.RESERVE, began, status.code, record.now()))
        return status

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        """Runs Unreserve of every plugin, in reverse order."""
        record = state.record
        began = record.now()
        for plugin in reversed(watched(state.record, self._reserve)):
            try:
                plugin.unreserve(state, info, node)
            except CRASHES as exception:
                crashed(plugin, UNRESERVE, exception, pod=info.key, node=node)
        record.marks.extend((at.UNRESERVE, began, at.SUCCEEDED, record.now()))

    def permit(
        self, state: CycleState, info: PodInfo, node: str
    ) -> tuple[Status, dict[str, float]]:
        """Runs Permit. WAIT comes with the seconds that each waiting plugin grants."""
        record = state.record
        if not self._permit:
            record.idle.append(at.PERMIT)
            return SUCCESS, {}
        began = record.now()
        status, waits = self._permitted(state, info, node)
        record.marks.extend((at.PERMIT, began, status.code, record.now()))
        return status, waits

    def _permitted(
        self, state: CycleState, info: PodInfo, node: str
    ) -> tuple[Status, dict[str, float]]:
        waits: dict[str, float] = {}
        for plugin in watched(state.record, self._permit):
            try:
                status, seconds = as_permission(plugin.permit(state, info, node))
            except CRASHES as exception:
                return crashed(plugin, PERMIT, exception, pod=info.key, node=node), {}
            if status.code is Code.WAIT:
                waits[plugin.name] = seconds
            elif not status.ok:
                return refused(plugin, PERMIT, status), {}
        return (Status(Code.WAIT), waits) if waits else (SUCCESS, {})

    def pre_bind_pre_flight(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """SKIP if no PreBind plugin has anything to do for the pod. Plugins that return SKIP are
        left out of PreBind.
        """
        record = state.record
        began = record.now()
        status = self._flown(state, info, node)
        record.marks.extend((at.PRE_BIND_PRE_FLIGHT, began, status.code, record.now()))
        return status

    def _flown(self, state: CycleState, info: PodInfo, node: str) -> Status:
        state.skip_pre_bind, state.parallel_pre_bind = set(), set()
        plugins, record = self._pre_bind, state.record
        for plugin in watched(record, plugins) if record.detailed else plugins:
            try:
                answer = plugin.pre_bind_pre_flight(state, info, node)
                if isinstance(answer, PreBindPreFlightResult):
                    if answer.allow_parallel:
                        state.parallel_pre_bind.add(plugin.name)
                    continue
                status = as_status(answer)
            except CRASHES as exception:
                return crashed(plugin, PRE_BIND_PRE_FLIGHT, exception, pod=info.key, node=node)
            if status.code is Code.SKIP:
                state.skip_pre_bind.add(plugin.name)
            elif status.code is Code.ERROR:
                return as_error(plugin, PRE_BIND_PRE_FLIGHT, status)
            elif not status.ok:
                return unsupported_pre_flight(plugin, status)
        return SKIP if len(state.skip_pre_bind) == len(self._pre_bind) else SUCCESS

    def pre_bind_steps(
        self, state: CycleState, info: PodInfo, node: str, is_cancelled: IsCancelled
    ) -> list[list[PreBindStep]]:
        """The PreBind calls that the pre-flight left, in order; the calls of one list may run at
        the same time.
        """
        steps: list[list[PreBindStep]] = []
        joins = False
        for plugin in watched(state.record, self._pre_bind):
            if plugin.name in state.skip_pre_bind:
                continue
            in_parallel = plugin.name in state.parallel_pre_bind
            if not (joins and in_parallel):
                steps.append([])
            joins = in_parallel
            steps[-1].append(partial(self._pre_bind_one, plugin, state, info, node, is_cancelled))
        return steps

    @staticmethod
    async def _pre_bind_one(
        plugin: PreBindPlugin,
        state: CycleState,
        info: PodInfo,
        node: str,
        is_cancelled: IsCancelled,
    ) -> Status:
        try:
            status = as_status(await plugin.pre_bind(state, info, node))
        except CRASHES as exception:
            if not isinstance(exception, Exception) and is_cancelled():
                raise
            return crashed(plugin, PRE_BIND, exception, pod=info.key, node=node)
        return status if status.ok else refused(plugin, PRE_BIND, status)

    async def roll_back(
        self, state: CycleState, info: PodInfo, node: str, is_cancelled: IsCancelled
    ) -> None:
        """Runs the roll-back of every PreBind plugin, in reverse order."""
        for plugin in reversed(self._pre_bind):
            try:
                await plugin.roll_back(state, info, node)
            except CRASHES as exception:
                if not isinstance(exception, Exception) and is_cancelled():
                    raise
                crashed(plugin, ROLL_BACK, exception, pod=info.key, node=node)

    async def bind(
        self, state: CycleState, info: PodInfo, node: str, is_cancelled: IsCancelled
    ) -> Status:
        """The status of the first bind plugin that does not skip the pod."""
        record = state.record
        began = record.now()
        status = SKIP
        for plugin in watched(record, self._bind) if record.detailed else self._bind:
            try:
                status = as_status(await plugin.bind(state, info, node))
            except CRASHES as exception:
                if not isinstance(exception, Exception) and is_cancelled():
                    raise
                status = crashed(plugin, BIND, exception, pod=info.key, node=node)
                break
            if status.code is not Code.SKIP:
                status = status if status.ok else refused(plugin, BIND, status)
                break
        if status.code is Code.SKIP:
            status = error(f"no bind plugin of profile {self.scheduler_name} took the pod")
        record.marks.extend((at.BIND, began, status.code, record.now()))
        return status

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None:
        """Runs PostBind of every plugin."""
        record = state.record
        if not self._post_bind:
            record.idle.append(at.POST_BIND)
            return
        began = record.now()
        for plugin in watched(state.record, self._post_bind):
            try:
                plugin.post_bind(state, info, node)
            except CRASHES as exception:
                crashed(plugin, POST_BIND, exception, pod=info.key, node=node)
        record.marks.extend((at.POST_BIND, began, at.SUCCEEDED, record.now()))

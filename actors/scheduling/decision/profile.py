"""The profile runner: the plugins of one profile, run in order at each extension point.

An error of a plugin becomes an ERROR status that names the plugin and fails the attempt of that
pod, never the process (see guard). Mirrors frameworkImpl.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from ..framework import measuring as at
from ..framework.breaker import Breaker, Circuit
from ..framework.cycle_state import CycleState
from ..framework.events import ALWAYS, WILDCARD, Concerns, Hint, HintFunction, Registration
from ..framework.interface import (
    DependsOn,
    Plugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreparingPlugin,
    QueueSortPlugin,
)
from ..framework.measuring import UNMEASURED, Record
from ..framework.post_filter import Deletion, FailedAttempt, Patch, PostFiltered
from ..framework.questions import Steps
from ..framework.status import SKIP, SUCCESS, Code, Status, error
from ..kube.core import Pod
from ..kube.kinds import BY_KIND, WatchedKind, type_of
from ..kube.meta import HasMetadata
from ..model.cluster_objects import UnlistedError
from ..model.pod_info import PodInfo
from ..model.snapshot import Snapshot
from ..plugins.in_tree import IN_TREE
from ..plugins.node_unreadable import NodeUnreadable
from .answers import as_hint, as_keys, as_post_filtered, as_registrations, as_status
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
    PRE_FILTER,
    QUEUE_SORT,
    QUEUEING_HINT,
    RESERVE,
    ROLL_BACK,
    UNRESERVE,
    PluginError,
    as_error,
    failure_status,
    is_unawaited,
    with_plugin_name,
)
from .guard import Hook, IsCancelled, Points, questions_of
from .overruns import calls_plugins
from .rules import KEPT, Rules, rule_hooks
from .sort_keys import as_sort_key
from .statuses import as_binding, as_permit_answer, as_pre_flight, as_success, unchecked
from .watched_hook import guarded_call, hook_of, hooks

PreBindStep = Callable[[], Awaitable[Status]]


def hinting(plugin: Plugin, registration: Registration) -> Registration:
    """Returns the registration with a guarded hint function: if it fails, the pod is tried again,
    as in kube-scheduler; but not while the plugin is switched off and would only gate the pod. If a
    function of `concerns` fails, the change or the pod counts as concerned.
    """
    hint, concerns = registration.hint, registration.concerns
    guarded = partial(guarded_call, plugin, QUEUEING_HINT)
    if concerns is not None:
        concerns = Concerns(
            guarded(concerns.of_pod, as_keys, lambda *_: (ALWAYS,), lambda pod: pod),
            guarded(
                concerns.of_change,
                lambda keys: None if keys is None else as_keys(keys),
                lambda *_: None,
            ),
        )
    if hint is not None:
        hint = guarded(hint, as_hint, lambda *_: Hint.QUEUE, lambda pod, *_: pod)
    if plugin.breaker is not None and _may_be_off(plugin):
        hint = _unless_off(hint, plugin.breaker)
    return Registration(registration.event, hint, concerns)


def _may_be_off(plugin: Plugin) -> bool:
    """True for a plugin that gates its pods while it is switched off."""
    return plugin.breaker is not None and isinstance(plugin, PreEnqueuePlugin)


def _unless_off(hint: HintFunction | None, breaker: Breaker) -> HintFunction:
    """Returns a hint function that skips events while a plugin that gates pods is switched off.
    Once its rest is over, any event has the pod tried.
    """

    def asked(pod: Pod, old: object | None, new: object | None) -> Hint:
        if breaker.circuit is Circuit.OPEN:
            return Hint.SKIP if breaker.rest(breaker.now()) else Hint.QUEUE
        return Hint.QUEUE if hint is None else hint(pod, old, new)

    return asked


class Profile(Rules):
    """The plugins of one scheduler name. `points` maps the name of an extension point to (plugin,
    weight) in order. `gate` records PreEnqueue, which belongs to no attempt.
    """

    def __init__(
        self,
        scheduler_name: str,
        points: Points,
        percentage_of_nodes_to_score: int | None = None,
        gate: Record = UNMEASURED,
    ) -> None:
        super().__init__(rule_hooks(points))
        self._hints: dict[str, Sequence[Registration]] | None = None
        self._gate = CycleState()
        self._gate.record = gate
        self.parts: Mapping[DependsOn, Rules] = {
            part: self.depending_on(part) for part in DependsOn
        }
        self.of_cluster = self.parts[DependsOn.CLUSTER]
        self.of_pod = self.depending_on(DependsOn.CLAIMS, DependsOn.CLUSTER)
        self.kept = self.depending_on(*KEPT)
        self.scheduler_name = scheduler_name
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        every = {plugin.name: plugin for plugins in points.values() for plugin, _ in plugins}
        self.plugins: tuple[Plugin, ...] = tuple(every.values())
        before = [plugin for plugin, _ in points.get("preFilter", ())]
        self._preparing = [plugin for plugin in before if isinstance(plugin, PreparingPlugin)]

        sort = next(p for p, _ in points["queueSort"] if isinstance(p, QueueSortPlugin))
        # The queue needs a key: if the plugin fails, the pod gets the key of PrioritySort.
        self.sort_key = guarded_call(
            sort,
            QUEUE_SORT,
            sort.sort_key,
            partial(as_sort_key, plugin=sort),
            lambda _, info, enqueued_at: (-info.priority, enqueued_at),
            lambda info, _: info.pod,
        )
        self._pre_enqueue = [
            hook_of(p, PRE_ENQUEUE, partial(_asked_about_pod, p.pre_enqueue), as_success, SUCCESS)
            for p, _ in points.get("preEnqueue", ())
            if isinstance(p, PreEnqueuePlugin)
        ]
        self._post_filter = hooks(
            points, "postFilter", POST_FILTER, "post_filter", as_post_filtered
        )
        self._reserve = hooks(points, "reserve", RESERVE, "reserve", as_success, SUCCESS)
        self._unreserve = hooks(points, "reserve", UNRESERVE, "unreserve", unchecked, None)[::-1]
        self._permit = hooks(points, "permit", PERMIT, "permit", as_permit_answer)
        self._pre_flight = hooks(
            points,
            "preBind",
            PRE_BIND_PRE_FLIGHT,
            "pre_bind_pre_flight",
            as_pre_flight,
            SUCCESS,
            SKIP,
        )
        self._pre_bind = hooks(points, "preBind", PRE_BIND, "pre_bind", as_success, SUCCESS)
        self._roll_back = hooks(points, "preBind", ROLL_BACK, "roll_back", unchecked)[::-1]
        self._bind = hooks(points, "bind", BIND, "bind", as_binding, SUCCESS, SKIP)
        self._post_bind = hooks(points, "postBind", POST_BIND, "post_bind", unchecked, None)

    @property
    def of_packages(self) -> tuple[str, ...]:
        """The names of the plugins that come from packages, not in-tree."""
        ours = (*IN_TREE, NodeUnreadable.name)
        return tuple(plugin.name for plugin in self.plugins if plugin.name not in ours)

    @property
    def binders(self) -> tuple[str, ...]:
        """The names of the Bind plugins, in the order in which they are asked."""
        return tuple(hook.name for hook in self._bind)

    def pre_binders(self, state: CycleState) -> tuple[str, ...]:
        """Returns the names of the PreBind plugins that the pre-flight left."""
        return tuple(hook.name for hook in self._pre_bind if hook.name not in state.skip_pre_bind)

    @property
    def lookups(self) -> frozenset[type[HasMetadata]]:
        return frozenset(type_of(kind) for plugin in self.plugins for kind in plugin.lookups)

    # ----------------------------------------------------------------------------- before the queue

    def pre_enqueue(self, pod: Pod) -> Status:
        """Returns the first status that keeps the pod out of the active queue, or success."""
        record, answer = self._gate.record, SUCCESS
        began = record.now()
        try:
            for hook in self._pre_enqueue:
                hook.ask(self._gate, pod, None)
        except PluginError as failure:
            answer = failure.status
        # As in kube-scheduler, this counts as a success whatever the plugins answer.
        record.took(at.PRE_ENQUEUE, began)
        return answer

    def hints(self) -> dict[str, Sequence[Registration]]:
        """Returns the events that each plugin registered for, by the plugin's name. Plugins are
        asked once.

        A plugin is left out if it does not override events_to_register, or fails there: then every
        event may help the pods that it rejected.
        """
        if self._hints is None:
            self._hints = self._registered()
        return self._hints

    def _registered(self) -> dict[str, Sequence[Registration]]:
        registered: dict[str, Sequence[Registration]] = {}
        followed = self._followed()
        for plugin in self.plugins:
            if type(plugin).events_to_register is Plugin.events_to_register:
                if _may_be_off(plugin):
                    registered[plugin.name] = (hinting(plugin, Registration(WILDCARD)),)
                continue
            register = guarded_call(
                plugin,
                EVENTS_TO_REGISTER,
                plugin.events_to_register,
                partial(as_registrations, others=followed),
                lambda _: None,
            )
            registrations = register()
            if registrations is not None:
                registered[plugin.name] = tuple(
                    hinting(plugin, registration) for registration in registrations
                )
        return registered

    def _followed(self) -> set[str]:
        """Returns the names of the kinds that are followed, or would be for an event of theirs."""
        kinds = [kind for plugin in self.plugins for kind in plugin.lookups]
        declared = [kind for kind in kinds if isinstance(kind, WatchedKind)]
        known = {kind.kind for kind in BY_KIND.values()}
        return known.union(*({kind.kind, kind.full_name} for kind in declared))

    # ---------------------------------------------------------------------------- before PreFilter

    def prepare(self, info: PodInfo, snapshot: Snapshot) -> Steps[None]:
        """Lets plugins update what they keep from decision to decision. Raises PluginError."""
        point = PRE_FILTER
        for plugin in self._preparing:
            try:
                if not plugin.prepares_for(info):
                    continue
                status = as_status((yield from questions_of(plugin.prepare(info, snapshot))))
            except CRASHES as exception:
                if is_unawaited(exception):
                    raise
                problem = failure_status(plugin, point, exception, pod=info.key)
                raise PluginError(problem) from exception
            if not status.ok:
                raise PluginError(as_error(plugin, point, status))

    # --------------------------------------------------------------------------- where no node fits

    def post_filter(self, attempt: FailedAttempt) -> Steps[PostFiltered | None]:
        """Runs PostFilter until a plugin makes room; None if there is no plugin.

        The reasons of the plugins that made none are joined, and the last of them that nominates or
        denominates counts; an error replaces them, and leaves the nomination as it is. Raises
        PluginError if a plugin looks up objects that are not listed: without them nothing can be
        decided, and the pod is tried again.
        """
        if not self._post_filter:
            return None
        record = attempt.state.record
        began = record.now()
        try:
            answer = yield from self._post_filtered(attempt)
        except PluginError as failure:
            if isinstance(failure.__cause__, UnlistedError):
                raise
            answer = PostFiltered(failure.status)
        record.took(at.POST_FILTER, began, answer.status.code)
        return answer

    def _post_filtered(self, attempt: FailedAttempt) -> Steps[PostFiltered]:
        reasons: list[str] = []
        patches: tuple[Patch | Deletion, ...] = ()
        nominates, again, rejected_by = PostFiltered(SUCCESS), False, frozenset[str]()
        for hook in self._post_filter:
            answer = yield from hook.ask_in_steps(attempt)
            patches += answer.patches
            status = with_plugin_name(hook.plugin, answer.status)
            answer = msgspec.structs.replace(answer, status=status, patches=patches)
            if status.ok or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return answer
            if not status.rejected:  # the pod keeps the nomination that it has
                return msgspec.structs.replace(answer, nomination=None, denominate=False)
            reasons += status.reasons
            if answer.nomination is not None or answer.denominate:
                nominates = answer
            again = again or answer.again
            rejected_by |= answer.rejected_by
        return PostFiltered(
            Status(Code.UNSCHEDULABLE, tuple(reasons)),
            nominates.nomination,
            denominate=nominates.denominate,
            again=again,
            patches=patches,
            rejected_by=rejected_by,
        )

    # ----------------------------------------------------------------------- after a node is chosen

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """Runs Reserve in order. The first failure ends it, and every plugin unreserves."""
        record, status = state.record, SUCCESS
        began = record.now()
        try:
            for hook in self._reserve:
                hook.ask(state, info, node)
        except PluginError as failure:
            status = failure.status
        record.took(at.RESERVE, began, status.code)
        if status is not SUCCESS:
            self.unreserve(state, info, node)
        return status

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        """Runs Unreserve of every plugin, in reverse order."""
        record = state.record
        began = record.now()
        for hook in self._unreserve:
            with suppress(PluginError):
                hook.ask(state, info, node)
        record.took(at.UNRESERVE, began)

    def permit(
        self, state: CycleState, info: PodInfo, node: str
    ) -> tuple[Status, dict[str, float]]:
        """Runs Permit. With WAIT, returns the seconds that each waiting plugin grants."""
        record = state.record
        waits: dict[str, float] = {}  # dict[str, float]() takes 30 times as long
        if not self._permit:
            record.idle(at.PERMIT)
            return SUCCESS, waits
        began = record.now()
        try:
            for hook in self._permit:
                status, seconds = hook.ask(state, info, node)
                if not status.ok:
                    waits[hook.name] = seconds
            status = Status(Code.WAIT) if waits else SUCCESS
        except PluginError as failure:
            status, waits = failure.status, {}
        record.took(at.PERMIT, began, status.code)
        return status, waits

    def pre_bind_pre_flight(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """Returns SKIP if no PreBind plugin has anything to do for the pod. Plugins that return
        SKIP are left out of PreBind.
        """
        record = state.record
        began = record.now()
        skipped: set[str] = set()
        parallel: set[str] = set()
        state.skip_pre_bind, state.parallel_pre_bind = skipped, parallel
        try:
            for hook in self._pre_flight:
                answer = hook.ask(state, info, node)
                if answer is SKIP:
                    skipped.add(hook.name)
                elif isinstance(answer, PreBindPreFlightResult) and answer.allow_parallel:
                    parallel.add(hook.name)
            status = SKIP if len(skipped) == len(self._pre_flight) else SUCCESS
        except PluginError as failure:
            status = failure.status
        record.took(at.PRE_BIND_PRE_FLIGHT, began, status.code)
        return status

    def pre_bind_steps(
        self, state: CycleState, info: PodInfo, node: str, is_cancelled: IsCancelled
    ) -> list[list[PreBindStep]]:
        """Returns the PreBind calls that the pre-flight left, in order; the calls of one list may
        run at the same time.
        """
        steps: list[list[PreBindStep]] = []
        joins = False
        for hook in self._pre_bind:
            if hook.name in state.skip_pre_bind:
                continue
            in_parallel = hook.name in state.parallel_pre_bind
            if not (joins and in_parallel):
                steps.append([])
            joins = in_parallel
            steps[-1].append(partial(_pre_bound, hook, state, info, node, is_cancelled))
        return steps

    async def roll_back(
        self, state: CycleState, info: PodInfo, node: str, is_cancelled: IsCancelled
    ) -> None:
        """Runs the roll-back of every PreBind plugin, in reverse order."""
        for hook in self._roll_back:
            with suppress(PluginError):
                await hook.ask_async(state, info, node, is_cancelled)

    async def bind(
        self, state: CycleState, info: PodInfo, node: str, is_cancelled: IsCancelled
    ) -> Status:
        """Returns the status of the first bind plugin that does not skip the pod."""
        record = state.record
        began = record.now()
        try:
            for hook in self._bind:
                status = await hook.ask_async(state, info, node, is_cancelled)
                if status is SUCCESS:
                    break
            else:
                status = error(f"no bind plugin of profile {self.scheduler_name} took the pod")
        except PluginError as failure:
            status = failure.status
        record.took(at.BIND, began, status.code)
        return status

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None:
        """Runs PostBind of every plugin."""
        record = state.record
        if not self._post_bind:
            record.idle(at.POST_BIND)
            return
        began = record.now()
        for hook in self._post_bind:
            with suppress(PluginError):
                hook.ask(state, info, node)
        record.took(at.POST_BIND, began)


async def _pre_bound(
    hook: Hook[Status], state: CycleState, info: PodInfo, node: str, is_cancelled: IsCancelled
) -> Status:
    try:
        return await hook.ask_async(state, info, node, is_cancelled)
    except PluginError as failure:
        return failure.status


@calls_plugins
def _asked_about_pod(
    pre_enqueue: Callable[[Pod], Status], _: CycleState, pod: Pod, __: None
) -> Status:
    return pre_enqueue(pod)

"""The binding actor: each placement is a job for a worker, from the wait on Permit to the bound
pod.

A binding that fails is undone in reverse (Unreserve, Forget), the pod goes back to the queue, and
the pods that the free room may help are woken. A binding that is cancelled, because the lease is
lost or the process stops, is undone too.

Pods that the API server cannot take yet stay in the queue: while too many bindings are being
written, the queue pauses their namespace, or the cycle has to wait (writes.py). Pods that wait on
Permit or are in PreBind do not count, because they may wait for pods that are not placed yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import anyio
import msgspec
from anyio.abc import TaskStatus

from ..attempt.ending import Attempts
from ..attempt.failure import Stage, failed_at_stage
from ..client.extender.calls import Extenders
from ..mailboxes import Mailboxes
from ..messages.binding import BindingMessage, BindPlaced, Placement, RejectWaiting, StopBinding
from ..messages.cache import Forget, WhereBound
from ..messages.order import ReplyTo
from ..messages.queue import (
    Activate,
    ClusterChanged,
    Done,
    Failure,
    PauseNamespace,
    ResumeNamespace,
)
from ..messages.recorder import PodBound, SetNominatedNode
from ..runtime.actor import Actor
from ..runtime.ask import ask
from ..runtime.clock import Clock
from ..runtime.race import race
from ..runtime.workers import Line, Workers
from ..scheduling.decision.profile import PreBindStep, Profile
from ..scheduling.framework.events import ASSIGNED_POD_DELETE
from ..scheduling.framework.handle import ApiHandle
from ..scheduling.framework.measuring import PRE_BIND
from ..scheduling.framework.status import SKIP, SUCCESS, NotFound, Status
from ..scheduling.kube.core import FINISHED, Pod
from ..scheduling.model.pod_info import PodInfo
from .state import PodsInBinding
from .writes import Writes

MOST_IDLE = 64  # workers that are kept for later placements
CANCELLED = float("-inf")  # the deadline that a cancelled task sees
# The waits before the requests for a pod whose binding has failed, in seconds, while the API server
# does not answer.
PATIENCE = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


class BindingActor(Actor[BindingMessage]):
    def __init__(
        self,
        mailboxes: Mailboxes,
        extenders: Extenders,
        api: ApiHandle,
        clock: Clock,
        pods: PodsInBinding,
        attempts: Attempts,
        *,
        nominates: bool = True,
        known: Callable[[], Mapping[str, Pod]] | None = None,
    ) -> None:
        """Makes the actor. With `nominates`, the node is announced before PreBind, and PreBind
        plugins are first asked whether they have anything to do. `known` returns the pods of the
        informer by key.
        """
        super().__init__(mailboxes.binding)
        self._queue = mailboxes.queue
        self._cache = mailboxes.cache
        self._recorder = mailboxes.recorder
        self._extenders = extenders
        self._api = api
        self._clock = clock
        self._pods = pods
        self._attempts = attempts
        self._instruments = attempts.instruments
        self._nominates = nominates
        self._known = known
        self._placed: Line[Placement] = Line()
        self._workers: Workers[Placement] | None = None
        self._writes = Writes()
        self._stopped: ReplyTo[None] | None = None  # the cycle waits for this until there is room

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as group:
            self._workers = Workers(
                group, self._placed, self._bind, most=float("inf"), most_idle=MOST_IDLE
            )
            await super().run(task_status=task_status)

    def handle(self, message: BindingMessage) -> None:
        match message:
            case BindPlaced(placement, accepted):
                if self._attempts.tells_steps:
                    numbers = {
                        "evaluatedNodes": placement.evaluated,
                        "feasibleNodes": placement.feasible,
                    }
                    self._step(placement, "Pod assumed and reserved", **numbers)
                if placement.waits:
                    info = placement.pod.info
                    self._pods.wait(info, placement.node, placement.waits, self._clock.now())
                assert self._workers is not None
                self._placed.append(placement)
                self._workers.wake()
                if self._writes.are_too_many():
                    self._stopped = accepted
                else:
                    accepted.set(None)
            case RejectWaiting(uid):
                self._pods.reject(uid, "", "removed")
            case StopBinding(reply, uid, plugin, reason):
                reply.set(self._pods.preempt(uid, plugin, reason))
            case _:
                assert_never(message)

    async def _bind(self, placement: Placement) -> None:
        """Runs one binding cycle."""
        self._instruments.bindings.value += 1
        info, node = placement.pod.info, placement.node
        profile = placement.profile
        failure: Failure | None = None
        where: str | None = ""
        ended = False
        try:
            flight = (
                profile.pre_bind_pre_flight(placement.cycle, info, node)
                if self._nominates
                else SUCCESS
            )
            announced = self._announces(placement, flight)
            failure = await self._run_until_bindable(
                profile, placement, flight, announced=announced
            )
            if failure is not None:
                where = await self._node_in_cache(info)
            else:
                if self._attempts.tells_steps:
                    self._step(placement, "Attempting to bind pod to node")
                status = await self._bind_to_node(profile, placement)
                if not status.ok:
                    where = await self._node_in_cache(info)
                    if not where:
                        where = await self._node_at_server(info)
                    failure = None if where == node else failed_at_stage(Stage.AFTER_DONE, status)
            ended = True
        finally:
            self._pods.forget(info.uid)
            self._instruments.bindings.value -= 1
            if not ended:
                # Cancelled: the process stops, and the pod is pending for the next leader.
                self._release(profile, placement)
        if failure is None:
            if announced:
                self._recorder.tell(PodBound(info.uid))
            self._finish(profile, placement)
        else:
            await self._undo_placement(profile, placement, failure, where)

    async def _run_until_bindable(
        self, profile: Profile, placement: Placement, flight: Status, *, announced: bool
    ) -> Failure | None:
        """Waits on Permit and runs PreBind. Returns the failure, if there is one. `flight` is the
        answer of PreBindPreFlight; with `announced`, the node is announced first.
        """
        info, node = placement.pod.info, placement.node
        if flight is not SKIP and not flight.ok:
            return failed_at_stage(Stage.BEFORE_DONE, flight)
        if announced:
            self._recorder.tell(SetNominatedNode(info.pod, node))
        if placement.waits:
            self._step(placement, "Pod waiting on permit", plugins=[*placement.waits])
            status = await self._wait_on_permit(info.uid)
            if not status.ok:
                self._step(placement, "Pod rejected while waiting on permit", status=status.message)
                return failed_at_stage(Stage.BEFORE_DONE, status)
            self._step(placement, "Pod allowed by permit")
        self._queue.tell(Done(info.uid))
        record = placement.cycle.record
        if flight is SKIP:
            record.idle(PRE_BIND)
            return None
        began = record.now()
        status = await self._run_pre_bind(profile, placement)
        record.took(PRE_BIND, began, status.code)
        if not status.ok:
            return failed_at_stage(Stage.AFTER_DONE, status)
        return None

    def _announces(self, placement: Placement, flight: Status) -> bool:
        """True if the node is announced before Permit and PreBind. These may take long, and a
        cluster autoscaler must leave the node alone.
        """
        if not self._nominates or not (flight.ok or placement.waits):
            return False
        return placement.pod.info.pod.status.nominated_node_name != placement.node

    def _step(self, placement: Placement, event: str, **fields: object) -> None:
        self._attempts.step(placement.pod, event, node=placement.node, **fields)

    async def _bind_to_node(self, profile: Profile, placement: Placement) -> Status:
        """Binds the pod, by an extender or by plugins, and returns the status."""
        info, node = placement.pod.info, placement.node
        namespace = info.pod.metadata.namespace
        if self._writes.began(namespace):
            self._queue.tell(PauseNamespace(namespace))
        try:
            by_extender = await self._extenders.bind(info.pod, node)
            return (
                await profile.bind(placement.cycle, info, node, _is_cancelled)
                if by_extender is None
                else by_extender
            )
        finally:
            if self._writes.ended(namespace):
                self._queue.tell(ResumeNamespace(namespace))
            if self._stopped is not None:
                self._stopped.set(None)
                self._stopped = None

    async def _wait_on_permit(self, uid: str) -> Status:
        """Waits until every Permit plugin has allowed the pod, one has rejected it, or its time has
        run out.
        """
        decided, began = anyio.Event(), self._clock.now()
        self._pods.wake_by(uid, decided.set)
        while (status := self._pods.take(uid)) is None:
            seconds = self._pods.deadline(uid) - self._clock.now()

            async def time_out(seconds: float = seconds) -> None:
                await self._clock.sleep(seconds)
                self._pods.expire(uid, self._clock.now())

            await race(time_out, decided.wait)
        self._instruments.waited(status.code, began)
        return status

    async def _run_pre_bind(self, profile: Profile, placement: Placement) -> Status:
        """Runs PreBind and returns the status. A failure or a preemption cancels the plugins that
        run at the same time.
        """
        info = placement.pod.info
        steps = profile.pre_bind_steps(placement.cycle, info, placement.node, _is_cancelled)
        if not steps:
            return SUCCESS
        status = SUCCESS
        with anyio.CancelScope() as scope:
            self._pods.start_pre_bind(info.uid, scope.cancel)
            for step in steps:
                # A call that runs alone needs no task of its own.
                status = await (step[0]() if len(step) == 1 else _run_together(step))
                if not status.ok:
                    break
        stopped = self._pods.finish_pre_bind(info.uid)
        return status if stopped.ok else stopped

    def _finish(self, profile: Profile, placement: Placement) -> None:
        info, node = placement.pod.info, placement.node
        if self._is_over(info):
            self._cache.tell(Forget(info, node))
        self._attempts.scheduled(placement)
        profile.post_bind(placement.cycle, info, node)
        placement.cycle.record.end("scheduled", node)
        activated = placement.cycle.take_pods_to_activate()
        if activated:
            self._queue.tell(Activate(activated, profile.of_packages, info.key))

    def _is_over(self, info: PodInfo) -> bool:
        """True if the informer has no such pod any more: it was bound before and has finished,
        while an old list or a silent watch showed it as pending. Then no event will free the room
        that is assumed for it.
        """
        if self._known is None:
            return False
        pod = self._known().get(info.key)
        return pod is None or pod.metadata.uid != info.uid or pod.status.phase in FINISHED

    def _release(self, profile: Profile, placement: Placement, where: str | None = None) -> None:
        """Releases the reservations of the pod, and its room if the pod has no node elsewhere or is
        over.
        """
        info, node = placement.pod.info, placement.node
        self._step(placement, "Pod unreserved and forgotten")
        profile.unreserve(placement.cycle, info, node)
        if not where or self._is_over(info):
            self._cache.tell(Forget(info, node))

    async def _undo_placement(
        self, profile: Profile, placement: Placement, failure: Failure, where: str | None
    ) -> None:
        """Releases the reservations and the room of the pod, and returns it to the queue. `where`
        is the node that another scheduler gave it; "" for none, None if unknown.
        """
        info, node = placement.pod.info, placement.node
        self._release(profile, placement, where)
        if where is not None:
            await profile.roll_back(placement.cycle, info, node, _is_cancelled)
            where = where or await self._node_in_cache(info)
        self._attempts.failed(
            placement.pod,
            failure,
            placement.started,
            placement.cycle.record,
            node,
            bound_elsewhere=bool(where),
        )
        # The room that is free again may help other pods, but not this one.
        spec = msgspec.structs.replace(info.pod.spec, node_name=node)
        pod = msgspec.structs.replace(info.pod, spec=spec)
        self._queue.tell(ClusterChanged(ASSIGNED_POD_DELETE, pod, None, except_uid=info.uid))

    async def _node_in_cache(self, info: PodInfo) -> str:
        where: str = await ask(self._cache, lambda reply: WhereBound(reply, info.key, info.uid))
        return where

    async def _node_at_server(self, info: PodInfo) -> str | None:
        """Returns the node of a pod at the API server, "" for none, None if there is no answer.

        The binding may be written though its answer is lost. Then the pod has the room that is
        assumed for it, and needs what PreBind wrote.
        """
        metadata = info.pod.metadata
        for seconds in PATIENCE:
            await self._clock.sleep(seconds)
            answer = await self._api.get(Pod, metadata.name, metadata.namespace)
            if isinstance(answer, NotFound):
                return ""
            if not isinstance(answer, Status):
                return answer.spec.node_name if answer.metadata.uid == info.uid else ""
        return None


async def _run_together(calls: Sequence[PreBindStep]) -> Status:
    """Runs PreBind calls at the same time. Returns the status of the first that fails, which
    cancels the others.
    """
    failures: list[Status] = []
    async with anyio.create_task_group() as group:

        async def run(call: PreBindStep) -> None:
            status = await call()
            if not status.ok:
                failures.append(status)
                group.cancel_scope.cancel()

        for call in calls:
            group.start_soon(run, call)
    return failures[0] if failures else SUCCESS


def _is_cancelled(exception: BaseException) -> bool:
    """True if this task was cancelled by us, and not by a plugin or something it waited for."""
    is_one = isinstance(exception, anyio.get_cancelled_exc_class())
    return is_one and anyio.current_effective_deadline() == CANCELLED

"""The scheduling cycle actor: pulls one pod at a time, finds a node for it, and hands it to the
binding actor.

It has no mailbox, so nothing can push work into it: that is the back-pressure. It never waits for
the API server, since conditions and events go to the recorder, and bindings to the binding actor.
Only without the feature gate SchedulerAsyncPreemption does it wait until the victims are evicted.
It waits for each extender that is interested in the pod, up to its time-out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import assert_never

import anyio
from anyio.abc import TaskStatus

from ..attempt import pod_events
from ..attempt.ending import Attempts
from ..attempt.failure import Stage, failed_at_stage, fits_nowhere
from ..client.extender.calls import Extenders
from ..mailboxes import Mailboxes
from ..messages.binding import BindPlaced, Placement
from ..messages.cache import Assume, Forget, ReturnSnapshot, TakeSnapshot
from ..messages.preemption import Preempt, PreemptionMessage, PreemptNow, SendPatches
from ..messages.queue import Activate, Done, Failure, NextPod, PodNoLongerPending, QueuedPod
from ..runtime.ask import Reply, ask
from ..runtime.clock import Clock
from ..scheduling.decision.outcome import Choice, DecisionFailure, Unfit
from ..scheduling.decision.profile import Profile
from ..scheduling.decision.scheduler import Scheduler
from ..scheduling.framework.status import SUCCESS, Code, Status


class CycleActor:
    def __init__(
        self,
        mailboxes: Mailboxes,
        profiles: Mapping[str, Profile],
        scheduler: Scheduler,
        extenders: Extenders,
        clock: Clock,
        attempts: Attempts,
        *,
        preempts_aside: bool = True,
    ) -> None:
        """Creates the actor. Without `preempts_aside`, it waits for each preemption."""
        self._queue = mailboxes.queue
        self._cache = mailboxes.cache
        self._binding = mailboxes.binding
        self._preemption = mailboxes.preemption
        self._recorder = mailboxes.recorder
        self._profiles = profiles
        self._scheduler = scheduler
        self._extenders = extenders
        self._clock = clock
        self._attempts = attempts
        self._preempts_aside = preempts_aside
        self._holds = count(1)  # the numbers of the preemptions

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Schedules pods until cancelled."""
        task_status.started()
        while True:
            await self._attempt(await ask(self._queue, NextPod))
            await asyncio.sleep(0)  # Lets watches and bindings run between two pods.

    async def _attempt(self, queued: QueuedPod) -> None:
        """Decides on a pod by the snapshot that the cache lends, and passes it to the binding actor
        or back to the queue.
        """
        info = queued.info
        if info.pod.metadata.deletion_timestamp is not None:
            self._queue.tell(Done(info.uid))
            self._recorder.tell(
                pod_events.failed_scheduling_event(
                    info.pod, f"skip schedule deleting pod: {info.key}"
                )
            )
            return
        started = self._clock.now()
        profile = self._profiles.get(info.pod.spec.scheduler_name)
        if profile is None:  # The profile vanished while the queue handed out the pod.
            self._queue.tell(PodNoLongerPending(info.pod))
            return
        record = self._attempts.begun(queued, started)
        placed: Assume | None = None
        status = SUCCESS
        try:
            snapshot = await ask(self._cache, TakeSnapshot)
            began = self._clock.now()
            extended = self._extenders.decide_on(info.pod)
            steps = self._scheduler.steps(profile, info, snapshot, record, extended=extended)
            outcome = await self._extenders.drive(info.pod, steps)
            self._attempts.decided(queued, outcome, started, began)
            if isinstance(outcome, Choice):
                status = profile.reserve(outcome.state, info, outcome.node)
                placed = Assume(info, outcome.node) if status.ok else None
        finally:  # Also when cancelled: undoing bindings then needs the cache.
            self._cache.tell(ReturnSnapshot(placed))
        failure: Failure | None = None
        node = ""
        orders: Sequence[PreemptionMessage] = ()
        match outcome:
            case Choice():
                node = outcome.node
                if placed is not None:
                    status = await self._place(profile, queued, outcome, started)
                if not status.ok:
                    failure = failed_at_stage(Stage.BEFORE_DONE, status)
            case Unfit():
                failure, orders = await self._make_room(queued, outcome)
            case DecisionFailure(status):
                failure = failed_at_stage(Stage.DECISION, status)
            case _:
                assert_never(outcome)
        if failure is not None:
            self._attempts.failed(queued, failure, started, record, node)
        for order in orders:
            self._preemption.tell(order)

    async def _place(
        self, profile: Profile, queued: QueuedPod, choice: Choice, started: float
    ) -> Status:
        """Runs Permit for an assumed pod, and passes it to the binding actor. If Permit fails,
        undoes the assumption and returns the status.
        """
        info, node, state = queued.info, choice.node, choice.state
        status, waits = profile.permit(state, info, node)
        if not status.ok and status.code is not Code.WAIT:
            profile.unreserve(state, info, node)
            self._cache.tell(Forget(info, node))
            return status
        # The cycle waits until the binding actor has accepted the pod, because the Permit plugins
        # of the next pod must find it among the waiting pods, and because pods are better off in
        # the queue while many bindings are under way.
        accepted: Reply[None] = Reply()
        placement = Placement(
            queued, node, profile, state, waits, started, choice.evaluated, choice.feasible
        )
        self._binding.tell(BindPlaced(placement, accepted))
        activated = state.take_pods_to_activate()
        if activated:
            self._queue.tell(Activate(activated, profile.of_packages, info.key))
        await accepted.wait()
        return SUCCESS

    async def _make_room(
        self, queued: QueuedPod, unfit: Unfit
    ) -> tuple[Failure, Sequence[PreemptionMessage]]:
        """Returns the failure of a pod that fits nowhere, and the orders to send after the queue
        has the pod back. Without `preempts_aside`, waits for the preemption.
        """
        info, nomination, answer = queued.info, unfit.nomination, unfit.post_filtered
        orders: list[PreemptionMessage] = []
        hold, problem = 0, ""
        if nomination is not None:
            hold = next(self._holds) if self._preempts_aside else 0
            order = Preempt(
                info,
                nomination.node,
                hold,
                nomination.victims,
                nomination.displaced,
                queued.attempts,
            )
            self._attempts.nominated(queued, nomination.node, len(nomination.victims))
            if self._preempts_aside:
                orders.append(order)
            else:
                problem = await ask(self._preemption, lambda reply: PreemptNow(reply, order))
        if answer is not None and answer.patches:
            orders.append(SendPatches(info, answer.patches))
        return fits_nowhere(unfit, hold, problem), orders

"""The scheduling cycle actor: pulls one pod at a time, finds a node for it, and hands it to the
binding actor.

It has no mailbox, so nothing can push work into it: that is the back-pressure. It never waits for
the API server, since conditions and events go to the recorder, and bindings to the binding actor.
Only without the feature gate SchedulerAsyncPreemption does it wait until the victims are evicted.
It waits for each extender that is interested in the pod, up to its time-out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import assert_never

import anyio
import msgspec
from anyio.abc import TaskStatus

from ..attempt import pod_events
from ..attempt.ending import Attempts
from ..attempt.failure import Stage, failed, no_node
from ..client.extender.calls import Extenders
from ..mailboxes import Mailboxes
from ..messages.binding import BindPlaced, Placement
from ..messages.cache import Assume, Forget, ReturnSnapshot, TakeSnapshot
from ..messages.preemption import Preempt, PreemptNow, SendPatches
from ..messages.queue import Activate, Done, NextPod, PendingPodDeleted, QueuedPod
from ..runtime.ask import Reply, ask
from ..runtime.clock import Clock
from ..scheduling.decision.outcome import Chosen, Failed, Outcome, Unfit
from ..scheduling.decision.profile import Profile
from ..scheduling.decision.scheduler import Scheduler
from ..scheduling.framework.measuring import Record
from ..scheduling.framework.post_filter import Nomination, PostFiltered
from ..scheduling.framework.status import SUCCESS, Code, Status
from ..scheduling.model.pod_info import PodInfo
from ..scheduling.model.snapshot import Snapshot
from ..telemetry.instruments import Instruments


class CycleActor:
    def __init__(
        self,
        mailboxes: Mailboxes,
        profiles: Mapping[str, Profile],
        scheduler: Scheduler,
        extenders: Extenders,
        clock: Clock,
        instruments: Instruments,
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
        self._instruments = instruments
        self._preempts_aside = preempts_aside
        self._attempts = Attempts(mailboxes, clock, instruments)
        self._holds = count(1)  # the numbers of the preemptions

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Schedules pods until cancelled."""
        task_status.started()
        while True:
            await self._attempt(await ask(self._queue, NextPod))
            await asyncio.sleep(0)  # Lets watches and bindings run between two pods.

    async def _attempt(self, queued: QueuedPod) -> None:
        info = queued.info
        if info.pod.metadata.deletion_timestamp is not None:
            self._queue.tell(Done(info.uid))
            self._recorder.tell(
                pod_events.failed_scheduling(info.pod, f"skip schedule deleting pod: {info.key}")
            )
            return
        started = self._clock.now()
        self._attempts.begun(queued)
        profile = self._profiles.get(info.pod.spec.scheduler_name)
        if profile is None:  # The profile vanished while the queue handed out the pod.
            self._queue.tell(PendingPodDeleted(info.pod))
            return
        record = self._instruments.attempt(info, profile.scheduler_name, started)
        placed: Assume | None = None
        reserved = SUCCESS
        try:
            snapshot = await ask(self._cache, TakeSnapshot)
            began = self._clock.now()
            outcome = await self._decide(profile, info, snapshot, record)
            self._instruments.decided(started, began, self._clock.now())
            if isinstance(outcome, Chosen):
                reserved = profile.reserve(outcome.state, info, outcome.node)
                if reserved.ok:
                    placed = Assume(info, outcome.node)
                else:
                    profile.unreserve(outcome.state, info, outcome.node)
        finally:  # Also when cancelled: undoing bindings then needs the cache.
            self._cache.tell(ReturnSnapshot(placed))
        match outcome:
            case Chosen() if not reserved.ok:
                self._attempts.failed(queued, failed(Stage.BEFORE_DONE, reserved), started, record)
            case Chosen():
                await self._place(profile, queued, outcome, started)
            case Unfit():
                await self._no_node(queued, outcome, started, record)
            case Failed(status):
                self._attempts.failed(queued, failed(Stage.DECISION, status), started, record)
            case _:
                assert_never(outcome)

    async def _no_node(
        self, queued: QueuedPod, unfit: Unfit, started: float, record: Record
    ) -> None:
        """Returns the pod to the queue, and starts the preemption if a node is nominated."""
        info, nomination, answer = queued.info, unfit.nomination, unfit.post_filtered
        if nomination is None:
            self._attempts.failed(queued, no_node(unfit, 0), started, record)
        elif self._preempts_aside:
            hold = next(self._holds)
            self._attempts.failed(queued, no_node(unfit, hold), started, record)
            self._attempts.nominated(queued, nomination.node, len(nomination.victims))
            self._preemption.tell(_order(info, nomination, hold))
        else:
            order = _order(info, nomination, 0)
            self._attempts.nominated(queued, nomination.node, len(nomination.victims))
            problem: str = await ask(self._preemption, lambda reply: PreemptNow(reply, order))
            unfit = _after(unfit, problem)
            self._attempts.failed(queued, no_node(unfit, 0), started, record)
        if answer is not None and answer.patches:
            self._preemption.tell(SendPatches(info, answer.patches))

    async def _decide(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, record: Record
    ) -> Outcome:
        """Runs the scheduling algorithm, with the extenders that are interested in the pod."""
        if not self._extenders.decide_on(info.pod):
            return self._scheduler.schedule(profile, info, snapshot, record)
        return await self._extenders.drive(
            info.pod, self._scheduler.steps(profile, info, snapshot, record, extended=True)
        )

    async def _place(
        self, profile: Profile, queued: QueuedPod, chosen: Chosen, started: float
    ) -> None:
        """Runs Permit for an assumed pod, then hands it to the binding actor."""
        info, node, state = queued.info, chosen.node, chosen.state
        status, waits = profile.permit(state, info, node)
        if status.ok or status.code is Code.WAIT:
            placement = Placement(
                queued,
                node,
                profile,
                state,
                waits,
                started,
                chosen.evaluated,
                chosen.feasible,
            )
            if self._attempts.shows_steps:
                self._attempts.step(
                    queued,
                    "Pod assumed and reserved",
                    node=node,
                    evaluatedNodes=chosen.evaluated,
                    feasibleNodes=chosen.feasible,
                )
            # The cycle waits until the binding actor has taken the pod, because the Permit plugins
            # of the next pod must find it among those that wait, and because pods are better off in
            # the queue while many bindings are under way.
            taken: Reply[None] = Reply()
            self._binding.tell(BindPlaced(placement, taken))
            activated = state.take_pods_to_activate()
            if activated:
                self._queue.tell(Activate(activated))
            await taken.wait()
            return
        profile.unreserve(state, info, node)
        self._cache.tell(Forget(info, node))
        self._attempts.failed(
            queued, failed(Stage.BEFORE_DONE, status), started, state.record, node
        )


def _order(info: PodInfo, nomination: Nomination, hold: int) -> Preempt:
    return Preempt(info, nomination.node, hold, nomination.victims, nomination.displaced)


def _after(unfit: Unfit, problem: str) -> Unfit:
    """Returns the outcome after a preemption that the cycle waited for. If the preemption failed,
    nothing is nominated, and the message says why.
    """
    if not problem:
        return unfit
    status = Status(Code.ERROR, (f"preemption: {problem}",))
    return msgspec.structs.replace(
        unfit, message=f"{unfit.message} {status.message}", post_filtered=PostFiltered(status)
    )

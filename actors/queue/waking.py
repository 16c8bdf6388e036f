"""Decides when a pod that waits is woken: by an event, after a time, by an order of a plugin, at
the end of its preemption, or because its profile changed.

hints.py asks the plugins whether an event helps a pod; queues.py moves the pod. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import islice

from ..messages.queue import Activate, ClusterChanged, PreemptionEnded
from ..scheduling.framework.events import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT
from ..scheduling.framework.status import Code
from ..scheduling.kube.core import Pod
from .effects import Effect
from .entry import Entry
from .hints import Worth
from .places import (
    ACTIVATED,
    ACTIVE,
    BACKOFF,
    BACKOFF_COMPLETE,
    EVENT,
    GATED,
    PREEMPTION_ENDED,
    PROFILES_CHANGED,
    TIMEOUT,
    Trigger,
)
from .queues import PREEMPTION, Queues

# Moves that no cluster event causes, as the metric queue_incoming_pods_total names them.
AFTER_PREEMPTION = Worth("PreemptionEnded")
NEW_PROFILES = Worth("ProfilesChanged")
PARKED_TOO_LONG = Worth(str(UNSCHEDULABLE_TIMEOUT))
GATE_FAILED = Worth("GateFailed")
KIND_KNOWN = Worth("KindKnown")
PLUGIN_ASKED_AGAIN = Worth("PluginAskedAgain")
BACKOFF_OVER = Worth("BackoffComplete", immediately=True)
FORCED = Worth(str(FORCE_ACTIVATE), immediately=True)
ACTIVATED_IN_VAIN = Worth(str(FORCE_ACTIVATE))
AFTER_ERROR = Worth("")
_ERROR = Code.ERROR  # Looking up a member of an enum in its class is slow.


class Waking:
    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._hints = queues.hints
        self._in_flight = queues.in_flight

    # ------------------------------------------------------------------------------------- events

    def changed(self, change: ClusterChanged, now: float) -> Sequence[Effect]:
        """Wakes the parked pods that an event may help. Pods in flight are judged for it when they
        return.
        """
        self._in_flight.remember(change)
        if not self._queues.unschedulable and not self._queues.gated:
            return ()
        self._hints.begin()
        effects: list[Effect] = []
        for parked in (self._queues.unschedulable, self._queues.gated):
            for entry in parked.concerned(change):
                if entry.hold and _awaits_room(entry):
                    continue  # An event woke it already; it waits for the end of its preemption.
                if change.max_priority is None or entry.info.priority <= change.max_priority:
                    effects += self.consider(entry, change, now)
        self._hints.end()
        return effects

    def consider(self, entry: Entry, change: ClusterChanged, now: float) -> Sequence[Effect]:
        """Wakes a parked pod if a plugin that rejected it answers that this change may help."""
        worth = self._hints.judge(entry, change)
        return () if worth is None else self._queues.requeue(entry, EVENT, worth, now)

    def after_attempt(
        self, entry: Entry, missed: Sequence[ClusterChanged] | None, now: float
    ) -> Worth | None:
        """Returns the reason to try the pod again at once, after the events during its attempt;
        None if the pod is to be parked. Its activations during the attempt count as one.
        """
        if any(_activates(change, entry) for change in missed or ()):
            self._queues.activations.skips(entry, now)
        if not entry.rejectors or missed is None:
            # No event cures an error. After Done the events that the pod missed are not known.
            return AFTER_ERROR
        best: Worth | None = None
        for change in missed:
            worth = self._hints.judge(entry, change)
            if worth is not None and (worth.immediately or not entry.pending):
                return worth
            best = best or worth
        return best

    # -------------------------------------------------------------------------------------- times

    def flush_backoff(self, now: float) -> Sequence[Effect]:
        """Moves the pods whose backoff is over."""
        effects: list[Effect] = []
        for entry in self._queues.backoff.over(now):
            effects += self._queues.leave_backoff(entry, BACKOFF_COMPLETE, BACKOFF_OVER, now)
        return effects

    def flush_unschedulable(self, now: float) -> Sequence[Effect]:
        """Has the pods that were parked for too long tried again, in case an event was missed.

        Gated pods are tried too. A pod that stays gated is tried again after the same time, not at
        each flush. Of those that each plugin gates because its PreEnqueue failed, or while it is
        switched off, one is tried at each flush: nothing else may happen that would try it.
        """
        queues = self._queues
        effects: list[Effect] = []
        # A gated pod is parked anew at `now`: with a negative limit the loop would not end.
        limit = max(queues.rules.max_unschedulable, 0.0)
        for entry in queues.unschedulable.longer_than(limit, now):
            entry.flushed = True
            effects += queues.requeue(entry, TIMEOUT, PARKED_TOO_LONG, now)
        for entry in queues.gated.longer_than(limit, now):
            queues.gated.put(entry, (entry.gated_by,), now)
            effects += queues.requeue(entry, TIMEOUT, PARKED_TOO_LONG, now)
        for rejector in queues.gated.waiting():
            failed = (entry for entry in queues.gated.of(rejector) if entry.gate.code is _ERROR)
            for entry in islice(failed, 1):
                effects += queues.requeue(entry, TIMEOUT, GATE_FAILED, now)
        return effects

    def ask_failed_gates(self, worth: Worth, now: float) -> Sequence[Effect]:
        """Asks PreEnqueue again about the pods that it gated because it failed. It may have an
        answer by now, and the events that told of it came while it had none.
        """
        effects: list[Effect] = []
        for entry in list(self._queues.gated):
            if entry.gate.code is _ERROR:
                effects += self._queues.requeue(entry, EVENT, worth, now)
        return effects

    # ------------------------------------------------------------------------------------- orders

    def activate(self, order: Activate, now: float) -> Sequence[Effect]:
        """Moves pods to active, as a plugin asked."""
        effects: list[Effect] = []
        for key in order.keys:
            entry = self._queues.entries.get(key)
            if entry is None:
                # The event is for this pod alone. The pod is tried again if its attempt fails.
                for flying in self._in_flight:
                    if flying.key == key:
                        _note_activation(flying, order)
                        self._in_flight.remember(
                            ClusterChanged(FORCE_ACTIVATE, None, flying.info.pod)
                        )
                continue
            _note_activation(entry, order)
            if entry.place is ACTIVE or self._skips_backoff(entry, now):
                effects += self._move_to_active(entry, ACTIVATED, now)
            elif entry.place is not BACKOFF:
                effects += self._queues.requeue(entry, ACTIVATED, ACTIVATED_IN_VAIN, now)
        return effects

    def _skips_backoff(self, entry: Entry, now: float) -> bool:
        """True if an activation of the pod may skip the rest of its backoff."""
        return not self._queues.backoff.holds(entry, now) or self._queues.activations.skips(
            entry, now
        )

    def end_hold(self, ended: PreemptionEnded, now: float) -> Sequence[Effect]:
        """Ends a hold. An event that came during the hold wakes the pod now; after a failed
        preemption it is tried again at once, as there may be no event.
        """
        entry = self._queues.entries.get(ended.key)
        if entry is None or entry.info.uid != ended.uid or entry.hold != ended.hold:
            return ()
        entry.hold = 0
        if ended.failed:
            return self._move_to_active(entry, PREEMPTION_ENDED, now)
        if _awaits_room(entry):
            return self._queues.requeue(entry, PREEMPTION_ENDED, AFTER_PREEMPTION, now)
        return ()

    def _move_to_active(self, entry: Entry, trigger: Trigger, now: float) -> Sequence[Effect]:
        """Moves a pod to active, whatever remains of its backoff."""
        if entry.place is BACKOFF:
            return self._queues.leave_backoff(entry, trigger, FORCED, now)
        if entry.place is ACTIVE:
            return ()
        return self._queues.requeue(entry, trigger, FORCED, now)

    def try_anew(self, schedulers: Set[str], now: float) -> Sequence[Effect]:
        """Lets the new profiles of these schedulers admit their pods, and tries the parked ones
        again.
        """
        effects: list[Effect] = []
        for entry in list(self._queues.entries.values()):
            if entry.scheduler not in schedulers:
                continue
            if entry.place is ACTIVE or entry.place is BACKOFF:
                effects += self._queues.gate_if_rejected(entry, NEW_PROFILES.event, now)
            elif not (entry.hold and _awaits_room(entry)):
                effects += self._queues.requeue(entry, PROFILES_CHANGED, NEW_PROFILES, now)
        return effects


def _activates(change: ClusterChanged, entry: Entry) -> bool:
    return (
        change.event is FORCE_ACTIVATE
        and isinstance(change.new, Pod)
        and change.new.metadata.uid == entry.info.uid
    )


def _note_activation(entry: Entry, order: Activate) -> None:
    entry.activated_for, entry.activated_at_pod = ", ".join(order.plugins), order.at


def _awaits_room(entry: Entry) -> bool:
    """True if an event has woken the pod while it is held until the end of its preemption."""
    return entry.place is GATED and entry.gated_by == PREEMPTION

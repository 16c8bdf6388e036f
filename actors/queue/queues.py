"""The four queues and the pods in flight, and each move of a pod between them.

The places and the moves are a table (places.py), and `move` is the only function that changes a
pod's place. Each place has a module for its data: ActivePods, Backoff, Parked (once for the
unschedulable pods, once for the gated ones) and InFlight. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..messages.queue import Place, ProfileRules, StoryStep
from ..scheduling.framework.events import PodNames
from ..scheduling.framework.status import SUCCESS, Status
from .activations import Activations
from .active import ActivePods
from .backoff import Backoff
from .effects import Effect, PodMoved
from .entry import Entry
from .gate_reports import GateReports
from .heap import Slot
from .hints import UNTIMED, HintTable, HintTimes, Worth
from .in_flight import InFlight
from .nominations import nominate
from .parked import ParkedPods
from .places import (
    ACTIVE,
    BACKOFF,
    DEFERRED,
    FAILED,
    GATED,
    IN_FLIGHT,
    PROFILES_CHANGED,
    TRANSITIONS,
    UNSCHEDULABLE,
    Trigger,
)
from .story import Stories
from .turns import Turns

PREEMPTION = "DefaultPreemption"  # the plugin that gates a pod while room is being made for it
ATTEMPT_FAILED = "ScheduleAttemptFailure"
LARGE_POD = "LargePodDeferred"


class QueueRules(ProfileRules, frozen=True):
    """The settings of the queue from the profiles and the flags.

    With `pop_from_backoff`, a pod is taken out of backoff early if no pod is active. PreEnqueue
    then runs when a pod comes to backoff, otherwise when it leaves. With `nominates_gated`, a pod
    that comes with a nomination keeps its room while it is gated. `hint_times` gets the durations
    of hint functions. `pod_names` are for the labels of events.
    """

    max_unschedulable: float = 300.0
    pop_from_backoff: bool = True
    nominates_gated: bool = False
    hint_times: HintTimes = UNTIMED
    pod_names: PodNames = PodNames()


class Queues:
    """The queues, shared by the modules of the queue's state. `entries` are the pods in them, by
    key.
    """

    def __init__(self, rules: QueueRules) -> None:
        self.rules = rules
        self.hints = HintTable(rules.hints, rules.hint_times)
        self.entries: dict[str, Entry] = {}
        self.active = ActivePods()
        self.backoff = Backoff(
            rules.initial_backoff, rules.max_backoff, self.sort_slot, pops=rules.pop_from_backoff
        )
        self.unschedulable = ParkedPods(self.hints)
        self.gated = ParkedPods(self.hints)
        self.in_flight = InFlight()
        self.gate_reports = GateReports()
        self.activations = Activations()
        self.stories = Stories()
        self.turns = Turns()
        self._by_place: dict[Place, ActivePods | Backoff | ParkedPods] = {
            ACTIVE: self.active,
            BACKOFF: self.backoff,
            UNSCHEDULABLE: self.unschedulable,
            GATED: self.gated,
        }

    def sort_slot(self, entry: Entry) -> Slot:
        """Returns the pod's slot in QueueSort's order; ties are in the order of arrival."""
        return (*self.rules.sort_key(entry.info, entry.timestamp), float(entry.arrival))

    def in_flight_by_key(self) -> dict[str, Entry]:
        """Returns the pods in flight by key, except pods with the name of a new pod in a queue."""
        return {entry.key: entry for entry in self.in_flight if entry.key not in self.entries}

    # -------------------------------------------------------------------------------------- moves

    def requeue(self, entry: Entry, trigger: Trigger, worth: Worth, now: float) -> Sequence[Effect]:
        """Moves a pod to gated if a PreEnqueue plugin or a hold keeps it, to backoff while its
        penalty lasts, otherwise to active.
        """
        event, cause = (ATTEMPT_FAILED, worth.event) if trigger is FAILED else (worth.event, "")
        waits = not worth.immediately and self.backoff.holds(entry, now)
        if self.rules.pop_from_backoff or not waits:
            status = self.rules.pre_enqueue(entry.info.pod)
            self._note_gate(entry, status, now)
            if not status.ok or entry.hold:
                plugin = PREEMPTION if status.ok else status.plugin
                step = StoryStep(now, GATED, event, plugin, message=status.message)
                return self._gate(entry, trigger, step)
        step = StoryStep(now, BACKOFF if waits else ACTIVE, event, worth.plugin, cause)
        if waits:
            return (self.arrive(entry, trigger, step),)
        return self._to_active(entry, trigger, step)

    def defer(self, entry: Entry, until: float, now: float) -> PodMoved:
        """Moves a large pod, which would be next, to backoff until its turn."""
        entry.deferred_until = until
        return self.arrive(entry, DEFERRED, StoryStep(now, BACKOFF, LARGE_POD))

    def leave_backoff(
        self, entry: Entry, trigger: Trigger, worth: Worth, now: float
    ) -> Sequence[Effect]:
        if self.rules.pop_from_backoff:
            return self._to_active(entry, trigger, StoryStep(now, ACTIVE, worth.event))
        return self.requeue(entry, trigger, worth, now)

    def gate_if_rejected(self, entry: Entry, event: str, now: float) -> Sequence[Effect]:
        """Moves a pod to gated if a PreEnqueue plugin of its new profile rejects it."""
        status = self.rules.pre_enqueue(entry.info.pod)
        self._note_gate(entry, status, now)
        if status.ok:
            return ()
        step = StoryStep(now, GATED, event, status.plugin, message=status.message)
        return self._gate(entry, PROFILES_CHANGED, step)

    def _note_gate(self, entry: Entry, status: Status, now: float) -> None:
        if status is not SUCCESS or entry.gate is not SUCCESS:
            self.gate_reports.note(entry, status, now)

    def arrive(self, entry: Entry, trigger: Trigger, step: StoryStep) -> PodMoved:
        """Moves a pod to the queue that this step of its story names."""
        self.move(entry, trigger, step.queue, step.at)
        self.stories.add(entry.key, step)
        return PodMoved(entry.key, step)

    def move(self, entry: Entry, trigger: Trigger, to: Place, now: float) -> None:
        """Changes the place of a pod. A pod in flight has to be removed from there before."""
        key, place = entry.key, entry.place
        assert (place, trigger, to) in TRANSITIONS, f"{key}: {place} to {to}, {trigger}"
        queue = self._by_place.get(place)
        if queue is not None:
            queue.remove(entry)
            del self.entries[key]
        entry.place = to
        if to is ACTIVE:
            self.active.put(key, self.sort_slot(entry), entry)
        elif to is BACKOFF:
            self.backoff.put(entry)
        elif to is UNSCHEDULABLE:
            self.unschedulable.put(entry, entry.rejectors, now)
        elif to is GATED:
            self.gated.put(entry, (entry.gated_by,), now)
        else:
            if to is IN_FLIGHT:
                self.in_flight.take_off(entry)
            return
        self.entries[key] = entry

    def _to_active(self, entry: Entry, trigger: Trigger, step: StoryStep) -> Sequence[Effect]:
        """Moves a pod to active. PreEnqueue has admitted it, now or when it came to backoff."""
        entry.gated_by = ""
        nominated: Sequence[Effect] = ()
        if entry.first_attempt_at is None:
            entry.first_attempt_at = step.at
            node = entry.info.pod.status.nominated_node_name
            if node and not self.rules.nominates_gated:
                nominated = nominate(entry, node)
        return (*nominated, self.arrive(entry, trigger, step))

    def _gate(self, entry: Entry, trigger: Trigger, step: StoryStep) -> Sequence[Effect]:
        """Moves a pod to gated. If it is there, records the plugin that now gates it."""
        plugin = step.plugin
        if entry.place is GATED and entry.gated_by == plugin:
            return ()
        entry.gated_by = plugin
        entry.unschedulable |= {plugin}
        if entry.place is GATED:
            self.gated.put(entry, (plugin,), step.at)
            return ()
        return (self.arrive(entry, trigger, step),)

    # ----------------------------------------------------------------------------- other profiles

    def use(self, new: ProfileRules) -> None:
        """Sorts and indexes all pods anew, by the functions of other profiles."""
        changes = {name: getattr(new, name) for name in ProfileRules.__struct_fields__}
        self.rules = msgspec.structs.replace(self.rules, **changes)
        self.hints.use(new.hints)
        self.unschedulable.index_anew()
        self.gated.index_anew()
        for entry in list(self.active):
            self.active.put(entry.key, self.sort_slot(entry), entry)
        self.backoff.use(new.initial_backoff, new.max_backoff)

    def validate(self) -> None:
        """Raises AssertionError if an invariant does not hold."""
        placed = [(place, entry) for place, queue in self._by_place.items() for entry in queue]
        placed += [(IN_FLIGHT, entry) for entry in self.in_flight]
        for place, entry in placed:
            assert entry.place is place, f"{entry.key} is in {place} and not in {entry.place}"
            if place is not IN_FLIGHT:
                assert self.entries[entry.key] is entry, entry.key
                assert entry.info.uid not in self.in_flight, f"{entry.key} is queued and in flight"
        assert len(placed) == len(self.entries) + len(self.in_flight), "a pod is in two places"
        for container in (*self._by_place.values(), self.in_flight):
            container.validate()

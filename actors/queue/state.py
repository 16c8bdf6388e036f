"""The scheduling queue: every pending pod is in exactly one place, and wakes when something happens
that may help it.

The places and the moves between them are a table (places.py), and `_move` is the only function that
changes a pod's place. Each place has a module for its data: a heap of the active pods, Backoff,
Parked (once for the unschedulable pods, once for the gated ones) and InFlight. Mirrors
kube-scheduler's PriorityQueue. Pure: `now` is an argument, effects are returned.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import assert_never

import msgspec

from ..messages.cache import Nominate, Unnominate
from ..messages.order import Answer
from ..messages.queue import (
    Activate,
    AttemptFailed,
    ClusterChanged,
    ComparePending,
    CountQueued,
    Displace,
    Done,
    DumpQueued,
    FlushBackoff,
    FlushUnschedulable,
    IsHeld,
    ListQueued,
    MeasureQueue,
    NextPod,
    PendingPodAdded,
    PendingPodDeleted,
    PendingPodUpdated,
    Place,
    PreemptionEnded,
    QueuedPod,
    QueueMeasures,
    QueueMessage,
    QueueStatistics,
    ShowStory,
    StoryStep,
    UseProfiles,
)
from ..messages.recorder import SetNominatedNode
from ..scheduling.framework.changes import pod_changes
from ..scheduling.framework.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    ClusterEvent,
    Registration,
    Resource,
)
from ..scheduling.framework.status import Status
from ..scheduling.kube.core import Pod
from ..scheduling.kube.meta import key
from ..scheduling.model.pod_info import PodInfo, PodInfos
from .backoff import Backoff
from .effects import Compared, Effect, HandOut, Moved
from .entry import NO_PLUGINS, Entry
from .gate_errors import GateErrors
from .heap import KeyedHeap, Slot
from .hints import UNTIMED, HintTable, HintTimes, Worth
from .in_flight import InFlight
from .look import differences, dump
from .parked import Parked
from .places import (
    ACTIVATED,
    ACTIVE,
    ADDED,
    BACKOFF,
    BACKOFF_COMPLETE,
    EVENT,
    FAILED,
    GATED,
    IN_FLIGHT,
    OUTSIDE,
    POPPED,
    PREEMPTION_ENDED,
    PROFILES_CHANGED,
    REMOVED,
    TIMEOUT,
    TRANSITIONS,
    UNSCHEDULABLE,
    Happened,
)
from .story import Stories

PREEMPTION = "DefaultPreemption"  # the plugin that gates a pod while room is being made for it
# Moves that no cluster event causes, as the metric queue_incoming_pods_total names them.
POD_ADDED = Worth("UnschedulablePodAdd")
POD_UPDATED = Worth("UnschedulablePodUpdate")
AFTER_PREEMPTION = Worth("PreemptionEnded")
NEW_PROFILES = Worth("ProfilesChanged")
PARKED_TOO_LONG = Worth(str(UNSCHEDULABLE_TIMEOUT))
BACKOFF_OVER = Worth("BackoffComplete", immediately=True)
FORCED = Worth(str(FORCE_ACTIVATE), immediately=True)
ATTEMPT_FAILED = "ScheduleAttemptFailure"
POP_FROM_BACKOFF = "PopFromBackoffQ"


class QueueRules(msgspec.Struct, frozen=True):
    """What the profiles and the flags define: functions of plugins, and seconds.

    `hints` are the events that each plugin registered for, by scheduler name and plugin. A pod that
    was rejected by a plugin without an entry wakes on any event. With `pop_from_backoff`, a pod is
    taken out of backoff early if none is active, so that PreEnqueue runs when a pod comes to
    backoff; without, when it leaves. `hint_times` gets the durations of hint functions.
    """

    sort_key: Callable[[PodInfo, float], tuple[float, ...]]
    pre_enqueue: Callable[[Pod], Status]
    hints: Mapping[str, Mapping[str, Sequence[Registration]]]
    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_unschedulable: float = 300.0
    pop_from_backoff: bool = True
    hint_times: HintTimes = UNTIMED


class QueueState:
    def __init__(self, rules: QueueRules) -> None:
        self._rules = rules
        self._pod_infos = PodInfos()
        self._arrival = count()
        self._entries: dict[str, Entry] = {}  # by pod key: the pods in the four queues
        self._hints = HintTable(rules.hints, rules.hint_times)
        self._active: KeyedHeap[Entry] = KeyedHeap()
        self._backoff = Backoff(
            rules.initial_backoff, rules.max_backoff, self._sort_slot, pops=rules.pop_from_backoff
        )
        self._unschedulable = Parked(self._hints)
        self._gated = Parked(self._hints)
        self._queues: dict[Place, KeyedHeap[Entry] | Backoff | Parked] = {
            ACTIVE: self._active,
            BACKOFF: self._backoff,
            UNSCHEDULABLE: self._unschedulable,
            GATED: self._gated,
        }
        self._in_flight = InFlight()
        self._waiting: deque[NextPod] = deque()
        self._gate_errors = GateErrors()
        self._stories = Stories()
        self._gone: frozenset[str] = frozenset()  # the scheduler names that were ours
        self._healed = 0

    def handle(self, message: QueueMessage, now: float) -> Sequence[Effect]:
        """Handle one message at a time in monotonic seconds; returns its effects, in order."""
        effects: Sequence[Effect] = ()
        match message:  # The most frequent messages come first.
            case ClusterChanged():
                effects = self._changed(message, now)
            case NextPod():
                self._waiting.append(message)
            case PendingPodAdded():
                effects = self._add(message.pod, POD_ADDED, now)
            case Done():
                self._in_flight.done(message.uid)
            case PendingPodDeleted():
                effects = self._delete(message.pod, now)
            case PendingPodUpdated(old, new):
                effects = self._update(old, new, now)
            case AttemptFailed():
                effects = self._failed(message, now)
            case PreemptionEnded():
                effects = self._release(message, now)
            case Displace(info, node):
                effects = self._displace(info, node, now)
            case (
                IsHeld()
                | ShowStory()
                | CountQueued()
                | MeasureQueue()
                | ListQueued()
                | DumpQueued()
            ):
                effects = (self._answer(message, now),)
            case Activate(keys):
                effects = self._activate(keys, now)
            case FlushBackoff() | FlushUnschedulable() | ComparePending() | UseProfiles():
                effects = self._look_after(message, now)
            case _:
                assert_never(message)
        if self._waiting:
            handed_out = self._hand_out(now)
            effects = (*effects, *handed_out) if effects else handed_out
        return effects

    # ------------------------------------------------------------------ pods come, change and go

    def _add(self, pod: Pod, why: Worth, now: float) -> Sequence[Effect]:
        if pod.metadata.uid in self._in_flight:
            self._in_flight.updated(pod)
            return ()
        info = self._pod_infos.of(pod)
        known = self._entries.get(info.key)
        if known is None:
            return self._requeue(Entry(info, now, next(self._arrival)), ADDED, why, now)
        if known.info.uid == info.uid:
            return self._update(known.info.pod, pod, now)
        removed = self._remove(known, now)
        entry = Entry(info, now, next(self._arrival))
        return (*removed, *self._requeue(entry, ADDED, why, now))

    def _update(self, old: Pod, new: Pod, now: float) -> Sequence[Effect]:
        uid = new.metadata.uid
        if old.metadata.uid != uid:
            return (*self._delete(old, now), *self._add(new, POD_ADDED, now))
        if uid in self._in_flight:
            self._in_flight.updated(new)
            for change in _own_updates(old, new):
                self._in_flight.remember(change)
            return ()
        entry = self._entries.get(key(new))
        if entry is None or entry.info.uid != uid:
            return self._add(new, POD_UPDATED, now)
        entry.info = self._pod_infos.of(new, entry.info)
        effects: list[Effect] = []
        if entry.first_attempt_at is not None:
            effects += self._nominate(entry, _nominated_node(entry, old, new))
        if entry.place is ACTIVE:
            self._active.put(entry.key, self._sort_slot(entry), entry)
        elif entry.place is BACKOFF:
            self._backoff.put(entry)
        else:
            for change in _own_updates(old, new):
                effects += self._consider(entry, change, now)
                if entry.place is ACTIVE or entry.place is BACKOFF:
                    break
        return effects

    def _delete(self, pod: Pod, now: float) -> Sequence[Effect]:
        landed = self._in_flight.land(pod.metadata.uid)
        entry = self._entries.get(key(pod)) if landed is None else landed[0]
        if entry is None or entry.info.uid != pod.metadata.uid:
            return ()
        return self._remove(entry, now)

    def _remove(self, entry: Entry, now: float) -> Sequence[Effect]:
        self._move(entry, REMOVED, OUTSIDE, now)
        return self._nominate(entry, "") if entry.nominated_node else ()

    # ----------------------------------------------------------------------------------- attempts

    def _hand_out(self, now: float) -> Sequence[Effect]:
        effects: list[Effect] = []
        if self._gate_errors.unreported:
            effects += self._gate_errors.report(self._entries)
        while self._waiting:
            top = self._active.peek()
            if top is not None:
                entry: Entry | None = top[1]
            else:
                entry = self._backoff.first()  # none, if it may not be taken early
                if entry is not None:
                    self._stories.add(entry.key, StoryStep(now, ACTIVE, POP_FROM_BACKOFF))
            if entry is None:
                break
            self._move(entry, POPPED, IN_FLIGHT, now)
            entry.attempts += 1
            entry.unschedulable = entry.pending = NO_PLUGINS
            pod = QueuedPod(
                entry.info,
                entry.attempts,
                entry.timestamp,
                entry.first_attempt_at,
                entry.flushed,
            )
            effects.append(HandOut(self._waiting.popleft(), pod))
        return effects

    def _failed(self, failure: AttemptFailed, now: float) -> Sequence[Effect]:
        landed = self._in_flight.land(failure.pod.info.uid)
        if landed is None:
            return ()  # It was deleted, or bound by another scheduler, during the attempt.
        entry, latest, missed = landed
        if latest is not None:
            entry.info = self._pod_infos.of(latest, entry.info)
        if entry.key in self._entries or entry.scheduler in self._gone:
            # A new pod of this name is in the queue already, or the pod is ours no more.
            return self._remove(entry, now)
        entry.failed(failure.unschedulable, failure.pending, now, next(self._arrival))
        entry.hold = failure.hold
        node = failure.nominated_node
        if node is None:
            node = _nominated_node(entry, failure.pod.info.pod, entry.info.pod)
        nominated = self._nominate(entry, node)
        worth = self._worth_after(entry, missed)
        if worth is None:
            step = StoryStep(now, UNSCHEDULABLE, ATTEMPT_FAILED)
            return (*nominated, self._arrive(entry, FAILED, step))
        return (*nominated, *self._requeue(entry, FAILED, worth, now))

    def _worth_after(self, entry: Entry, missed: Sequence[ClusterChanged] | None) -> Worth | None:
        """Why the pod is worth another attempt at once, after what happened during this one. None:
        park the pod.
        """
        if not entry.rejectors or missed is None:
            # No event cures an error. After Done the events that the pod missed are not known.
            return Worth("")
        best: Worth | None = None
        for change in missed:
            worth = self._hints.judge(entry, change)
            if worth is not None and (worth.immediately or not entry.pending):
                return worth
            best = best or worth
        return best

    def _release(self, ended: PreemptionEnded, now: float) -> Sequence[Effect]:
        """End a hold: an event that came while the pod was held wakes it now.

        After a failed preemption the pod is tried again without an event, but only after its
        backoff, because the API server is in trouble.
        """
        entry = self._entries.get(ended.key)
        if entry is None or entry.info.uid != ended.uid or entry.hold != ended.hold:
            return ()
        entry.hold = 0
        if entry.place is BACKOFF:
            return ()  # It is tried again as soon as its backoff is over.
        if ended.failed:
            entry.unschedulable = entry.pending = NO_PLUGINS
        if ended.failed or (entry.place is GATED and entry.gated_by == PREEMPTION):
            return self._requeue(entry, PREEMPTION_ENDED, AFTER_PREEMPTION, now)
        return ()

    # -------------------------------------------------------------------------------- nominations

    def _nominate(self, entry: Entry, node: str) -> Sequence[Effect]:
        """Have the cache count the pod on a node from now on, or on none.

        A pod is nominated only once it has been active: while PreEnqueue rejects it, no room is
        kept for it.
        """
        known, entry.nominated_node = entry.nominated_node, node
        if node:
            return (Nominate(entry.info, node),)
        return (Unnominate(entry.key, entry.info.uid),) if known else ()

    def _displace(self, info: PodInfo, node: str, now: float) -> Sequence[Effect]:
        """Take the pod's nomination away. That wakes it, and the pods that had left the node to
        it.
        """
        entry = self._in_flight.get(info.uid) or self._entries.get(info.key)
        if entry is None or entry.info.uid != info.uid or entry.nominated_node != node:
            return ()  # It is gone, or was nominated to another node meanwhile.
        status = msgspec.structs.replace(entry.info.pod.status, nominated_node_name=node)
        was = msgspec.structs.replace(entry.info.pod, status=status)
        change = ClusterChanged(ASSIGNED_POD_DELETE, was, None, entry.info.priority)
        return (
            *self._nominate(entry, ""),
            SetNominatedNode(entry.info.pod, ""),
            *self._changed(change, now),
        )

    # -------------------------------------------------------------------------- what wakes a pod

    def _changed(self, change: ClusterChanged, now: float) -> Sequence[Effect]:
        self._in_flight.remember(change)
        effects: list[Effect] = []
        for parked in (self._unschedulable, self._gated):
            for entry in parked.concerned(change):
                if entry.hold and entry.gated_by == PREEMPTION and entry.place is GATED:
                    continue  # An event woke it already; it waits for the end of its preemption.
                if change.max_priority is None or entry.info.priority <= change.max_priority:
                    effects += self._consider(entry, change, now)
        return effects

    def _consider(self, entry: Entry, change: ClusterChanged, now: float) -> Sequence[Effect]:
        """Wake a parked pod if a plugin that rejected it answers that this change may help."""
        worth = self._hints.judge(entry, change)
        return () if worth is None else self._requeue(entry, EVENT, worth, now)

    def _look_after(
        self, order: FlushBackoff | FlushUnschedulable | ComparePending | UseProfiles, now: float
    ) -> Sequence[Effect]:
        """Follow an order that concerns all pods."""
        match order:
            case ComparePending():
                return self._compare(order, now)
            case UseProfiles():
                return self._use(order, now)
            case _:
                return self._flush(order, now)

    def _flush(self, order: FlushBackoff | FlushUnschedulable, now: float) -> Sequence[Effect]:
        """Move the pods whose backoff is over, or try the pods that were parked for too long, in
        case an event was missed.

        Gated pods are tried too. A pod that stays gated is tried again after the same time, not at
        each flush.
        """
        effects: list[Effect] = []
        if isinstance(order, FlushBackoff):
            for entry in self._backoff.over(now):
                effects += self._leave_backoff(entry, BACKOFF_COMPLETE, BACKOFF_OVER, now)
            return effects
        # A gated pod is parked anew at `now`: with a negative limit the loop would not end.
        limit = max(self._rules.max_unschedulable, 0.0)
        for entry in self._unschedulable.longer_than(limit, now):
            entry.flushed = True
            effects += self._requeue(entry, TIMEOUT, PARKED_TOO_LONG, now)
        for entry in self._gated.longer_than(limit, now):
            self._gated.put(entry, (entry.gated_by,), now)
            effects += self._requeue(entry, TIMEOUT, PARKED_TOO_LONG, now)
        return effects

    def _activate(self, keys: Sequence[str], now: float) -> Sequence[Effect]:
        effects: list[Effect] = []
        for name in keys:
            entry = self._entries.get(name)
            if entry is None:
                # The event is for this pod alone. The pod is tried again if its attempt fails.
                for flying in self._in_flight:
                    if flying.key == name:
                        self._in_flight.remember(
                            ClusterChanged(FORCE_ACTIVATE, None, flying.info.pod)
                        )
            elif entry.place is BACKOFF:
                effects += self._leave_backoff(entry, ACTIVATED, FORCED, now)
            elif entry.place is not ACTIVE:
                effects += self._requeue(entry, ACTIVATED, FORCED, now)
        return effects

    # ----------------------------------------------------------------------- other profiles

    def _use(self, new: UseProfiles, now: float) -> Sequence[Effect]:
        """Go on with other profiles. A pod in flight ends its attempt with the profile of its
        beginning; if its scheduler name is gone, it does not come back.
        """
        effects: list[Effect] = []
        self._gone = (self._gone - new.hints.keys()) | new.gone
        for entry in [one for one in self._entries.values() if one.scheduler in self._gone]:
            effects += self._remove(entry, now)
        self._rules = msgspec.structs.replace(
            self._rules,
            sort_key=new.sort_key,
            pre_enqueue=new.pre_enqueue,
            hints=new.hints,
            initial_backoff=new.initial_backoff,
            max_backoff=new.max_backoff,
        )
        self._hints = HintTable(new.hints, self._rules.hint_times)
        for parked in (self._unschedulable, self._gated):
            parked.use(self._hints)
        for entry in list(self._active):
            self._active.put(entry.key, self._sort_slot(entry), entry)
        self._backoff.use(new.initial_backoff, new.max_backoff)
        for entry in [one for one in self._entries.values() if one.scheduler in new.changed]:
            effects += self._try_anew(entry, now)
        return effects

    def _try_anew(self, entry: Entry, now: float) -> Sequence[Effect]:
        """Have the pod's new profile admit it, and have it tried again if it is parked."""
        if entry.place is UNSCHEDULABLE or entry.place is GATED:
            if entry.hold and entry.gated_by == PREEMPTION and entry.place is GATED:
                return ()  # It is tried again at the end of its preemption.
            return self._requeue(entry, PROFILES_CHANGED, NEW_PROFILES, now)
        status = self._rules.pre_enqueue(entry.info.pod)
        if not status.ok or entry.gate_error:
            self._gate_errors.note(entry, status, now)
        if status.ok:
            return ()
        step = StoryStep(now, GATED, NEW_PROFILES.event, status.plugin)
        return self._gate(entry, PROFILES_CHANGED, step)

    # ------------------------------------------------------------------------------ moving a pod

    def _requeue(
        self, entry: Entry, happened: Happened, worth: Worth, now: float
    ) -> Sequence[Effect]:
        """Move a pod to gated if a PreEnqueue plugin rejects it or it is held, to backoff while its
        penalty lasts, otherwise to active.
        """
        event, cause = (ATTEMPT_FAILED, worth.event) if happened is FAILED else (worth.event, "")
        waits = not worth.immediately and self._backoff.holds(entry, now)
        if self._rules.pop_from_backoff or not waits:
            status = self._rules.pre_enqueue(entry.info.pod)
            if not status.ok or entry.gate_error:
                self._gate_errors.note(entry, status, now)
            if not status.ok or entry.hold:
                plugin = PREEMPTION if status.ok else status.plugin
                return self._gate(entry, happened, StoryStep(now, GATED, event, plugin))
        step = StoryStep(now, BACKOFF if waits else ACTIVE, event, worth.plugin, cause)
        if waits:
            return (self._arrive(entry, happened, step),)
        return self._to_active(entry, happened, step)

    def _leave_backoff(
        self, entry: Entry, happened: Happened, worth: Worth, now: float
    ) -> Sequence[Effect]:
        if self._rules.pop_from_backoff:
            return self._to_active(entry, happened, StoryStep(now, ACTIVE, worth.event))
        return self._requeue(entry, happened, worth, now)

    def _to_active(self, entry: Entry, happened: Happened, step: StoryStep) -> Sequence[Effect]:
        """Move a pod to active. PreEnqueue has admitted it, now or when it came to backoff."""
        entry.gated_by = ""
        nominated: Sequence[Effect] = ()
        if entry.first_attempt_at is None:
            entry.first_attempt_at = step.at
            node = entry.info.pod.status.nominated_node_name
            if node:
                nominated = self._nominate(entry, node)
        return (*nominated, self._arrive(entry, happened, step))

    def _gate(self, entry: Entry, happened: Happened, step: StoryStep) -> Sequence[Effect]:
        """Move a pod to gated, or note the plugin that gates it from now on."""
        plugin = step.plugin
        if entry.place is GATED and entry.gated_by == plugin:
            return ()
        entry.gated_by = plugin
        entry.unschedulable |= {plugin}
        if entry.place is GATED:
            self._gated.put(entry, (plugin,), step.at)
            return ()
        return (self._arrive(entry, happened, step),)

    def _arrive(self, entry: Entry, happened: Happened, step: StoryStep) -> Moved:
        """Move a pod to the queue of this step of its story."""
        self._move(entry, happened, step.queue, step.at)
        self._stories.add(entry.key, step)
        return Moved(entry.key, step)

    def _move(self, entry: Entry, happened: Happened, to: Place, now: float) -> None:
        """Change the place of a pod. A pod in flight has landed before."""
        name, place = entry.info.key, entry.place
        assert (place, happened, to) in TRANSITIONS, f"{name}: {place} to {to}, {happened}"
        queue = self._queues.get(place)
        if queue is not None:
            queue.remove(name)
            del self._entries[name]
        entry.place = to
        if to is ACTIVE:
            self._active.put(name, self._sort_slot(entry), entry)
        elif to is BACKOFF:
            self._backoff.put(entry)
        elif to is UNSCHEDULABLE:
            self._unschedulable.put(entry, entry.rejectors, now)
        elif to is GATED:
            self._gated.put(entry, (entry.gated_by,), now)
        else:
            if to is IN_FLIGHT:
                self._in_flight.take_off(entry)
            return
        self._entries[name] = entry

    def _sort_slot(self, entry: Entry) -> Slot:
        """QueueSort's order; ties in the order of arrival."""
        return (*self._rules.sort_key(entry.info, entry.timestamp), float(entry.arrival))

    # ---------------------------------------------------------------------------------- questions

    def _answer(
        self,
        order: IsHeld | ShowStory | CountQueued | MeasureQueue | ListQueued | DumpQueued,
        now: float,
    ) -> Effect:
        match order:
            case IsHeld(_, name, uid, hold):
                held = self._entries.get(name)
                is_held = held is not None and held.info.uid == uid and held.hold == hold
                return Answer(order, is_held)
            case ShowStory(_, name):
                return Answer(order, self._stories.of(name))
            case CountQueued():
                return Answer(order, self.statistics())
            case MeasureQueue():
                return Answer(order, self.measures())
            case ListQueued():
                return Answer(order, (*self._entries, *self._flying()))
            case DumpQueued(_, keys):
                flying = self._flying()
                entries = (self._entries.get(name) or flying.get(name) for name in keys)
                pods = (
                    dump(entry, self._backoff.left(entry, now), self._stories.of(entry.key))
                    for entry in entries
                    if entry is not None
                )
                return Answer(order, tuple(pods))

    def _flying(self) -> dict[str, Entry]:
        """The pods in flight by key, without those whose name a new pod in a queue has."""
        return {flying.key: flying for flying in self._in_flight if flying.key not in self._entries}

    def _compare(self, order: ComparePending, now: float) -> Sequence[Effect]:
        flying = self._flying()
        found = tuple(sorted(differences(order.pods, self._entries, flying)))
        effects: list[Effect] = []
        for difference in found if order.heal else ():
            entry = self._entries.get(difference.key) or flying.get(difference.key)
            if entry is not None:
                effects += self._delete(entry.info.pod, now)
            pod = order.pods[difference.key]
            if pod is not None:
                effects += self._add(pod, POD_ADDED, now)
            self._healed += 1
        return (*effects, Compared(order, found))

    def statistics(self) -> QueueStatistics:
        return QueueStatistics(
            len(self._active),
            len(self._backoff),
            len(self._unschedulable),
            len(self._gated),
            len(self._in_flight),
            self._healed,
        )

    def measures(self) -> QueueMeasures:
        """The counts for the metrics, as they are now."""
        incoming, events = self._stories.incoming(), self._in_flight.events()
        return QueueMeasures(self.statistics(), dict(incoming), events, self._rejected())

    def _rejected(self) -> Mapping[tuple[str, str], int]:
        """How many pods each plugin rejected, by plugin and scheduler name. Those that are parked
        have an index, the others few rejectors.
        """
        waiting = Counter(self._unschedulable.waiting()) + Counter(self._gated.waiting())
        found = Counter({(plugin, name): number for (name, plugin), number in waiting.items()})
        for queue in (self._active, self._backoff):
            for entry in queue:
                for plugin in entry.rejectors:
                    found[plugin, entry.scheduler] += 1
        return found

    def validate(self) -> None:
        """Raises AssertionError if an invariant does not hold."""
        placed = [(place, entry) for place, queue in self._queues.items() for entry in queue]
        placed += [(IN_FLIGHT, entry) for entry in self._in_flight]
        for place, entry in placed:
            assert entry.place is place, f"{entry.key} is in {place} and not in {entry.place}"
            if place is not IN_FLIGHT:
                assert self._entries[entry.key] is entry, entry.key
                assert entry.info.uid not in self._in_flight, f"{entry.key} is queued and in flight"
        assert len(placed) == len(self._entries) + len(self._in_flight), "a pod is in two places"
        for container in (*self._queues.values(), self._in_flight):
            container.validate()
        assert not (self._waiting and self._active), "a pod is active while the cycle waits for one"


def _nominated_node(entry: Entry, old: Pod, new: Pod) -> str:
    """The node in the status if it changed. Otherwise our own last decision, which may not be
    written to the status yet.
    """
    before, after = old.status.nominated_node_name, new.status.nominated_node_name
    return entry.nominated_node if before == after else after


def _own_updates(old: Pod, new: Pod) -> Iterator[ClusterChanged]:
    for action in pod_changes(old, new):
        yield ClusterChanged(ClusterEvent(Resource.UNSCHEDULED_POD, action), old, new)

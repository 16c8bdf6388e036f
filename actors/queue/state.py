"""The scheduling queue: every pending pod is in exactly one place, and wakes when something happens
that may help it.

Places: active (ready, in the QueueSort plugin's order), backoff (waits out its penalty),
unschedulable (parked until an event that a plugin which rejected it asked for), gated (kept out by
a PreEnqueue plugin), in flight (handed out). Each place has a module of its own; here is how pods
go from one to another. Mirrors kube-scheduler's PriorityQueue. Pure: `now` is given, effects are
returned.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import assert_never

import msgspec
from berth.actors.messages import (
    Activate,
    Answer,
    AttemptFailed,
    ClusterChanged,
    ComparePending,
    Difference,
    Displace,
    Done,
    DumpQueued,
    FlushBackoff,
    FlushUnschedulable,
    IsHeld,
    ListQueued,
    NextPod,
    Nominate,
    PendingPodAdded,
    PendingPodDeleted,
    PendingPodUpdated,
    PreemptionEnded,
    QueuedPod,
    QueuedPodDump,
    QueueMessage,
    RecordEvent,
    SetNominatedNode,
    SetUnschedulable,
    StoryStep,
    TellStory,
    Unnominate,
)
from berth.actors.queue.backoff import Backoff
from berth.actors.queue.entry import NOBODY, Entry
from berth.actors.queue.gate_errors import GateErrors
from berth.actors.queue.heap import KeyedHeap, Slot
from berth.actors.queue.hints import HintTable, Worth
from berth.actors.queue.in_flight import InFlight
from berth.actors.queue.look import differences, dump
from berth.actors.queue.parked import Parked
from berth.actors.queue.story import Stories
from berth.actors.scheduling.framework.changes import pod_changes
from berth.actors.scheduling.framework.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    ClusterEvent,
    Registration,
    Resource,
)
from berth.actors.scheduling.framework.status import Status
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import key
from berth.actors.scheduling.model.pod_info import PodInfo

POD_ADDED = "UnschedulablePodAdd"
POD_UPDATED = "UnschedulablePodUpdate"
ATTEMPT_FAILED = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
PREEMPTION_ENDED = "PreemptionEnded"
PREEMPTION = "DefaultPreemption"  # who gates a pod while room is being made for it
WORTH_OF = {event: Worth(event) for event in (POD_ADDED, POD_UPDATED)}


class QueueRules(msgspec.Struct, frozen=True):
    """What the profiles and the flags say: functions of plugins, and seconds.

    `hints` gives, by scheduler name and plugin, the events that the plugin registered for; whoever
    is not in it wakes its pods on any event.
    """

    sort_key: Callable[[PodInfo, float], tuple[float, ...]]
    pre_enqueue: Callable[[Pod], Status]
    hints: Mapping[str, Mapping[str, Sequence[Registration]]]
    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_unschedulable: float = 300.0


class HandOut(msgspec.Struct, frozen=True):
    """Answer this order with this pod, which is in flight from now on."""

    order: NextPod
    pod: QueuedPod


class Moved(msgspec.Struct, frozen=True):
    """The pod of this key has come to a queue; for logs."""

    key: str
    step: StoryStep


class Compared(msgspec.Struct, frozen=True):
    """Answer this order with what differs, or differed before it was healed."""

    order: ComparePending
    found: tuple[Difference, ...]


Effect = (
    HandOut
    | Moved
    | Nominate
    | Unnominate
    | SetNominatedNode
    | SetUnschedulable
    | RecordEvent
    | Answer[tuple[StoryStep, ...]]
    | Answer[bool]
    | Answer[tuple[str, ...]]
    | Answer[tuple[QueuedPodDump, ...]]
    | Compared
)


class QueueStatistics(msgspec.Struct, frozen=True):
    """pending_pods by queue, the pods in flight, and how many differences were healed since the
    start.
    """

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int
    healed: int = 0


class QueueState:
    def __init__(self, rules: QueueRules) -> None:
        self._rules = rules
        self._arrival = count()
        self._entries: dict[str, Entry] = {}  # pod key -> entry, for all places but in flight
        self._hints = HintTable(rules.hints)
        self._active: KeyedHeap[Entry] = KeyedHeap()
        self._backoff = Backoff(rules.initial_backoff, rules.max_backoff, self._sort_slot)
        self._unschedulable = Parked(self._hints)
        self._gated = Parked(self._hints)
        self._in_flight = InFlight()
        self._waiting: deque[NextPod] = deque()
        self._gate_errors = GateErrors()
        self._stories = Stories()
        self._healed = 0

    def handle(self, message: QueueMessage, now: float) -> Sequence[Effect]:
        """Take one message at a time in monotonic seconds; returns what follows from it, in
        order.
        """
        effects: list[Effect] = []
        match message:  # The frequent ones first.
            case ClusterChanged():
                self._changed(message, now, effects)
            case NextPod():
                self._waiting.append(message)
            case PendingPodAdded():
                self._add(message.pod, POD_ADDED, now, effects)
            case Done():
                self._in_flight.done(message.uid)
            case PendingPodDeleted():
                self._delete(message.pod, effects)
            case PendingPodUpdated(old, new):
                self._update(old, new, now, effects)
            case AttemptFailed():
                self._failed(message, now, effects)
            case PreemptionEnded():
                self._release(message, now, effects)
            case Displace(info, node):
                self._displace(info, node, now, effects)
            case IsHeld() | TellStory() | ListQueued() | DumpQueued() | ComparePending():
                self._answer(message, now, effects)
            case Activate(keys):
                self._activate(keys, now, effects)
            case FlushBackoff():
                self._flush_backoff(now, effects)
            case FlushUnschedulable():
                self._flush_unschedulable(now, effects)
            case _:
                assert_never(message)
        if self._waiting:
            self._hand_out(now, effects)
        return effects

    # --------------------------------------------------------------------------------- what pods do

    def _add(self, pod: Pod, event: str, now: float, effects: list[Effect]) -> None:
        if pod.metadata.uid in self._in_flight:
            self._in_flight.updated(pod)
            return
        info = PodInfo(pod)
        known = self._entries.get(info.key)
        if known is not None and known.info.uid == info.uid:
            self._update(known.info.pod, pod, now, effects)
            return
        if known is not None:
            self._take_out(known)
            self._nominate(known, "", effects)
        self._requeue(Entry(info, now, next(self._arrival)), WORTH_OF[event], now, effects)

    def _update(self, old: Pod, new: Pod, now: float, effects: list[Effect]) -> None:
        uid = new.metadata.uid
        if old.metadata.uid != uid:
            self._delete(old, effects)
            self._add(new, POD_ADDED, now, effects)
            return
        if uid in self._in_flight:
            self._in_flight.updated(new)
            for change in _own_updates(old, new):
                self._in_flight.remember(change)
            return
        entry = self._entries.get(key(new))
        if entry is None or entry.info.uid != uid:
            self._add(new, POD_UPDATED, now, effects)
            return
        entry.info = PodInfo(new, entry.info)
        if entry.first_attempt_at is not None:
            self._nominate(entry, _nominated_node(entry, old, new), effects)
        match entry.place:
            case "active":
                self._active.put(entry.key, self._sort_slot(entry), entry)
            case "backoff":
                self._backoff.put(entry)
            case _:
                for change in _own_updates(old, new):
                    self._consider(entry, change, now, effects)
                    if entry.place not in ("unschedulable", "gated"):
                        break

    def _delete(self, pod: Pod, effects: list[Effect]) -> None:
        landed = self._in_flight.land(pod.metadata.uid)
        entry = self._entries.get(key(pod)) if landed is None else landed[0]
        if entry is None or entry.info.uid != pod.metadata.uid:
            return
        if landed is None:
            self._take_out(entry)
        if entry.nominated_node:
            self._nominate(entry, "", effects)

    # -------------------------------------------------------------------------- what the cycle says

    def _hand_out(self, now: float, effects: list[Effect]) -> None:
        if self._gate_errors.untold:
            effects.extend(self._gate_errors.tell(self._entries))
        while self._waiting:
            entry = self._active.pop()
            if entry is None:
                entry = self._backoff.first()
                if entry is None:
                    return
                self._stories.add(entry.key, StoryStep(now, "active", POP_FROM_BACKOFF))
                self._backoff.remove(entry)
            del self._entries[entry.key]
            entry.place = ""
            entry.attempts += 1
            entry.unschedulable = entry.pending = NOBODY
            self._in_flight.take_off(entry)
            pod = QueuedPod(
                entry.info,
                entry.attempts,
                entry.timestamp,
                entry.first_attempt_at,
            )
            effects.append(HandOut(self._waiting.popleft(), pod))

    def _failed(self, failure: AttemptFailed, now: float, effects: list[Effect]) -> None:
        landed = self._in_flight.land(failure.pod.info.uid)
        if landed is None:
            return  # Deleted, or bound by somebody else, meanwhile.
        entry, latest, missed = landed
        if latest is not None:
            entry.info = PodInfo(latest, entry.info)
        if entry.key in self._entries:
            self._nominate(entry, "", effects)
            return  # Another pod of this name is in the queue already.
        entry.failed(failure.unschedulable, failure.pending, now, next(self._arrival))
        entry.hold = failure.hold
        node = failure.nominated_node
        if node is None:
            node = _nominated_node(entry, failure.pod.info.pod, entry.info.pod)
        self._nominate(entry, node, effects)
        worth = self._worth_after(entry, missed)
        if worth is None:
            self._park(entry, ATTEMPT_FAILED, now, effects)
        else:
            self._requeue(entry, worth, now, effects, ATTEMPT_FAILED)

    def _release(self, ended: PreemptionEnded, now: float, effects: list[Effect]) -> None:
        """What would have woken the pod while it was held does so now. After a failure it is tried
        in any case, but never before its backoff is over: the API server is in trouble.
        """
        entry = self._entries.get(ended.key)
        if entry is None or entry.info.uid != ended.uid or entry.hold != ended.hold:
            return
        entry.hold = 0
        if ended.failed:
            entry.unschedulable = entry.pending = (
                NOBODY  # It is no rejection that an event cures: it backs off.
            )
        if ended.failed or (entry.place == "gated" and entry.gated_by == PREEMPTION):
            self._requeue(entry, Worth(PREEMPTION_ENDED), now, effects)

    def _displace(self, info: PodInfo, node: str, now: float, effects: list[Effect]) -> None:
        """The pod loses its nomination, which wakes it and those that left the node to it."""
        entry = self._in_flight.get(info.uid) or self._entries.get(info.key)
        if entry is None or entry.info.uid != info.uid or entry.nominated_node != node:
            return  # It is gone, or was nominated elsewhere meanwhile.
        self._nominate(entry, "", effects)
        effects.append(SetNominatedNode(entry.info.pod, ""))
        status = msgspec.structs.replace(entry.info.pod.status, nominated_node_name=node)
        was = msgspec.structs.replace(entry.info.pod, status=status)
        self._changed(
            ClusterChanged(ASSIGNED_POD_DELETE, was, None, entry.info.priority), now, effects
        )

    def _nominate(self, entry: Entry, node: str, effects: list[Effect]) -> None:
        """Have the cache count the pod on a node from now on, or on none. A pod is nominated once
        it has been active: only PreEnqueue says whether there is a pod to make room for.
        """
        if node:
            effects.append(Nominate(entry.info, node))
        elif entry.nominated_node:
            effects.append(Unnominate(entry.key, entry.info.uid))
        entry.nominated_node = node

    def _worth_after(self, entry: Entry, missed: Sequence[ClusterChanged] | None) -> Worth | None:
        """Whether to try again without waiting for an event: by what happened in flight. None: park
        the pod.
        """
        if not entry.rejectors or missed is None:
            return Worth(
                ""
            )  # An error is not cured by an event, and after Done nobody knows what the pod missed.
        best: Worth | None = None
        for change in missed:
            worth = self._hints.judge(entry, change)
            if worth is not None and (worth.immediately or not entry.pending):
                return worth
            best = best or worth
        return best

    # ------------------------------------------------------------------------ what the cluster does

    def _changed(self, change: ClusterChanged, now: float, effects: list[Effect]) -> None:
        self._in_flight.remember(change)
        for parked in (self._unschedulable, self._gated):
            for entry in parked.concerned(change.event):
                if entry.hold and entry.gated_by == PREEMPTION and entry.place == "gated":
                    continue  # It is known already that something woke the pod while it is held.
                if change.max_priority is None or entry.info.priority <= change.max_priority:
                    self._consider(entry, change, now, effects)

    def _consider(
        self, entry: Entry, change: ClusterChanged, now: float, effects: list[Effect]
    ) -> None:
        """Wake a parked pod if a plugin that rejected it says that this change may help."""
        worth = self._hints.judge(entry, change)
        if worth is not None:
            self._requeue(entry, worth, now, effects)

    def _flush_backoff(self, now: float, effects: list[Effect]) -> None:
        for entry in self._backoff.over(now):
            self._to_active(entry, Worth(BACKOFF_COMPLETE), now, effects)

    def _flush_unschedulable(self, now: float, effects: list[Effect]) -> None:
        """Try the pods that have waited for too long, the gated ones too: an event may have been
        missed.

        A pod that stays gated, as one does for which room is being made, is tried again after as
        long a time, not at each flush.
        """
        worth = Worth(str(UNSCHEDULABLE_TIMEOUT))
        for entry in self._unschedulable.longer_than(self._rules.max_unschedulable, now):
            self._requeue(entry, worth, now, effects)
        for entry in self._gated.longer_than(self._rules.max_unschedulable, now):
            self._requeue(entry, worth, now, effects)

    def _activate(self, keys: Sequence[str], now: float, effects: list[Effect]) -> None:
        worth = Worth(str(FORCE_ACTIVATE), immediately=True)
        for name in keys:
            entry = self._entries.get(name)
            if entry is None:
                # Should its attempt fail, it is tried again: the event is for that pod alone.
                for flying in self._in_flight:
                    if flying.key == name:
                        self._in_flight.remember(
                            ClusterChanged(FORCE_ACTIVATE, None, flying.info.pod)
                        )
            elif entry.place == "backoff":
                self._to_active(entry, worth, now, effects)
            elif entry.place in ("unschedulable", "gated"):
                self._requeue(entry, worth, now, effects)

    # ------------------------------------------------------------------------ moving between places

    def _requeue(
        self, entry: Entry, worth: Worth, now: float, effects: list[Effect], event: str = ""
    ) -> None:
        """To backoff while the penalty lasts, else to active; to gated if a PreEnqueue plugin says
        so.

        `event` is the name of the move where it is not that of the event which was worth it.
        """
        status = self._rules.pre_enqueue(entry.info.pod)
        if not status.ok or entry.gate_error:
            self._gate_errors.note(entry, status)
        if not status.ok or entry.hold:
            plugin = PREEMPTION if status.ok else status.plugin
            self._gate(entry, plugin, event or worth.event, now, effects)
        elif worth.immediately or not self._backoff.holds(entry, now):
            self._to_active(entry, worth, now, effects, event)
        else:
            self._place(entry, "backoff")
            self._backoff.put(entry)
            self._moved(entry, worth, now, effects, event)

    def _to_active(
        self, entry: Entry, worth: Worth, now: float, effects: list[Effect], event: str = ""
    ) -> None:
        """To active; PreEnqueue has been asked, if only when the pod came to backoff."""
        self._place(entry, "active")
        entry.gated_by = ""
        if entry.first_attempt_at is None:
            entry.first_attempt_at = now
            node = entry.info.pod.status.nominated_node_name
            if node:
                self._nominate(entry, node, effects)
        self._active.put(entry.key, self._sort_slot(entry), entry)
        self._moved(entry, worth, now, effects, event)

    def _park(self, entry: Entry, event: str, now: float, effects: list[Effect]) -> None:
        self._place(entry, "unschedulable")
        self._unschedulable.put(entry, entry.rejectors, now)
        self._moved(entry, Worth(event), now, effects)

    def _gate(
        self, entry: Entry, plugin: str, event: str, now: float, effects: list[Effect]
    ) -> None:
        was_gated = entry.place == "gated"
        if was_gated and entry.gated_by == plugin and entry.key in self._gated:
            return
        self._place(entry, "gated")
        entry.gated_by = plugin
        entry.unschedulable |= {plugin}
        self._gated.put(entry, (plugin,), now)
        if not was_gated:
            self._moved(entry, Worth(event, plugin), now, effects)

    def _place(self, entry: Entry, place: str) -> None:
        if entry.place:
            self._take_out(entry)
        self._entries[entry.key] = entry
        entry.place = place

    def _take_out(self, entry: Entry) -> None:
        """From wherever it is; does nothing for an entry that is nowhere."""
        match entry.place:
            case "active":
                self._active.remove(entry.key)
            case "backoff":
                self._backoff.remove(entry)
            case "unschedulable":
                self._unschedulable.remove(entry.key)
            case "gated":
                self._gated.remove(entry.key)
            case _:
                return
        entry.place = ""
        del self._entries[entry.key]

    def _moved(
        self, entry: Entry, worth: Worth, now: float, effects: list[Effect], event: str = ""
    ) -> None:
        name, cause = (event, worth.event) if event else (worth.event, "")
        step = StoryStep(now, entry.place, name, worth.plugin, cause)
        self._stories.add(entry.key, step)
        effects.append(Moved(entry.key, step))

    def _sort_slot(self, entry: Entry) -> Slot:
        """QueueSort's order; ties in the order of arrival."""
        return (*self._rules.sort_key(entry.info, entry.timestamp), float(entry.arrival))

    # -------------------------------------------------------------------------------------- looking

    def _answer(
        self,
        order: IsHeld | TellStory | ListQueued | DumpQueued | ComparePending,
        now: float,
        effects: list[Effect],
    ) -> None:
        match order:
            case IsHeld(key=name, uid=uid, hold=hold):
                held = self._entries.get(name)
                effects.append(
                    Answer(order, held is not None and held.info.uid == uid and held.hold == hold)
                )
            case TellStory(key=name):
                effects.append(Answer(order, self._stories.of(name)))
            case ListQueued():
                effects.append(Answer(order, (*self._entries, *self._flying())))
            case DumpQueued(keys=keys):
                flying = self._flying()
                entries = (self._entries.get(name) or flying.get(name) for name in keys)
                pods = (
                    dump(entry, self._backoff.left(entry, now), self._stories.of(entry.key))
                    for entry in entries
                    if entry is not None
                )
                effects.append(Answer(order, tuple(pods)))
            case ComparePending():
                self._compare(order, now, effects)

    def _flying(self) -> dict[str, Entry]:
        """The pods in flight by key, but for those of a name that a younger pod has, which is in a
        queue.
        """
        return {flying.key: flying for flying in self._in_flight if flying.key not in self._entries}

    def _compare(self, order: ComparePending, now: float, effects: list[Effect]) -> None:
        flying = self._flying()
        found = tuple(sorted(differences(order.pods, self._entries, flying)))
        for difference in found if order.heal else ():
            entry = self._entries.get(difference.key) or flying.get(difference.key)
            if entry is not None:
                self._delete(entry.info.pod, effects)
            pod = order.pods[difference.key]
            if pod is not None:
                self._add(pod, POD_ADDED, now, effects)
            self._healed += 1
        effects.append(Compared(order, found))

    def statistics(self) -> QueueStatistics:
        return QueueStatistics(
            len(self._active),
            len(self._backoff),
            len(self._unschedulable),
            len(self._gated),
            len(self._in_flight),
            self._healed,
        )

    def incoming(self) -> Mapping[tuple[str, str], int]:
        """queue_incoming_pods_total, by queue and event."""
        return self._stories.incoming()

    def in_flight_events(self) -> Mapping[str, int]:
        """inflight_events: how many are kept, by their labels."""
        return self._in_flight.events()

    def parked_by(self) -> Mapping[tuple[str, str], int]:
        """How many parked and gated pods wait for a plugin, by scheduler name and plugin."""
        return Counter(self._unschedulable.waiting()) + Counter(self._gated.waiting())

    def validate(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        queues = {
            "active": list(self._active),
            "backoff": list(self._backoff),
            "unschedulable": list(self._unschedulable),
            "gated": list(self._gated),
        }
        assert sum(map(len, queues.values())) == len(self._entries), (
            "a pod is in two places, or in none"
        )
        for place, entry in ((place, entry) for place, queue in queues.items() for entry in queue):
            assert entry.place == place, (
                f"{entry.key} is in {place} and thinks to be in {entry.place}"
            )
            assert self._entries[entry.key] is entry, entry.key
            assert entry.info.uid not in self._in_flight, f"{entry.key} is queued and in flight"
        self._unschedulable.validate()
        self._gated.validate()
        self._in_flight.validate()
        assert not (self._waiting and self._active), "somebody waits while a pod is ready"


def _nominated_node(entry: Entry, old: Pod, new: Pod) -> str:
    """The status counts where it changes: what we last decided may not be written to it yet."""
    before, after = old.status.nominated_node_name, new.status.nominated_node_name
    return entry.nominated_node if before == after else after


def _own_updates(old: Pod, new: Pod) -> Iterator[ClusterChanged]:
    for action in pod_changes(old, new):
        yield ClusterChanged(ClusterEvent(Resource.UNSCHEDULED_POD, action), old, new)

"""The scheduling queue: every pending pod is in exactly one place, and wakes when something happens that may help it.

Places: active (ready, in the QueueSort plugin's order), backoff (waits out its penalty), unschedulable (parked until
an event that a plugin which rejected it asked for), gated (kept out by a PreEnqueue plugin), in flight (handed out).
Events that come while a pod is in flight are kept until its attempt has ended, so that no wake-up is lost between a
decision and the parking. Mirrors kube-scheduler's PriorityQueue. Pure: `now` is given, effects are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import assert_never

import msgspec
from sortedcontainers import SortedDict

from actors.framework.events import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    Hint,
    Registration,
    Resource,
)
from actors.framework.status import Status
from actors.kube.core import Pod
from actors.kube.meta import key
from actors.messages import (
    Activate,
    AttemptFailed,
    ClusterChanged,
    Done,
    FlushBackoff,
    FlushUnschedulable,
    NextPod,
    PendingPodAdded,
    PendingPodDeleted,
    PendingPodUpdated,
    QueuedPod,
    QueueMessage,
)
from actors.model.pod_info import PodInfo

SortKey = tuple[float, ...]


class QueueRules(msgspec.Struct, frozen=True):
    """What the profiles and the flags say: functions of plugins, and seconds.

    `hints` gives, by scheduler name and plugin, the events that the plugin registered for.
    """

    sort_key: Callable[[PodInfo, float], SortKey]
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
    """A pod has come to a queue (active, backoff, unschedulable, gated) because of an event; for logs and metrics."""

    key: str
    queue: str
    event: str


Effect = HandOut | Moved


class QueueStatistics(msgspec.Struct, frozen=True):
    """pending_pods by queue, and the pods in flight."""

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int


class _Entry:
    """A pod in the queue, with what its attempts so far have taught."""

    __slots__ = (
        "attempts",
        "backoff_until",
        "enqueued_at",
        "errors",
        "first_attempt_at",
        "info",
        "parked_at",
        "pending",
        "place",
        "rejections",
        "slot",
        "unschedulable",
    )

    def __init__(self, info: PodInfo, now: float) -> None:
        self.info = info
        self.enqueued_at = now
        self.first_attempt_at: float | None = None
        self.attempts = 0
        self.rejections = 0  # attempts in a row that ended with a rejection
        self.errors = 0  # attempts in a row that ended with an error
        self.backoff_until = 0.0
        self.parked_at = now
        self.unschedulable: frozenset[str] = frozenset()
        self.pending: frozenset[str] = frozenset()
        self.place = ""
        self.slot: SortKey = ()


class QueueState:
    def __init__(self, rules: QueueRules) -> None:
        self._rules = rules
        self._arrival = count()
        self._entries: dict[str, _Entry] = {}  # pod key -> entry, for all places but in flight
        self._active: SortedDict[SortKey, _Entry] = SortedDict()
        self._backoff: SortedDict[SortKey, _Entry] = SortedDict()
        self._unschedulable: dict[str, _Entry] = {}
        self._gated: dict[str, _Entry] = {}
        self._in_flight: dict[str, _Entry] = {}  # uid -> entry
        self._latest: dict[str, Pod] = {}  # uid -> what the API server last said of a pod in flight
        self._since: dict[str, int] = {}  # uid -> how many events had happened when the pod was handed out
        self._events: list[ClusterChanged] = []
        self._dropped = 0  # events that no pod in flight needs any more
        self._waiting: list[NextPod] = []

    def handle(self, message: QueueMessage, now: float) -> tuple[Effect, ...]:
        """Take one message at a time in monotonic seconds; returns what follows from it, in order."""
        effects: list[Effect] = []
        match message:
            case PendingPodAdded(pod):
                self._add(pod, now, effects)
            case PendingPodUpdated(old, new):
                self._update(old, new, now, effects)
            case PendingPodDeleted(pod):
                self._delete(pod)
            case ClusterChanged():
                self._changed(message, now, effects)
            case NextPod():
                self._waiting.append(message)
            case AttemptFailed():
                self._failed(message, now, effects)
            case Done(uid):
                self._done(uid)
            case Activate(keys):
                self._activate(keys, effects)
            case FlushBackoff():
                self._flush_backoff(now, effects)
            case FlushUnschedulable():
                self._flush_unschedulable(now, effects)
            case _:
                assert_never(message)
        self._hand_out(now, effects)
        return tuple(effects)

    # ------------------------------------------------------------------------------------------- what pods do

    def _add(self, pod: Pod, now: float, effects: list[Effect]) -> None:
        if pod.metadata.uid in self._in_flight:
            self._latest[pod.metadata.uid] = pod
            return
        known = self._entries.get(key(pod))
        if known is not None and known.info.uid == pod.metadata.uid:
            self._update(known.info.pod, pod, now, effects)
            return
        if known is not None:
            self._take_out(known)
        self._to_active(_Entry(PodInfo(pod), now), "PodAdd", effects)

    def _update(self, old: Pod, new: Pod, now: float, effects: list[Effect]) -> None:
        uid = new.metadata.uid
        if old.metadata.uid != uid:
            self._delete(old)
            self._add(new, now, effects)
            return
        if uid in self._in_flight:
            self._latest[uid] = new
            self._remember(ClusterChanged(ClusterEvent(Resource.POD, Action.UPDATE, "PodUpdate"), old, new))
            return
        entry = self._entries.get(key(new))
        if entry is None:
            self._add(new, now, effects)
            return
        place = entry.place
        self._take_out(entry)
        entry.info = PodInfo(new)
        match place:
            case "active" | "gated":
                self._to_active(entry, "PodUpdate", effects)
            case "backoff":
                self._put_backoff(entry)
            case "unschedulable":
                self._put_unschedulable(entry)
                self._consider(entry, ClusterChanged(_update_of(old, new), old, new), now, effects)
            case other:
                raise AssertionError(other)

    def _delete(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if self._in_flight.pop(uid, None) is not None:
            self._latest.pop(uid, None)
            self._done(uid)
            return
        entry = self._entries.get(key(pod))
        if entry is not None and entry.info.uid == uid:
            self._take_out(entry)

    # ------------------------------------------------------------------------------------------- what the cycle says

    def _hand_out(self, now: float, effects: list[Effect]) -> None:
        while self._waiting:
            entry = self._next()
            if entry is None:
                return
            self._take_out(entry)
            entry.attempts += 1
            if entry.first_attempt_at is None:
                entry.first_attempt_at = now
            entry.unschedulable = entry.pending = frozenset()
            uid = entry.info.uid
            self._in_flight[uid] = entry
            self._since[uid] = self._dropped + len(self._events)
            pod = QueuedPod(entry.info, entry.attempts, entry.enqueued_at, entry.first_attempt_at)
            effects.append(HandOut(self._waiting.pop(0), pod))

    def _next(self) -> _Entry | None:
        """The first active pod; without one, the first that backs off, unless it does so after an error."""
        if self._active:
            first: _Entry = self._active.peekitem(0)[1]
            return first
        return next((entry for entry in self._backoff.values() if not entry.errors), None)

    def _failed(self, failure: AttemptFailed, now: float, effects: list[Effect]) -> None:
        uid = failure.pod.info.uid
        entry = self._in_flight.pop(uid, None)
        if entry is None:
            return  # Deleted, or bound by somebody else, meanwhile.
        latest = self._latest.pop(uid, None)
        if latest is not None:
            entry.info = PodInfo(latest)
        # After Done nobody knows what it missed, so it is not parked.
        unwatched = uid not in self._since
        happened = [] if unwatched else self._events[self._since[uid] - self._dropped :]
        self._done(uid)
        entry.parked_at = now
        entry.unschedulable, entry.pending = failure.unschedulable, failure.pending
        if failure.error:
            entry.errors, entry.rejections = entry.errors + 1, 0
        else:
            entry.errors, entry.rejections = 0, entry.rejections + 1
        entry.backoff_until = now + self._penalty(entry)
        known = self._entries.get(entry.info.key)
        if known is not None:
            return  # Another pod of this name is in the queue already.
        if failure.error or unwatched:
            self._wake(entry, "ScheduleAttemptFailure", now, effects)
            return
        self._put_unschedulable(entry)
        effects.append(Moved(entry.info.key, "unschedulable", "ScheduleAttemptFailure"))
        for change in happened:
            if self._consider(entry, change, now, effects):
                return

    def _penalty(self, entry: _Entry) -> float:
        """Seconds of backoff after the attempts that failed in a row."""
        failures = entry.errors or entry.rejections
        doubled = self._rules.initial_backoff * 2.0 ** min(failures - 1, 62)
        return min(doubled, self._rules.max_backoff)

    def _done(self, uid: str) -> None:
        """The pod no longer needs the events since it was handed out; drop those that nobody needs."""
        self._since.pop(uid, None)
        # Pods are handed out in the order of `_since`, so the first one left is the one that needs most.
        needed = next(iter(self._since.values()), self._dropped + len(self._events))
        if needed > self._dropped:
            del self._events[: needed - self._dropped]
            self._dropped = needed

    # ------------------------------------------------------------------------------------------- what the cluster does

    def _changed(self, change: ClusterChanged, now: float, effects: list[Effect]) -> None:
        self._remember(change)
        for entry in list(self._unschedulable.values()):
            self._consider(entry, change, now, effects)

    def _remember(self, change: ClusterChanged) -> None:
        if self._since:
            self._events.append(change)

    def _consider(self, entry: _Entry, change: ClusterChanged, now: float, effects: list[Effect]) -> bool:
        """Wake a parked pod if a plugin that rejected it says that this change may help; true if it did."""
        rejecting = entry.unschedulable | entry.pending
        if not rejecting:
            self._wake(entry, str(change.event), now, effects)
            return True
        table = self._rules.hints.get(entry.info.pod.spec.scheduler_name, {})
        pod = entry.info.pod
        # Sorted, because the order of a set must not decide whose hint is asked first.
        for plugin in sorted(rejecting, key=lambda name: (name not in entry.pending, name)):
            registrations = table.get(plugin)
            if registrations is None or any(_says_queue(r, change, pod) for r in registrations):
                if plugin in entry.pending:
                    entry.backoff_until = now
                self._wake(entry, str(change.event), now, effects)
                return True
        return False

    def _flush_backoff(self, now: float, effects: list[Effect]) -> None:
        while self._backoff and self._backoff.peekitem(0)[1].backoff_until <= now:
            self._to_active(self._backoff.peekitem(0)[1], "BackoffComplete", effects)

    def _flush_unschedulable(self, now: float, effects: list[Effect]) -> None:
        for entry in list(self._unschedulable.values()):
            if now - entry.parked_at > self._rules.max_unschedulable:
                self._wake(entry, str(UNSCHEDULABLE_TIMEOUT), now, effects)

    def _activate(self, keys: Sequence[str], effects: list[Effect]) -> None:
        for name in keys:
            entry = self._entries.get(name)
            if entry is not None and entry.place in ("backoff", "unschedulable"):
                self._to_active(entry, str(FORCE_ACTIVATE), effects)

    # ------------------------------------------------------------------------------------------- moving between places

    def _wake(self, entry: _Entry, event: str, now: float, effects: list[Effect]) -> None:
        """To backoff while the penalty lasts, else to active."""
        if entry.backoff_until > now:
            self._take_out(entry)
            self._put_backoff(entry)
            effects.append(Moved(entry.info.key, "backoff", event))
        else:
            self._to_active(entry, event, effects)

    def _to_active(self, entry: _Entry, event: str, effects: list[Effect]) -> None:
        """To active, or to gated if a PreEnqueue plugin says so."""
        self._take_out(entry)
        self._entries[entry.info.key] = entry
        if self._rules.pre_enqueue(entry.info.pod).ok:
            entry.place = "active"
            entry.slot = (*self._rules.sort_key(entry.info, entry.enqueued_at), float(next(self._arrival)))
            self._active[entry.slot] = entry
        else:
            entry.place = "gated"
            self._gated[entry.info.key] = entry
        effects.append(Moved(entry.info.key, entry.place, event))

    def _put_backoff(self, entry: _Entry) -> None:
        self._entries[entry.info.key] = entry
        entry.place = "backoff"
        entry.slot = (entry.backoff_until, float(next(self._arrival)))
        self._backoff[entry.slot] = entry

    def _put_unschedulable(self, entry: _Entry) -> None:
        self._entries[entry.info.key] = entry
        entry.place = "unschedulable"
        self._unschedulable[entry.info.key] = entry

    def _take_out(self, entry: _Entry) -> None:
        """From wherever it is; does nothing for an entry that is nowhere."""
        match entry.place:
            case "active":
                del self._active[entry.slot]
            case "backoff":
                del self._backoff[entry.slot]
            case "unschedulable":
                del self._unschedulable[entry.info.key]
            case "gated":
                del self._gated[entry.info.key]
            case _:
                return
        entry.place = ""
        del self._entries[entry.info.key]

    # ------------------------------------------------------------------------------------------- looking

    def where(self, name: str) -> str:
        """The place of the pod of this key: a queue's name, `in flight`, or "" if it is not here."""
        entry = self._entries.get(name)
        if entry is not None:
            return entry.place
        return "in flight" if any(e.info.key == name for e in self._in_flight.values()) else ""

    def statistics(self) -> QueueStatistics:
        places = (self._active, self._backoff, self._unschedulable, self._gated, self._in_flight)
        return QueueStatistics(*map(len, places))

    def validate(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        placed = [*self._active.values(), *self._backoff.values()]
        placed += [*self._unschedulable.values(), *self._gated.values()]
        assert len(placed) == len(self._entries), "a pod is in two places, or in none"
        for entry in placed:
            assert self._entries[entry.info.key] is entry, entry.info.key
            assert entry.info.uid not in self._in_flight, f"{entry.info.key} is queued and in flight"
        assert self._since.keys() <= self._in_flight.keys()
        assert self._latest.keys() <= self._in_flight.keys()
        assert self._since or not self._events, "events are kept for nobody"
        assert list(self._since.values()) == sorted(self._since.values())
        assert not (self._waiting and self._active), "somebody waits while a pod is ready"


def _says_queue(registration: Registration, change: ClusterChanged, pod: Pod) -> bool:
    if not registration.event.matches(change.event):
        return False
    if registration.hint is None or change.event.resource is Resource.WILDCARD:
        return True
    return registration.hint(pod, change.old, change.new) is Hint.QUEUE


def _update_of(old: Pod, new: Pod) -> ClusterEvent:
    """What an update of a pending pod changed, of all that a plugin may wait for."""
    action = Action(0)
    if old.metadata.labels != new.metadata.labels:
        action |= Action.UPDATE_POD_LABEL
    if old.spec.tolerations != new.spec.tolerations:
        action |= Action.UPDATE_POD_TOLERATION
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        action |= Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    before, after = PodInfo(old).requests, PodInfo(new).requests
    if any(amount > after.get(name, 0) for name, amount in before.items()):
        action |= Action.UPDATE_POD_SCALE_DOWN
    return ClusterEvent(Resource.POD, action or Action.UPDATE_OTHER, "PodUpdate")

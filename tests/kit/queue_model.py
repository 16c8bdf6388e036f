"""A slow and plain scheduling queue: every pod is a row of one table, and every question walks over
all rows.

It says what the queue must do, so it has no index, no heap and no shortcut. Each pod in flight has
its own list of the events that it missed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from berth.actors.messages.queue import ClusterChanged
from berth.actors.scheduling.framework.changes import pod_changes
from berth.actors.scheduling.framework.events import (
    FORCE_ACTIVATE,
    ClusterEvent,
    Hint,
    Registration,
    Resource,
)
from berth.actors.scheduling.framework.status import Status
from berth.actors.scheduling.kube.core import Pod

AFTER_BACKOFF, AT_ONCE = 1, 2


class Row:
    def __init__(self, pod: Pod, now: float, arrival: int) -> None:
        self.pod = pod
        self.place = ""
        self.timestamp = now
        self.arrival = arrival
        self.parked_at = now
        self.attempts = self.rejections = self.errors = 0
        self.unschedulable: set[str] = set()
        self.pending: set[str] = set()
        self.gated_by = ""
        self.deferred_until = 0.0
        self.missed: list[ClusterChanged] | None = None

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    def order(self) -> tuple[float, ...]:
        return (-(self.pod.spec.priority or 0), self.timestamp, self.arrival)

    @property
    def is_large(self) -> bool:
        return len(self.pod.spec.tolerations) > 100

    def backoff_until(self) -> float:
        failures = self.errors or self.rejections
        penalty = self.timestamp + min(2.0 ** (failures - 1), 10.0) if failures else -math.inf
        turn = self.deferred_until or -math.inf
        until = max(penalty, turn)
        return until if until == -math.inf else math.floor(until)

    def backs_off(self, now: float) -> bool:
        return self.backoff_until() >= math.floor(now)


class QueueModel:
    """`moves` counts the pods that came to each queue. `happened` are the moves of the last step,
    as pairs of name and queue.
    """

    def __init__(
        self,
        gate: Callable[[Pod], Status],
        hints: Mapping[str, Sequence[Registration]],
        max_unschedulable: float,
    ) -> None:
        self.gate = gate
        self.hints = hints
        self.max_unschedulable = max_unschedulable
        self.rows: list[Row] = []
        self.arrivals = 0
        self.open_questions = 0
        self.paused = False  # the one namespace
        # The large pods of the one namespace: when they will have paid for their attempts, and when
        # the one under way began.
        self.paid_at = -math.inf
        self.large_since: float | None = None
        self.now = 0.0
        self.moves: Counter[str] = Counter()
        self.happened: list[tuple[str, str]] = []
        self.handed_out: list[Row] = []

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)

    def flying(self, uid: str) -> Row:
        return next(row for row in self.rows if row.uid == uid and row.place == "in flight")

    def arrival(self) -> int:
        self.arrivals += 1
        return self.arrivals

    def move(self, row: Row, place: str) -> None:
        row.place = place
        self.moves[place] += 1
        self.happened.append((row.name, place))

    # --------------------------------------------------------------------------------- what happens

    def add(self, pod: Pod) -> None:
        row = Row(pod, self.now, self.arrival())
        self.rows.append(row)
        self.requeue(row, AFTER_BACKOFF)
        self.hand_out()

    def update(self, old: Pod, new: Pod) -> None:
        row = self.row(old.metadata.name)
        assert row is not None
        if old.metadata.uid != new.metadata.uid:
            self.delete(old)
            self.add(new)
            return
        row.pod = new
        for action in pod_changes(old, new):
            change = ClusterChanged(ClusterEvent(Resource.UNSCHEDULED_POD, action), old, new)
            if row.place == "in flight" and row.missed is not None:
                row.missed.append(change)
            elif row.place in ("unschedulable", "gated"):
                self.consider(row, change)
        self.hand_out()

    def delete(self, pod: Pod) -> None:
        self.rows = [row for row in self.rows if row.uid != pod.metadata.uid]

    def ask(self) -> None:
        if self.large_since is not None:
            seconds = min(self.now - self.large_since, 10.0)
            self.paid_at = max(self.paid_at, self.now) + 5 * seconds
            self.large_since = None
        self.open_questions += 1
        self.hand_out()

    def pause(self, *, paused: bool) -> None:
        self.paused = paused
        self.hand_out()

    def fail(
        self, uid: str, unschedulable: frozenset[str], pending: frozenset[str], *, error: bool
    ) -> None:
        row = self.flying(uid)
        row.unschedulable, row.pending = (
            (set(), set()) if error else (set(unschedulable), set(pending))
        )
        if row.unschedulable | row.pending:
            row.rejections, row.errors = row.rejections + 1, 0
        else:
            row.errors += 1
        row.timestamp, row.arrival = self.now, self.arrival()
        if row.missed is None or not row.unschedulable | row.pending:
            worth = AFTER_BACKOFF
        else:
            worth = max((self.worth(row, change) for change in row.missed), default=0)
        row.missed = None
        if worth:
            self.requeue(row, worth)
        else:
            row.parked_at = self.now
            self.move(row, "unschedulable")
        self.hand_out()

    def done(self, uid: str) -> None:
        self.flying(uid).missed = None

    def change(self, change: ClusterChanged) -> None:
        for row in self.rows:
            if row.place == "in flight" and row.missed is not None:
                row.missed.append(change)
        for row in self.rows:
            allowed = (
                change.max_priority is None or (row.pod.spec.priority or 0) <= change.max_priority
            )
            if allowed and (
                row.place == "unschedulable"
                or (row.place == "gated" and self.gate_hears(row, change))
            ):
                self.consider(row, change)
        self.hand_out()

    def activate(self, name: str) -> None:
        row = self.row(name)
        if row is None:
            return
        if row.place == "in flight" and row.missed is not None:
            row.missed.append(ClusterChanged(FORCE_ACTIVATE, None, row.pod))
        elif row.place == "backoff":
            self.move(row, "active")
        elif row.place in ("unschedulable", "gated"):
            self.requeue(row, AT_ONCE)
        self.hand_out()

    def flush_backoff(self) -> None:
        for row in self.rows:
            if row.place == "backoff" and not row.backs_off(self.now):
                self.move(row, "active")
        self.hand_out()

    def flush_unschedulable(self) -> None:
        for row in self.rows:
            if (
                row.place in ("unschedulable", "gated")
                and self.now - row.parked_at > self.max_unschedulable
            ):
                row.parked_at = self.now
                self.requeue(row, AFTER_BACKOFF)
        self.hand_out()

    # --------------------------------------------------------------------------------- what follows

    def hand_out(self) -> None:
        while self.open_questions:
            ready = sorted((row for row in self.rows if row.place == "active"), key=Row.order)
            waiting = [
                row
                for row in self.rows
                if row.place == "backoff"
                and row.unschedulable | row.pending
                and not row.deferred_until
            ]
            ready += sorted(waiting, key=lambda row: (row.backoff_until(), *row.order()))
            if not ready or self.paused:
                return
            first = ready[0]
            if first.is_large and self.paid_at > self.now + 2.5:
                first.deferred_until = self.paid_at - 2.5
                self.move(first, "backoff")
                continue
            self.open_questions -= 1
            if first.is_large:
                self.large_since = self.now
            first.deferred_until = 0.0
            first.place = "in flight"
            first.attempts += 1
            first.unschedulable, first.pending = set(), set()
            first.missed = []
            self.handed_out.append(first)

    def requeue(self, row: Row, worth: int) -> None:
        status = self.gate(row.pod)
        if not status.ok:
            row.unschedulable.add(status.plugin)
            if row.place != "gated":
                row.parked_at = self.now
                self.move(row, "gated")
            elif row.gated_by != status.plugin:
                row.parked_at = self.now
            row.gated_by = status.plugin
            return
        row.gated_by = ""
        self.move(
            row, "backoff" if worth == AFTER_BACKOFF and row.backs_off(self.now) else "active"
        )

    def consider(self, row: Row, change: ClusterChanged) -> None:
        worth = self.worth(row, change)
        if worth:
            self.requeue(row, worth)

    def gate_hears(self, row: Row, change: ClusterChanged) -> bool:
        registrations = self.hints.get(row.gated_by)
        return registrations is None or any(r.event.matches(change.event) for r in registrations)

    def worth(self, row: Row, change: ClusterChanged) -> int:
        """Returns how a change wakes a pod; 0 if no plugin that rejected it accepts the change."""
        subject = change.new if change.new is not None else change.old
        if change.event.resource is Resource.WILDCARD:
            return (
                AFTER_BACKOFF
                if not isinstance(subject, Pod) or subject.metadata.uid == row.uid
                else 0
            )
        if change.event.resource is Resource.ASSIGNED_POD and isinstance(subject, Pod):
            assert subject.metadata.uid != row.uid
        best = 0
        for plugin in row.unschedulable | row.pending:
            registrations = self.hints.get(plugin)
            says_queue = registrations is None or any(
                r.event.matches(change.event)
                and (
                    row.is_large
                    or r.hint is None
                    or r.hint(row.pod, change.old, change.new) is Hint.QUEUE
                )
                for r in registrations
            )
            if says_queue:
                best = max(best, AT_ONCE if plugin in row.pending else AFTER_BACKOFF)
        return best

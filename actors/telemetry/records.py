"""Records: the durations of extension points and plugins.

A record is a list of marks, because it is written many times for each pod. A mark is two numbers:
the kind, which is the extension point that begins or the code with which it ended, and the time. An
interval lasts from a mark that begins something to the next mark. All attempts of a profile that
are not traced write into one list, since nothing else runs between two marks of an interval.
`settle` counts the list into histograms, thousands of marks in a few steps. A detailed record
writes into the same list, and also times the plugins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from ..scheduling.framework.measuring import POINTS, RECALL, Record
from ..scheduling.framework.status import Code
from ..scheduling.model.vectors import Ints
from .families import Families
from .measures import Floats, Histogram

MOST_MARKS = 16_384  # two numbers each
# Marks that end an interval: the numbers of codes, and these, for intervals that do not count.
SUCCEEDED = int(Code.SUCCESS)
DISCARDED = len(Code)
MISSED = len(Code) + 1
FIRST = len(Code) + 2  # the first number that begins an interval
KINDS = max(POINTS) + 1


class PointTimes:
    """The marks of one profile, and the histograms that count them.

    `plain` and `detailed` are the records of its attempts. `gate` is the record of PreEnqueue,
    which belongs to no attempt.
    """

    def __init__(self, families: Families, profile: str, now: Callable[[], float]) -> None:
        self.families = families
        self.profile = profile
        self.now = now
        self.marks: list[float] = []
        self.idle: list[int] = []
        self.stored: list[float] = []  # seconds since RECALL began
        self.not_stored = 0
        self._plugins: dict[tuple[str, str, int], Callable[[float], None]] = {}
        self.plain = PointRecord(self, self.marks, detailed=False)
        self.detailed = PointRecord(self, self.marks, detailed=True)
        self.gate = PointRecord(self, self.marks, detailed=True)
        self._bounds = np.array(families.point_duration.buckets)
        self._hint_bounds = np.array(families.node_hint_duration.buckets)

    def settle(self) -> None:
        """Counts the marks so far, unless an interval has no end yet."""
        marks = self.marks
        if not marks or marks[-2] >= FIRST:  # The last interval is not complete.
            return
        pairs = np.fromiter(marks, np.float64, len(marks)).reshape(-1, 2)
        marks.clear()
        kinds = pairs[:, 0].astype(np.int64)
        begun = np.flatnonzero(kinds[:-1] >= FIRST)
        kind, seconds = kinds[begun], pairs[begun + 1, 1] - pairs[begun, 1]
        end = kinds[begun + 1]
        code = np.where(end < FIRST, end, SUCCEEDED)
        self._count_points(kind, code, seconds)
        self._count_recall(end[kind == RECALL], seconds[kind == RECALL])
        self._count_stored(int(np.count_nonzero(kinds == DISCARDED)))
        for point, number in Counter(self.idle).items():
            zeros = (0,) * len(self._bounds)
            self._duration(point, SUCCEEDED).add((number, *zeros), 0.0)
        self.idle.clear()

    def _count_points(self, kind: Ints, code: Ints, seconds: Floats) -> None:
        width = len(self._bounds) + 1
        place = np.searchsorted(self._bounds, seconds, side="left")
        ended = kind * FIRST + code
        counts = np.bincount(ended * width + place, minlength=KINDS * FIRST * width)
        counts = counts.reshape(KINDS * FIRST, width)
        totals = np.bincount(ended, weights=seconds, minlength=KINDS * FIRST)
        for row in np.flatnonzero(counts.any(axis=1)).tolist():
            point, status = divmod(row, FIRST)
            if status < DISCARDED:
                self._duration(point, status).add(counts[row].tolist(), float(totals[row]))

    def _duration(self, point: int, code: int) -> Histogram:
        return self.families.point_duration.child(POINTS[point], Code(code).label, self.profile)

    def _count_recall(self, end: Ints, seconds: Floats) -> None:
        for chosen, hinted, result in (
            (end != MISSED, "hint", "hint_used"),
            (end == MISSED, "no_hint", "no_hint"),
        ):
            durations = seconds[chosen]
            if len(durations):
                place = np.searchsorted(self._hint_bounds, durations, side="left")
                counts = np.bincount(place, minlength=len(self._hint_bounds) + 1)
                child = self.families.node_hint_duration.child(hinted, self.profile)
                child.add(counts.tolist(), float(durations.sum()))
                self.families.batch_attempts.child(self.profile, result).inc(len(durations))

    def _count_stored(self, discarded: int) -> None:
        families, profile = self.families, self.profile
        for seconds in self.stored:
            families.store_duration.child(profile).observe(seconds)
        for number, reason in (
            (self.not_stored, "pod_not_batchable"),
            (discarded, "pod_failed"),
        ):
            if number:
                families.batch_flushed.child(profile, reason).inc(number)
        if discarded:
            families.batch_attempts.child(profile, "hint_not_used").inc(discarded)
        self.stored.clear()
        self.not_stored = 0

    def ran(self, plugin: str, point: str, code: Code, started: float) -> None:
        seconds = self.now() - started
        key = (plugin, point, int(code))
        observe = self._plugins.get(key)
        if observe is None:
            duration = self.families.plugin_duration.child(plugin, point, code.label)
            observe = self._plugins[key] = duration.observe
        observe(seconds)


class PointRecord(Record):
    """The record of any number of attempts."""

    def __init__(self, times: PointTimes, marks: list[float], *, detailed: bool) -> None:
        super().__init__(times.now)
        self.detailed = detailed
        self.marks = marks
        self._idle = times.idle
        self._times = times

    # Each pod has ten marks. `self.now()`, where it is no method of the class, would be slower.

    def enter(self, point: int) -> None:
        now = self.now
        self.marks.extend((point, now()))

    def leave(self, code: int = SUCCEEDED) -> None:
        now = self.now
        self.marks.extend((code, now()))

    def took(self, point: int, started: float, code: int = SUCCEEDED) -> None:
        now = self.now
        self.marks.extend((point, started, code, now()))

    def idle(self, point: int) -> None:
        self._idle.append(point)

    def ran(self, plugin: str, point: str, code: Code, started: float) -> None:
        self._times.ran(plugin, point, code, started)

    def missed(self) -> None:
        self.leave(MISSED)

    def kept(self, *, success: bool) -> None:
        if success:
            self._times.stored.append(self.now() - self.marks[-1])
        else:
            self._times.not_stored += 1

    def dropped(self) -> None:
        self.leave(DISCARDED)

"""Counters, gauges and histograms, in families as Prometheus knows them.

A family has a name, a help text, the names of its labels and a stability. Callers look a child up
once by the values of its labels and keep it, so that a measurement costs an addition or an append
to a list. A histogram keeps its observations in a list, until `settle` counts them into buckets.
Mirrors component-base's metrics.

Threads: a child may be read by any thread; the reader changes nothing, and reads again if the
counts changed meanwhile. Any thread may observe, because appending is one step. Counters and gauges
are written by one thread, except for a SharedCounter, which locks while it is written.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import add
from typing import ClassVar, Generic, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
UNEXPECTED = "unexpected"  # takes the place of a label value that is not allowed


class Stability(enum.StrEnum):
    STABLE = "STABLE"
    BETA = "BETA"
    ALPHA = "ALPHA"
    INTERNAL = "INTERNAL"
    UNSPECIFIED = ""


STABLE, BETA, ALPHA, INTERNAL, UNSPECIFIED = Stability


class Distribution(msgspec.Struct, frozen=True):
    """The observations of a histogram: `counts` has a number for each bucket and one for the values
    above the last bound. They are not cumulative.
    """

    counts: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        return sum(self.counts)


def exponential(start: float, factor: float, number: int) -> tuple[float, ...]:
    """Returns the upper bounds of buckets. Each is `factor` times the previous one."""
    bounds = [start]
    while len(bounds) < number:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


# --------------------------------------------------------------------------------------- children


class Number:
    """A number that is measured. `value` may be set to a number that is counted elsewhere."""

    __slots__ = ("value",)
    kind: ClassVar[str]  # as the exposition names it

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, amount: float = 1) -> None:
        self.value += amount


class Counter(Number):
    """A number that grows."""

    __slots__ = ()
    kind = "counter"


class Gauge(Number):
    """A number that rises and falls."""

    __slots__ = ()
    kind = "gauge"

    def set(self, value: float) -> None:
        self.value = value


class Histogram:
    """A histogram: observations counted by bucket. `observe` adds one to `raw`."""

    __slots__ = ("_bounds", "_counts", "_sum", "_version", "observe", "raw")
    kind = "histogram"

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = np.array(bounds, dtype=np.float64)
        self.raw: list[float] = []
        self._counts = (0,) * (len(bounds) + 1)
        self._sum = 0.0
        self._version = 0  # odd while observations move from the list to the counts
        self.observe: Callable[[float], None] = self.raw.append

    def add(self, counts: Sequence[int], total: float) -> None:
        """Adds observations that were counted elsewhere by the same buckets."""
        self._version += 1
        self._counts = tuple(map(add, self._counts, counts))
        self._sum += total
        self._version += 1

    def observe_all(self, values: Iterable[float]) -> None:
        self.raw.extend(values)

    def settle(self) -> None:
        """Counts the observations since the last call. Only one thread may call it at a time."""
        raw = self.raw
        number = len(raw)
        if number:
            values = np.array(raw[:number])
            self._version += 1
            del raw[:number]
            self._counts = tuple(map(add, self._counts, self._bucket_counts(values)))
            self._sum += float(values.sum())
            self._version += 1

    def read(self) -> Distribution:
        while True:
            version, raw, counts, total = self._version, self.raw[:], self._counts, self._sum
            if not version & 1 and version == self._version:
                break
        if not raw:
            return Distribution(counts, total)
        values = np.array(raw)
        return Distribution(
            tuple(map(add, counts, self._bucket_counts(values))), total + float(values.sum())
        )

    def _bucket_counts(self, values: Floats) -> list[int]:
        places = np.searchsorted(self._bounds, values, side="left")  # a bound is in its bucket
        counts: list[int] = np.bincount(places, minlength=len(self._counts)).tolist()
        return counts


class SharedCounter(Counter):
    """A counter that several threads write."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def inc(self, amount: float = 1) -> None:
        with self._lock:
            self.value += amount


# --------------------------------------------------------------------------------------- families

C = TypeVar("C", bound=Number | Histogram)


class Family(Generic[C]):
    """The children with one name, for each combination of label values. `buckets` are the upper
    bounds of histograms, without +Inf.

    `allowed` has the values that each label keeps, or None for all; others become "unexpected", and
    are counted by `unexpected`.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        text: str,
        labels: Sequence[str],
        stability: Stability,
        make: Callable[[], C],
        buckets: Sequence[float],
        allowed: Sequence[Collection[str] | None],
        unexpected: Counter,
    ) -> None:
        self.kind = kind
        self.name = name
        self.help = text
        self.labels = tuple(labels)
        self.stability = stability
        self.buckets = tuple(buckets)
        self._make = make
        self._allowed = allowed
        self._constrained = any(each is not None for each in allowed)
        self._unexpected = unexpected
        self._children: dict[tuple[str, ...], C] = {}
        self._adding = threading.Lock()
        if not self.labels:
            self.child()

    def child(self, *values: str) -> C:
        """Returns the child with these label values, in the order of `labels`. It is shown from now
        on, even without a measurement. Keep it where speed matters.
        """
        child = self._children.get(values)
        if child is not None and not self._constrained:
            return child
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, not {values}")
        if self._constrained:
            values = tuple(map(self._allowed_value, values, self._allowed))
        with self._adding:
            if values not in self._children:
                self._children[values] = self._make()
            return self._children[values]

    def _allowed_value(self, value: str, allowed: Collection[str] | None) -> str:
        if allowed is None or value in allowed:
            return value
        self._unexpected.inc()
        return UNEXPECTED

    def children(self) -> list[tuple[tuple[str, ...], C]]:
        """Returns pairs of label values and the child that has them, sorted by the values."""
        with self._adding:
            return sorted(self._children.items(), key=lambda item: item[0])


AnyFamily = Family[Counter] | Family[Gauge] | Family[Histogram]


class Registry:
    """All families of the process. The composition root makes it, and passes it to the parts that
    measure.

    `disabled` families can be measured, but are not shown. `allow_labels` maps "family,label" to
    the values that are kept. `unexpected` counts each look-up of another value.
    """

    def __init__(
        self,
        disabled: Collection[str] = (),
        allow_labels: Mapping[str, Collection[str]] = {},
    ) -> None:
        self.disabled = frozenset(filter(None, disabled))
        self.counter = partial(self.add, Counter)
        self.shared_counter = partial(self.add, SharedCounter)
        self.gauge = partial(self.add, Gauge)
        self.histogram = partial(self.add, Histogram)
        self.unexpected: Counter = SharedCounter()
        self._allow_labels = allow_labels
        self._families: dict[str, AnyFamily] = {}
        self._histograms: list[Histogram] = []
        self._refreshers: list[Callable[[], Awaitable[None]]] = []

    def families(self) -> Iterator[AnyFamily]:
        """Yields the families that are shown, in the order of their names."""
        for name in sorted(self._families):
            if name not in self.disabled:
                yield self._families[name]

    def hidden(self) -> list[str]:
        """Returns the families that are registered and disabled."""
        return sorted(self.disabled & self._families.keys())

    def unknown(self) -> list[str]:
        """Returns the disabled families and the "family,label" settings that do not exist."""
        labels = {
            f"{name},{each}" for name, family in self._families.items() for each in family.labels
        }
        return sorted(
            (self.disabled - self._families.keys()) | (self._allow_labels.keys() - labels)
        )

    def refresh_by(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """Registers a function that updates families before they are read."""
        self._refreshers.append(refresh)

    def settle(self) -> int:
        """Counts the observations of all histograms; returns how many there were. Call it from time
        to time.
        """
        unsettled = [each for each in self._histograms if each.raw]
        number = sum([len(each.raw) for each in unsettled])
        for histogram in unsettled:
            histogram.settle()
        return number

    async def refresh(self) -> None:
        """Updates the families that are counted only when they are read."""
        for refresh in self._refreshers:
            await refresh()

    def add(
        self,
        kind: type[C],
        name: str,
        text: str,
        labels: Sequence[str] = (),
        stability: Stability = ALPHA,
        *,
        buckets: Sequence[float] = (),
    ) -> Family[C]:
        """Registers a family. Raises ValueError if the name is taken."""
        if name in self._families:
            raise ValueError(f"{name} is registered already")
        new: Callable[..., C] = kind

        def make() -> C:
            child = new(buckets) if buckets else new()
            if isinstance(child, Histogram):
                self._histograms.append(child)
            return child

        allowed = [self._allow_labels.get(f"{name},{label}") for label in labels]
        family = Family(
            kind.kind, name, text, labels, stability, make, buckets, allowed, self.unexpected
        )
        self._families[name] = cast("AnyFamily", family)
        return family

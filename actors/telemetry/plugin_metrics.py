"""The metrics of plugins: families of their own beside those of kube-scheduler.

A family belongs to the plugin that asks for it first. The same plugin gets the same family again,
also in another profile or after a new configuration, so that it goes on counting. A plugin has
MOST_FAMILIES at most, and a family keeps MOST_CHILDREN combinations of label values: a plugin that
labels by pod would fill the memory. Values are checked where they are given: on the page, a wrong
one would hide the metrics of everybody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import lt
from typing import Any, Generic, TypeVar

from ..scheduling.framework.status import encodable
from .measures import (
    UNEXPECTED,
    UNSPECIFIED,
    Counter,
    Family,
    Gauge,
    Histogram,
    Number,
    Registry,
    exponential,
)

C = TypeVar("C", bound=Number | Histogram)

MOST_FAMILIES = MOST_CHILDREN = 1_000
MOST_CHARACTERS = 1_000  # of a label's value
SECONDS = exponential(0.001, 2, 15)  # the bounds of a histogram without bounds of its own
# The families of the scheduler begin with these.
OURS = ("berth_", "go_", "process_", "python_", "rest_client_", "scheduler_", "workqueue_")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*").fullmatch
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*").fullmatch


def _number(value: float) -> float:
    """Returns the value. Raises TypeError for what is no number, and OverflowError for one that is
    too large for the page.
    """
    given: object = value
    if isinstance(given, str):
        raise TypeError(f"expected a number, got {given!r:.80}")
    number = float(value)
    return value if type(value) is int else number


def _label_value(value: str) -> str:
    """Returns a value in a form that can be written, cut off if it is very long. Raises
    TypeError.
    """
    if not isinstance(value, str):
        raise TypeError(f"expected a text as the value of a label, got {value!r:.80}")
    return encodable(value[:MOST_CHARACTERS])


class _Children(Generic[C]):
    """The children of a family, up to MOST_CHILDREN."""

    def __init__(self, family: Family[C]) -> None:
        self._family = family
        self._known: dict[tuple[str, ...], C] = {}

    def child(self, labels: tuple[str, ...]) -> C:
        child = self._known.get(labels)
        if child is None:
            labels = tuple(map(_label_value, labels))
            if len(self._known) >= MOST_CHILDREN:
                labels = (UNEXPECTED,) * len(self._family.labels)
            child = self._known[labels] = self._family.child(*labels)
        return child


class _Counter(_Children[Counter]):
    def inc(self, *labels: str, by: float = 1) -> None:
        if not _number(by) >= 0:
            raise ValueError(f"a counter grows: expected an amount from 0, got {by}")
        self.child(labels).inc(by)


class _Gauge(_Children[Gauge]):
    def set(self, value: float, *labels: str) -> None:
        self.child(labels).set(_number(value))

    def inc(self, *labels: str, by: float = 1) -> None:
        self.child(labels).inc(_number(by))


class _Histogram(_Children[Histogram]):
    def observe(self, value: float, *labels: str) -> None:
        self.child(labels).observe(_number(value))


class PluginMetrics:
    """The metrics of all plugins in a registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: dict[str, tuple[str, tuple[object, ...], Any]] = {}
        self._activations = registry.counter(
            "berth_plugin_activations_total",
            "Pods that plugins activated through their handle, by plugin.",
            ("plugin",),
        )

    def activated(self, plugin: str, pods: int) -> None:
        """Counts the pods that a plugin activates."""
        self._activations.child(plugin).inc(pods)

    def of(self, plugin: str) -> MetricsOfPlugin:
        return MetricsOfPlugin(self, plugin)

    def add(
        self,
        plugin: str,
        kind: type[Counter] | type[Gauge] | type[Histogram],
        wrapper: type[Any],
        name: str,
        text: str,
        labels: Sequence[str],
        buckets: Sequence[float] = (),
    ) -> Any:
        """Returns the family of a plugin. Raises ValueError for a name that is invalid, or taken by
        another one, for labels and buckets that cannot be, and beyond MOST_FAMILIES.
        """
        for given in (name, text, *labels):
            if not isinstance(given, str):
                raise TypeError(f"metric {name!r:.80}: expected a text, got {given!r:.80}")
        if not _NAME(name) or name.startswith(OURS):
            ours = ", ".join(f"{prefix}*" for prefix in OURS)
            raise ValueError(f"metric {name!r}: expected a name of letters, digits, _; not {ours}")
        for label in labels:
            if not _LABEL(label):
                raise ValueError(f"metric {name}: label {label!r}: expected letters, digits, _")
        is_odd = isinstance(labels, str) or len(set(labels)) < len(labels)
        if is_odd or (kind is Histogram and "le" in labels):
            raise ValueError(f"metric {name}: expected labels, not le, got {labels!r:.80}")
        bounds = tuple(buckets)
        if not all(map(lt, bounds, bounds[1:])):
            raise ValueError(f"metric {name}: expected rising buckets, got {bounds!r:.80}")
        shape = (kind, tuple(labels), bounds)
        owner, made_as, metric = self._made.get(name, (plugin, shape, None))
        if owner != plugin or made_as != shape:
            raise ValueError(f"metric {name}: the plugin {owner} has another one of this name")
        if metric is None:
            if sum(owner == plugin for owner, _, _ in self._made.values()) >= MOST_FAMILIES:
                raise ValueError(f"metric {name}: {plugin} has {MOST_FAMILIES} metrics already")
            text = encodable(text)
            family = self._registry.add(kind, name, text, labels, UNSPECIFIED, buckets=bounds)
            metric = wrapper(family)
            self._made[name] = plugin, shape, metric
        return metric


class MetricsOfPlugin:
    """The handle's PluginMetricsHandle for one plugin."""

    def __init__(self, metrics: PluginMetrics, plugin: str) -> None:
        self._metrics = metrics
        self._plugin = plugin

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> _Counter:
        made: _Counter = self._metrics.add(self._plugin, Counter, _Counter, name, text, labels)
        return made

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> _Gauge:
        made: _Gauge = self._metrics.add(self._plugin, Gauge, _Gauge, name, text, labels)
        return made

    def histogram(
        self,
        name: str,
        text: str,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = SECONDS,
    ) -> _Histogram:
        made: _Histogram = self._metrics.add(
            self._plugin, Histogram, _Histogram, name, text, labels, buckets
        )
        return made

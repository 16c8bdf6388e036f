"""The metrics of plugins: families of their own beside those of kube-scheduler.

A family belongs to the plugin that asks for it first. The same plugin gets the same family again,
also in another profile or after a new configuration, so that it goes on counting. A family keeps
MOST_CHILDREN combinations of label values: a plugin that labels by pod would fill the memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

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

MOST_CHILDREN = 1_000
SECONDS = exponential(0.001, 2, 15)  # the bounds of a histogram without bounds of its own
# The families of the scheduler begin with these.
OURS = ("berth_", "go_", "process_", "python_", "rest_client_", "scheduler_", "workqueue_")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*").fullmatch
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*").fullmatch


class _Children(Generic[C]):
    """The children of a family, up to MOST_CHILDREN."""

    def __init__(self, family: Family[C]) -> None:
        self._family = family
        self._known: dict[tuple[str, ...], C] = {}

    def child(self, labels: tuple[str, ...]) -> C:
        child = self._known.get(labels)
        if child is None:
            if len(self._known) >= MOST_CHILDREN:
                labels = (UNEXPECTED,) * len(self._family.labels)
            child = self._known[labels] = self._family.child(*labels)
        return child


class _Counter(_Children[Counter]):
    def inc(self, *labels: str, by: float = 1) -> None:
        if by < 0:
            raise ValueError(f"a counter grows: expected an amount from 0, got {by}")
        self.child(labels).inc(by)


class _Gauge(_Children[Gauge]):
    def set(self, value: float, *labels: str) -> None:
        self.child(labels).set(value)

    def inc(self, *labels: str, by: float = 1) -> None:
        self.child(labels).inc(by)


class _Histogram(_Children[Histogram]):
    def observe(self, value: float, *labels: str) -> None:
        self.child(labels).observe(value)


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
        another one.
        """
        if not _NAME(name) or name.startswith(OURS):
            ours = ", ".join(f"{prefix}*" for prefix in OURS)
            raise ValueError(f"metric {name!r}: expected a name of letters, digits, _; not {ours}")
        for label in labels:
            if not _LABEL(label):
                raise ValueError(f"metric {name}: label {label!r}: expected letters, digits, _")
        shape = (kind, tuple(labels), tuple(buckets))
        owner, made_as, metric = self._made.get(name, (plugin, shape, None))
        if owner != plugin or made_as != shape:
            raise ValueError(f"metric {name}: the plugin {owner} has another one of this name")
        if metric is None:
            family = self._registry.add(kind, name, text, labels, UNSPECIFIED, buckets=buckets)
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

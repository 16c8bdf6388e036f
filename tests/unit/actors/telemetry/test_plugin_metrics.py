"""The metrics of plugins: what one gives cannot hide the metrics of the others."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import inf, nan

import pytest

from berth.actors.server.metrics.exposition import exposed
from berth.actors.telemetry.measures import Registry
from berth.actors.telemetry.plugin_metrics import (
    MOST_CHARACTERS,
    MOST_FAMILIES,
    MetricsOfPlugin,
    PluginMetrics,
)
from berth.plugin import Handle
from berth.testing import FakeHandle


def shown(registry: Registry) -> list[str]:
    registry.settle()
    lines = b"".join(exposed(registry.families())).decode().splitlines()
    return [line for line in lines if line.startswith("mine")]


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def metrics(registry: Registry) -> MetricsOfPlugin:
    return PluginMetrics(registry).of("Mine")


WRONG: list[Callable[[MetricsOfPlugin], object]] = [
    lambda metrics: metrics.gauge("mine", "").set(None),  # type: ignore[arg-type]
    lambda metrics: metrics.gauge("mine", "").set("5"),  # type: ignore[arg-type]
    lambda metrics: metrics.gauge("mine", "").set(10**400),
    lambda metrics: metrics.gauge("mine", "").inc(by=[]),  # type: ignore[arg-type]
    lambda metrics: metrics.gauge("mine", "", ["a"]).set(1, 7),  # type: ignore[arg-type]
    lambda metrics: metrics.gauge("mine", "", ["a"]).set(1, None),  # type: ignore[arg-type]
    lambda metrics: metrics.counter("mine", "").inc(by=nan),
    lambda metrics: metrics.counter("mine", "").inc(by=-1),
    lambda metrics: metrics.histogram("mine", "").observe("1"),  # type: ignore[arg-type]
    lambda metrics: metrics.histogram("mine", "").observe(None),  # type: ignore[arg-type]
    lambda metrics: metrics.counter("mine", "", "ab"),
    lambda metrics: metrics.counter("mine", "", ["a", "a"]),
    lambda metrics: metrics.counter("mine", "", [7]),  # type: ignore[list-item]
    lambda metrics: metrics.counter("mine", 7),  # type: ignore[arg-type]
    lambda metrics: metrics.counter(7, ""),  # type: ignore[arg-type]
    lambda metrics: metrics.histogram("mine", "", ["le"]),
    lambda metrics: metrics.histogram("mine", "", [], [2, 1]),
    lambda metrics: metrics.histogram("mine", "", [], [1, nan]),
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_a_wrong_value_is_refused_where_it_is_given(
    wrong: Callable[[MetricsOfPlugin], object], metrics: MetricsOfPlugin, registry: Registry
) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        wrong(metrics)
    assert all(line.split()[-1] in ("0", "+Inf") for line in shown(registry))


def test_values_of_other_kinds_of_numbers(metrics: MetricsOfPlugin, registry: Registry) -> None:
    gauge = metrics.gauge("mine", "", ["a"])
    for number in (True, Decimal("1.5"), inf):
        gauge.set(number, str(number))  # type: ignore[arg-type]
    assert shown(registry) == ['mine{a="1.5"} 1.5', 'mine{a="True"} 1', 'mine{a="inf"} +Inf']


def test_texts_that_cannot_be_written(metrics: MetricsOfPlugin, registry: Registry) -> None:
    counter = metrics.counter("mine", "half \udcff", ["a"])
    counter.inc("half-\udcff")
    counter.inc("x" * 100_000)
    counter.inc("x" * 100_000)
    assert shown(registry) == [
        r'mine{a="half-\\udcff"} 1',
        f'mine{{a="{"x" * MOST_CHARACTERS}"}} 2',
    ]


def test_a_plugin_that_makes_a_metric_of_each_pod(metrics: MetricsOfPlugin) -> None:
    for number in range(MOST_FAMILIES):
        metrics.counter(f"mine_{number}", "")
    with pytest.raises(ValueError, match=f"Mine has {MOST_FAMILIES} metrics already"):
        metrics.counter("one_more", "")
    metrics.counter("mine_1", "").inc()


def test_a_handle_for_tests_refuses_the_same() -> None:
    handle: Handle = FakeHandle(plugin="Mine")
    with pytest.raises(TypeError, match="expected a text as the value of a label, got 7"):
        handle.metrics.gauge("mine", "", ["a"]).set(1, 7)  # type: ignore[arg-type]

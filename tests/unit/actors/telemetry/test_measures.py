"""Measures: families of counters, gauges and histograms, and what a reader finds in them."""

from __future__ import annotations

import threading

import pytest

from berth.actors.telemetry.measures import (
    STABLE,
    Counter,
    Distribution,
    Histogram,
    Registry,
    exponential,
)


def test_a_child_is_found_again_by_the_values_of_its_labels() -> None:
    family = Registry().counter("attempts_total", "Attempts.", ("result", "profile"), STABLE)
    family.child("scheduled", "a").inc()
    family.child("scheduled", "a").inc(2)
    family.child("error", "a")
    assert [(values, child.value) for values, child in family.children()] == [
        (("error", "a"), 0),
        (("scheduled", "a"), 3),
    ]


def test_a_family_without_labels_is_shown_from_the_start() -> None:
    family = Registry().counter("preemption_attempts_total", "Attempts.")
    assert [values for values, _ in family.children()] == [()]


def test_a_gauge_rises_and_falls() -> None:
    gauge = Registry().gauge("size", "Size.").child()
    gauge.set(5)
    gauge.inc(-2)
    assert gauge.value == 3


def test_a_bucket_includes_its_upper_bound() -> None:
    histogram = Histogram((1.0, 2.0, 4.0))
    for value in (0.5, 1.0, 1.5, 4.0, 9.0):
        histogram.observe(value)
    assert histogram.read() == Distribution((2, 1, 1, 1), 16.0)
    assert histogram.read().count == 5


def test_a_histogram_counts_the_same_before_and_after_it_settles() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.5):
        histogram.observe(value)
    histogram.settle()
    histogram.observe(5.0)
    assert histogram.read() == Distribution((1, 1, 1), 7.0)
    histogram.add((1, 0, 2), 10.0)
    histogram.settle()
    assert histogram.read() == Distribution((2, 1, 3), 17.0)


def test_bounds_grow_by_the_factor() -> None:
    assert exponential(0.001, 2, 4) == (0.001, 0.002, 0.004, 0.008)


def test_families_are_listed_by_name_without_the_disabled_ones() -> None:
    registry = Registry(disabled=("b_total",))
    registry.counter("c_total", "C.")
    registry.counter("b_total", "B.").child().inc()
    registry.histogram("a_seconds", "A.", buckets=(1.0,))
    assert [(family.name, family.kind) for family in registry.families()] == [
        ("a_seconds", "histogram"),
        ("c_total", "counter"),
    ]


def test_a_name_is_taken_once() -> None:
    registry = Registry()
    registry.counter("a_total", "A.")
    with pytest.raises(ValueError, match="a_total is registered already"):
        registry.gauge("a_total", "A.")


def test_a_child_needs_a_value_for_every_label() -> None:
    family = Registry().counter("a_total", "A.", ("result",))
    with pytest.raises(ValueError, match="a_total has the labels"):
        family.child()


def test_label_values_that_are_not_allowed_are_counted_together() -> None:
    registry = Registry(allow_labels={"a_total,profile": frozenset({"known"})})
    family = registry.counter("a_total", "A.", ("result", "profile"))
    for profile in ("known", "other", "another"):
        family.child("error", profile).inc()
    assert [(values, child.value) for values, child in family.children()] == [
        (("error", "known"), 1),
        (("error", "unexpected"), 2),
    ]


async def test_what_is_counted_when_it_is_read_is_brought_up_to_date() -> None:
    registry = Registry()
    gauge = registry.gauge("size", "Size.").child()

    async def count() -> None:
        gauge.set(7)

    registry.refresh_by(count)
    await registry.refresh()
    assert gauge.value == 7


def _written(children: list[Counter | Histogram]) -> None:
    for _ in range(20_000):
        for child in children:
            if isinstance(child, Counter):
                child.inc()
            else:
                child.observe(1.0)


def _read(histogram: Histogram, counts: list[int], writer: threading.Thread) -> None:
    while writer.is_alive():
        counts.append(histogram.read().count)


def test_several_threads_may_write_a_shared_family() -> None:
    registry = Registry()
    counter = registry.shared_counter("a_total", "A.").child()
    histogram = registry.histogram("a_seconds", "A.", buckets=(1.0,)).child()
    threads = [threading.Thread(target=_written, args=([counter, histogram],)) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        registry.settle()
    for thread in threads:
        thread.join()
    assert counter.value == 60_000
    assert histogram.read() == Distribution((60_000, 0), 60_000.0)


def test_a_reader_in_another_thread_never_sees_a_count_fall() -> None:
    histogram = Histogram((1.0,))
    writer = threading.Thread(target=_written, args=([histogram],))
    writer.start()
    counts = [0]
    reader = threading.Thread(target=_read, args=(histogram, counts, writer))
    reader.start()
    while writer.is_alive():
        histogram.settle()
    writer.join()
    reader.join()
    assert counts == sorted(counts)
    assert histogram.read().count == 20_000


def test_values_that_are_not_allowed_are_counted_at_each_look_up() -> None:
    registry = Registry(allow_labels={"requests_total,host": {"a"}})
    family = registry.counter("requests_total", "Requests.", ("host", "code"))
    for host in ("a", "b", "c"):
        family.child(host, "200").inc()
    assert [values for values, _ in family.children()] == [("a", "200"), ("unexpected", "200")]
    assert registry.unexpected.value == 2


def test_a_registry_knows_which_of_the_disabled_and_limited_families_it_has() -> None:
    limits = {"a_total,x": {"1"}, "a_total,z": {"1"}, "c_total,x": {"1"}}
    registry = Registry(("a_total", "b_total", ""), limits)
    registry.counter("a_total", "A.", ("x", "y"))
    assert registry.hidden() == ["a_total"]
    assert registry.unknown() == ["a_total,z", "b_total", "c_total,x"]

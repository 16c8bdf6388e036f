"""The text format, as Go's client library prints it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from berth.actors.server.metrics.exposition import exposed, go_float
from berth.actors.telemetry.measures import STABLE, Registry


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (1, "1"),
        (-2.5, "-2.5"),
        (0.1, "0.1"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (2.4708e-05, "2.4708e-05"),
        (100000, "100000"),
        (999999.5, "999999.5"),
        (1000000, "1e+06"),
        (1048576, "1.048576e+06"),
        (24025281820, "2.402528182e+10"),
        (1.8446744073709552e19, "1.8446744073709552e+19"),
        (-3e100, "-3e+100"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_those_of_go(value: float, text: str) -> None:
    assert go_float(value) == text


def text_of(registry: Registry) -> str:
    return b"".join(exposed(registry.families())).decode()


def test_labels_are_in_the_order_of_their_names_and_samples_in_that_of_their_values() -> None:
    registry = Registry()
    family = registry.counter("requests_total", "Requests.", ("method", "code"), STABLE)
    family.child("GET", "404").inc()
    family.child("PUT", "200").inc(2)
    family.child("GET", "200")
    assert text_of(registry) == (
        "# HELP requests_total [STABLE] Requests.\n"
        "# TYPE requests_total counter\n"
        'requests_total{code="200",method="GET"} 0\n'
        'requests_total{code="200",method="PUT"} 2\n'
        'requests_total{code="404",method="GET"} 1\n'
    )


def test_buckets_are_cumulative_and_the_bound_is_the_last_label() -> None:
    registry = Registry()
    family = registry.histogram("took_seconds", "Time.", ("name",), buckets=(0.5, 1, 1048576))
    for value in (0.1, 0.75, 1, 3e9):
        family.child("a").observe(value)
    assert text_of(registry) == (
        "# HELP took_seconds [ALPHA] Time.\n"
        "# TYPE took_seconds histogram\n"
        'took_seconds_bucket{name="a",le="0.5"} 1\n'
        'took_seconds_bucket{name="a",le="1"} 3\n'
        'took_seconds_bucket{name="a",le="1.048576e+06"} 3\n'
        'took_seconds_bucket{name="a",le="+Inf"} 4\n'
        'took_seconds_sum{name="a"} 3.00000000185e+09\n'
        'took_seconds_count{name="a"} 4\n'
    )


def test_a_histogram_without_labels_has_no_empty_braces() -> None:
    registry = Registry()
    registry.histogram("took_seconds", "Time.", buckets=(1.0,)).child().observe(1)
    assert text_of(registry).splitlines()[2:] == [
        'took_seconds_bucket{le="1"} 1',
        'took_seconds_bucket{le="+Inf"} 1',
        "took_seconds_sum 1",
        "took_seconds_count 1",
    ]


def test_a_family_without_samples_is_left_out() -> None:
    registry = Registry()
    registry.gauge("size", "Size.", ("type",))
    assert text_of(registry) == ""


def test_what_would_break_a_line_is_escaped() -> None:
    registry = Registry()
    registry.gauge("size", "Back\\slash\nnew line.", ("type",)).child('a"\\\n').set(1)
    assert text_of(registry) == (
        "# HELP size [ALPHA] Back\\\\slash\\nnew line.\n"
        "# TYPE size gauge\n"
        'size{type="a\\"\\\\\\n"} 1\n'
    )


def test_values_outside_of_the_allowed_are_one_series() -> None:
    registry = Registry((), {"requests_total,code": frozenset({"200"})})
    family: Any = registry.counter("requests_total", "Requests.", ("code",))
    for code in ("200", "404", "500"):
        family.child(code).inc()
    assert text_of(registry).splitlines()[2:] == [
        'requests_total{code="200"} 1',
        'requests_total{code="unexpected"} 2',
    ]

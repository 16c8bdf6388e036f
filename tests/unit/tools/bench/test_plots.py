from __future__ import annotations

import re

import pytest

from berth.tools.bench.measure import Latency, Result, Throughput, Timeline
from berth.tools.bench.plots import plots

RESULT = Result(
    "<b>/w", 9, 3.0, Throughput(3, 3, 3, 3, 3), None, None, None, None,
    bound=Timeline(0.5, (4, 0, 1)),
    decisions=Timeline(1.0, (1, 0, 2), (Latency(1, 1, 4), None, Latency(2, 2, 8))),
)  # fmt: skip


def points(line: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.split())]


def test_throughput_and_latency_are_drawn_over_time() -> None:
    throughput, latency = plots(RESULT)
    assert "&lt;b&gt;/w: pods bound; at most 8 pods/s" in throughput
    assert re.findall(r">([0-9.]+ pods/s)<", throughput) == ["0 pods/s", "5 pods/s", "10 pods/s"]
    (line,) = re.findall(r'<polyline points="([^"]*)"', throughput)
    first, gap, last = points(line)
    assert first[1] < last[1] < gap[1]
    assert gap[0] - first[0] == pytest.approx(last[0] - gap[0], abs=0.2)
    slow, fast = map(points, re.findall(r'<polyline points="([^"]*)"', latency))
    assert len(slow) == len(fast) == 2  # there is no latency in the second without a decision
    assert slow[0][0] == first[0]
    assert all(low[1] > high[1] for low, high in zip(fast, slow, strict=True))


def test_a_result_without_a_time_line_has_no_plot() -> None:
    assert plots(Result("w", 0, 0.0, RESULT.throughput, None, None, None, None)) == []

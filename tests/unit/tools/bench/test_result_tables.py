"""The table of results fits the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from berth.tools.bench.measure import Latency, Result, Throughput
from berth.tools.bench.result_tables import WIDE, results_table

LATENCY = Latency(1.45, 1.0, 34.56)
RATE = Throughput(2_345.0, 2_345.0, 2_345.0, 2_345.0, 2_345.0)
RESULT = Result(
    "NodeAffinity/5000Nodes_10000Pods",
    10_000,
    100.25,
    RATE,
    LATENCY,
    LATENCY,
    1234.5,
    123 << 20,
    5.0,
    False,
)


def printed(width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(results_table([RESULT], wide=width >= WIDE))
    return out.getvalue()


def test_a_wide_terminal_shows_every_figure_in_a_row() -> None:
    (row,) = (line for line in printed(WIDE).splitlines() if "5000Nodes" in line)
    for figure in ("10000", "100.25", "2345", "1.45 / 1.00 / 34.56", "1234.5", "123"):
        assert f" {figure} " in row


def test_a_terminal_of_80_columns_cuts_nothing() -> None:
    lines = printed(80).splitlines()
    assert max(map(len, lines)) == 80
    text = "".join(lines)
    for figure in ("10000", "2345", "1234.5"):
        assert f" {figure} " in text
    assert "…" not in text


def test_a_missed_threshold_is_shown_at_every_width() -> None:
    assert "missed" in printed(WIDE)
    assert "missed" in printed(80)

"""Results as tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from tools.bench.measure import Checked, Latency, ProfileRow, Result

MEGABYTE = 1 << 20


def results_table(results: Sequence[Result]) -> Table:
    table = Table(title="scheduler_perf", title_justify="left")
    table.add_column("workload", overflow="fold")
    for column in ("pods", "seconds", "pods/s", "p50", "p90", "p99", "decision ms", "attempt ms", "cpu s", "peak MB"):
        table.add_column(column, justify="right")
    table.add_column("threshold", justify="right")
    if any(result.checked for result in results):
        table.add_column("agree", justify="right")
    for result in results:
        rate = result.throughput
        table.add_row(
            result.name,
            str(result.pods),
            f"{result.seconds:.2f}",
            f"{rate.average:.0f}",
            f"{rate.p50:.0f}",
            f"{rate.p90:.0f}",
            f"{rate.p99:.0f}",
            _latency(result.decision_ms),
            _latency(result.attempt_ms),
            "-" if result.cpu_seconds is None else f"{result.cpu_seconds:.1f}",
            "-" if result.peak_rss_bytes is None else f"{result.peak_rss_bytes / MEGABYTE:.0f}",
            f"{result.threshold:g}{'' if result.reached else ' missed'}" if result.threshold else "-",
            *(() if result.checked is None else (f"{result.checked.agree}/{result.checked.pods}",)),
            style=None if result.reached and not (result.checked and result.checked.differ) else "red",
        )
    table.caption = "latencies are mean / median / 99th percentile"
    table.caption_justify = "left"
    return table


def differences_table(name: str, checked: Checked) -> Table:
    table = Table(title=f"{name}: decisions that berth explain does not make", title_justify="left")
    table.add_column("pod", overflow="fold")
    table.add_column("what differs", overflow="fold")
    for differs in checked.differ:
        table.add_row(differs.pod, differs.difference)
    return table


def profile_table(name: str, rows: Sequence[ProfileRow]) -> Table:
    table = Table(title=f"{name}: where the time goes", title_justify="left")
    table.add_column("function", overflow="fold")
    for column in ("calls", "own s", "total s"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(row.function, str(row.calls), f"{row.own:.2f}", f"{row.total:.2f}")
    return table


def _latency(latency: Latency | None) -> str:
    return "-" if latency is None else f"{latency.mean:.2f} / {latency.p50:.2f} / {latency.p99:.2f}"

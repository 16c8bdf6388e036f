"""Results as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from . import programs
from .measure import CheckResult, Latency, Result
from .sampling import Share, Stacks, functions, rooms

MEGABYTE = 1 << 20


def results_table(results: Sequence[Result]) -> Table:
    table = Table(title="scheduler_perf", title_justify="left")
    table.add_column("workload", overflow="fold")
    for column in (
        "pods",
        "seconds",
        "pods/s",
        "p50",
        "p90",
        "p99",
        "decision ms",
        "attempt ms",
        "cpu s",
        "peak MB",
    ):
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
            f"{result.threshold:g}{'' if result.reached else ' missed'}"
            if result.threshold
            else "-",
            *(() if result.checked is None else (f"{result.checked.agree}/{result.checked.pods}",)),
            style=None
            if result.reached and not (result.checked and result.checked.differ)
            else "red",
        )
    table.caption = "latencies are mean / median / 99th percentile"
    table.caption_justify = "left"
    return table


def differences_table(name: str, checked: CheckResult) -> Table:
    table = Table(title=f"{name}: decisions that berth explain does not make", title_justify="left")
    table.add_column("pod", overflow="fold")
    table.add_column("difference", overflow="fold")
    for differs in checked.differ:
        table.add_row(differs.pod, differs.difference)
    return table


def profile_tables(name: str, stacks: Stacks) -> tuple[Table, Table]:
    """Returns the time by room and by function, those with the most time of their own first."""
    return (
        _shares_table(f"{name}: where the time goes", "room", rooms(stacks)),
        _shares_table("functions with the most own time", "function", functions(stacks)),
    )


def _shares_table(title: str, what: str, shares: Sequence[Share]) -> Table:
    rows = ((share.name, share.own, share.total) for share in shares)
    return programs.table((what, "own", "with callees"), rows, "{:.1%}", title)


def _latency(latency: Latency | None) -> str:
    return "-" if latency is None else f"{latency.mean:.2f} / {latency.p50:.2f} / {latency.p99:.2f}"

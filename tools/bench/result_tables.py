"""The results of workloads as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.table import Table

from . import programs
from .measure import CheckResult, Latency, Result
from .stack_samples import Share, Stacks, functions, rooms

MEGABYTE = 1 << 20


WIDE = 160
# The figures of a result by column. A narrow terminal shows some of them.
_FIGURES: dict[str, Callable[[Result], str]] = {
    "pods": lambda result: str(result.pods),
    "seconds": lambda result: f"{result.seconds:.2f}",
    "pods/s": lambda result: f"{result.throughput.average:.0f}",
    "p50": lambda result: f"{result.throughput.p50:.0f}",
    "p90": lambda result: f"{result.throughput.p90:.0f}",
    "p99": lambda result: f"{result.throughput.p99:.0f}",
    "decision ms": lambda result: _latency(result.decision_ms),
    "attempt ms": lambda result: _latency(result.attempt_ms),
    "cpu s": lambda result: _or_none("{:.1f}", result.cpu_seconds),
    "peak MB": lambda result: _or_none("{:.0f}", result.peak_rss_bytes, MEGABYTE),
}
_NARROW = ("pods", "pods/s", "decision ms", "cpu s")


def results_table(results: Sequence[Result], *, wide: bool = True) -> Table:
    """Returns a row for each result, of 160 columns if `wide`, otherwise of 80."""
    table = Table(title="scheduler_perf", title_justify="left")
    table.add_column("workload", overflow="fold")
    columns = tuple(_FIGURES) if wide else _NARROW
    for column in columns:
        table.add_column(column, justify="right")
    has_threshold = wide or any(result.threshold for result in results)
    if has_threshold:
        table.add_column("threshold", justify="right")
    if any(result.checked for result in results):
        table.add_column("agree", justify="right")
    for result in results:
        table.add_row(
            result.name,
            *(_FIGURES[column](result) for column in columns),
            *((_threshold(result),) if has_threshold else ()),
            *(() if result.checked is None else (f"{result.checked.agree}/{result.checked.pods}",)),
            style=None
            if result.reached and not (result.checked and result.checked.differ)
            else "red",
        )
    table.caption = "latencies are mean / median / 99th percentile"
    table.caption_justify = "left"
    return table


def _threshold(result: Result) -> str:
    if not result.threshold:
        return "-"
    return f"{result.threshold:g}{'' if result.reached else ' missed'}"


def _or_none(form: str, value: float | None, unit: float = 1) -> str:
    return "-" if value is None else form.format(value / unit)


def differences_table(name: str, checked: CheckResult) -> Table:
    table = Table(title=f"{name}: decisions that berth explain does not make", title_justify="left")
    table.add_column("pod", overflow="fold")
    table.add_column("difference", overflow="fold")
    for differs in checked.differ:
        table.add_row(differs.pod, differs.difference)
    return table


def profile_tables(name: str, stacks: Stacks) -> tuple[Table, Table]:
    """Returns the time by room and by function, in the order of the time that they take
    themselves.
    """
    return (
        _shares_table(f"{name}: where the time goes", "room", rooms(stacks)),
        _shares_table("functions with the most own time", "function", functions(stacks)),
    )


def _shares_table(title: str, what: str, shares: Sequence[Share]) -> Table:
    rows = ((share.name, share.own, share.total) for share in shares)
    return programs.table((what, "own", "with callees"), rows, "{:.1%}", title)


def _latency(latency: Latency | None) -> str:
    return "-" if latency is None else f"{latency.mean:.2f} / {latency.p50:.2f} / {latency.p99:.2f}"

"""Compares two files of results: the figures of the second as multiples of those of the first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from . import programs
from .measure import Result


class CompareError(ValueError):
    """The files cannot be compared; the message names the file at fault."""


class Ratios(msgspec.Struct, frozen=True):
    """The figures of the second file divided by the figures of the first; None if either has no
    figure.
    """

    name: str
    throughput: float | None
    decision_ms: float | None
    attempt_p99_ms: float | None
    cpu_seconds: float | None
    peak_rss_bytes: float | None


def read(path: Path) -> list[Result]:
    """Reads a file written by `-o json`. Raises CompareError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Result])
    except OSError as problem:
        raise CompareError(f"{path}: cannot be read: {problem.strerror or problem}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        raise CompareError(f"{path}: not results of berth bench -o json: {problem}") from None


def compare(first: Sequence[Result], second: Sequence[Result]) -> list[Ratios]:
    """Returns the ratios for the workloads that are in both files, in the order of the first.

    Raises CompareError if there are none.
    """
    others = {result.name: result for result in second}
    ratios = [_ratios(result, others[result.name]) for result in first if result.name in others]
    if not ratios:
        raise CompareError("the files have no workload in common")
    return ratios


def _ratios(result: Result, other: Result) -> Ratios:
    decisions = (result.decision_ms, other.decision_ms)
    attempts = (result.attempt_ms, other.attempt_ms)
    return Ratios(
        result.name,
        _ratio(other.throughput.average, result.throughput.average),
        _ratio(*(None if each is None else each.mean for each in reversed(decisions))),
        _ratio(*(None if each is None else each.p99 for each in reversed(attempts))),
        _ratio(other.cpu_seconds, result.cpu_seconds),
        _ratio(other.peak_rss_bytes, result.peak_rss_bytes),
    )


def _ratio(new: float | None, old: float | None) -> float | None:
    return None if new is None or not old else new / old


def table(ratios: Sequence[Ratios], first: str, second: str) -> Table:
    columns = ("workload", "pods/s", "decision ms", "attempt p99 ms", "cpu s", "peak memory")
    rows = map(msgspec.structs.astuple, ratios)
    return programs.table(columns, rows, "x{:.2f}", f"{second} over {first}")

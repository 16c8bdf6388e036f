"""How long a run lasts, as `--time` of `berth simulate`, `chaos` and `record` says it."""

from __future__ import annotations

from berth.config.types import Duration

from ..cluster.faults.vocabulary import MOST_SECONDS


def run_seconds(text: str) -> float:
    """Reads the length of a run. Raises ValueError."""
    try:
        seconds = float(Duration.parse(text))
    except ValueError as problem:
        raise ValueError(f"--time: {problem}") from None
    if not 0 < seconds <= MOST_SECONDS:
        raise ValueError(f"--time: expected more than 0 and at most a year, got {text!r}")
    return seconds

"""Plots of a result over time, as SVG in a sheet."""

from __future__ import annotations

from collections.abc import Sequence

from ..answers.terminal.axes import Axes
from ..answers.terminal.sheet import Markup, element
from .measure import Result

Lines = Sequence[tuple[str, Sequence[float | None]]]  # a value or None for each step


def plots(result: Result) -> list[Markup]:
    """Returns the throughput and the latencies of a result, where there is a time line."""
    drawn = []
    bound, decisions = result.bound, result.decisions
    if bound is not None and len(bound.counts) > 1:
        rates = [number / bound.step for number in bound.counts]
        lines: Lines = [("pods", rates)]
        drawn.append(_plot(f"{result.name}: pods bound", "pods/s", bound.step, lines))
    if decisions is not None and len(decisions.latencies) > 1:
        latencies = decisions.latencies
        lines = [
            ("99th percentile", [None if each is None else each.p99 for each in latencies]),
            ("median, dashed", [None if each is None else each.p50 for each in latencies]),
        ]
        drawn.append(_plot(f"{result.name}: time of a decision", "ms", decisions.step, lines))
    return drawn


def _plot(caption: str, unit: str, step: float, lines: Lines) -> Markup:
    """Returns a plot of one or two lines."""
    steps = max(len(values) for _, values in lines)
    most = max((value for _, values in lines for value in values if value is not None), default=0)
    axes = Axes(max(steps - 1, 1), most)
    parts = []
    for number, (_, values) in enumerate(lines):
        points = [
            (axes.x(at), axes.y(value)) for at, value in enumerate(values) if value is not None
        ]
        path = " ".join(f"{across},{down}" for across, down in points)
        if len(lines) == 1:
            base = axes.y(0)
            around = f"{points[0][0]},{base} {path} {points[-1][0]},{base}"
            parts.append(element("polygon", points=around, class_="area"))
        parts.append(element("polyline", points=path, class_="line second" if number else "line"))
    legend = f" ({' and '.join(name for name, _ in lines)})" if len(lines) > 1 else ""
    label = f"{caption}; at most {most:.4g} {unit}"
    ends = "0 s", f"{(steps - 1) * step:g} s"
    return axes.figure(caption + legend, label, unit, ends, parts)

"""Plots of a result over time, as SVG in a sheet."""

from __future__ import annotations

from collections.abc import Sequence

from ..sheet import Markup, element
from .measure import Result

WIDTH, HEIGHT = 640, 160
Lines = Sequence[tuple[str, Sequence[float | None]]]  # a value or None for each step
LEFT, RIGHT, TOP, BOTTOM = 88, 12, 8, 24  # margins


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
    top = nice(most)

    def x(at: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * at / max(steps - 1, 1), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top, 1)

    parts = []
    for share in (0.0, 0.5, 1.0):
        value = y(share * top)
        ends = {"x1": LEFT, "x2": WIDTH - RIGHT, "y1": value, "y2": value}
        parts.append(element("line", class_="axis", **ends))
        words = f"{share * top:g} {unit}"
        parts.append(element("text", words, x=LEFT - 4, y=value + 4, text_anchor="end"))
    for at, anchor in ((0, "start"), (steps - 1, "end")):
        parts.append(element("text", f"{at * step:g} s", x=x(at), y=HEIGHT - 6, text_anchor=anchor))
    for number, (_, values) in enumerate(lines):
        points = [(x(at), y(value)) for at, value in enumerate(values) if value is not None]
        path = " ".join(f"{across},{down}" for across, down in points)
        if len(lines) == 1:
            base = HEIGHT - BOTTOM
            around = f"{points[0][0]},{base} {path} {points[-1][0]},{base}"
            parts.append(element("polygon", points=around, class_="area"))
        parts.append(element("polyline", points=path, class_="line second" if number else "line"))
    label = f"{caption}; at most {most:.4g} {unit}"
    drawing = element(
        "svg",
        *parts,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=WIDTH,
        height=HEIGHT,
        role="img",
        aria_label=label,
    )
    legend = f" ({' and '.join(name for name, _ in lines)})" if len(lines) > 1 else ""
    return element("figure", element("figcaption", caption + legend), drawing)


def nice(value: float) -> float:
    """Returns the next round number above a value, 1 for none."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power > value:
        power /= 10
    while power * 10 <= value:
        power *= 10
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)

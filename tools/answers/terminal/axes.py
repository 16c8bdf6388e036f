"""The axes of a plot, as SVG in a sheet: from 0 to the right, and from 0 to a round number at the
top.
"""

from __future__ import annotations

from collections.abc import Sequence

from .sheet import Markup, element

WIDTH, HEIGHT = 640, 160
LEFT, RIGHT, TOP, BOTTOM = 88, 12, 8, 24  # margins


class Axes:
    """Two axes. `right` is the last value on the horizontal axis, `most` the largest on the
    vertical axis.
    """

    def __init__(self, right: float, most: float) -> None:
        self._right = right
        self._top = round_above(most)

    def x(self, at: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * at / self._right, 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self._top, 1)

    def figure(
        self, caption: str, label: str, unit: str, ends: tuple[str, str], parts: Sequence[str]
    ) -> Markup:
        """Returns the drawing of `parts`. `unit` labels the vertical axis, `ends` label the ends of
        the horizontal axis.
        """
        drawn: list[str] = []
        for share in (0.0, 0.5, 1.0):
            value = self.y(share * self._top)
            line = {"x1": LEFT, "x2": WIDTH - RIGHT, "y1": value, "y2": value}
            drawn.append(element("line", class_="axis", **line))
            words = f"{share * self._top:g} {unit}"
            drawn.append(element("text", words, x=LEFT - 4, y=value + 4, text_anchor="end"))
        first, last = ends
        for at, words, anchor in ((0.0, first, "start"), (self._right, last, "end")):
            drawn.append(element("text", words, x=self.x(at), y=HEIGHT - 6, text_anchor=anchor))
        drawing = element(
            "svg",
            *drawn,
            *parts,
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            width=WIDTH,
            height=HEIGHT,
            role="img",
            aria_label=label,
        )
        return element("figure", element("figcaption", caption), drawing)


def round_above(value: float) -> float:
    """Returns the next round number above a value, 1 for none."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power > value:
        power /= 10
    while power * 10 <= value:
        power *= 10
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)

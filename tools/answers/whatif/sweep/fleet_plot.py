"""Plots the fleets of a sweep by their cost and by the pods that stay pending."""

from __future__ import annotations

from ...terminal.axes import Axes
from ...terminal.sheet import Markup, element
from .cheapest_fleet import SweepAnswer


def plot(answer: SweepAnswer) -> Markup:
    """Returns a dot for each fleet, a ring for the cheapest that holds the workload."""
    choices = [choice for choice in answer.choices if choice.results]
    costs = [choice.cost for choice in choices]
    most = max(costs, default=0)
    axes = Axes(most or 1, max((choice.waiting for choice in choices), default=0))
    dots = []
    for choice in choices:
        words = f"{answer.named(choice)}: {answer.in_words(choice.cost)}, {choice.waiting} pending"
        dots.append(
            element(
                "circle",
                element("title", words),
                cx=axes.x(choice.cost),
                cy=axes.y(choice.waiting),
                r=3,
                class_="green" if choice.holds else "red",
                fill="currentColor",
            )
        )
    best = answer.cheapest
    if best is not None:
        ring = {"cx": axes.x(best.cost), "cy": axes.y(best.waiting), "r": 7}
        dots.append(element("circle", class_="line", **ring))
    caption = "pods that stay pending, by cost per hour"
    ends = "0", f"{answer.in_words(most)} per hour"
    return axes.figure(caption, f"{caption}: {answer.conclusion}", "pods", ends, dots)

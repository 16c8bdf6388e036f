"""Instruments for actors that a test runs alone, and what instruments have measured."""

from __future__ import annotations

from berth.actors.runtime.clock import Clock
from berth.actors.telemetry.instruments import Instruments
from berth.actors.telemetry.measures import Distribution, Histogram, Registry


def unread(clock: Clock) -> Instruments:
    """Instruments that nobody reads."""
    return Instruments(Registry(), clock.now)


class Reader:
    """Reads the families of a registry, whose names may lack their prefix `scheduler_`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def numbers(self, name: str) -> dict[tuple[str, ...], float]:
        """Returns the value, or the number of observations, by the values of the labels."""
        by_labels = {}
        for family in self._registry.families():
            if family.name in (name, f"scheduler_{name}"):
                for values, child in family.children():
                    counted = child.read().count if isinstance(child, Histogram) else child.value
                    by_labels[values] = counted
        return by_labels

    def distribution(self, name: str, *values: str) -> Distribution:
        for family in self._registry.families():
            if family.name in (name, f"scheduler_{name}"):
                child = dict(family.children())[values]
                assert isinstance(child, Histogram)
                return child.read()
        raise AssertionError(name)

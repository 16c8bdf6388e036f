"""Sums of amounts of resources, shown as Kubernetes shows them, and the sums of a pod."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from berth.actors.scheduling.kube.quantity import (
    binary_text,
    decimal_text,
    exponent_text,
    nano_value,
)

Document = dict[str, Any]
_ONE = 1_000_000_000
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+")


class Sum:
    """A sum of amounts, as an integer of nano units.

    It is shown in the form of the first amount that is not 0. `binary` is true if that amount has a
    suffix such as Mi.
    """

    __slots__ = ("binary", "nano")

    def __init__(self, nano: int, *, binary: bool = False) -> None:
        self.nano = nano
        self.binary = binary

    @classmethod
    def of(cls, amount: Any) -> Sum:
        return cls(nano_value(amount), binary=str(amount).endswith("i"))

    @classmethod
    def count(cls, number: int) -> Sum:
        return cls(number * _ONE)

    def plus(self, other: Sum) -> Sum:
        return Sum(self.nano + other.nano, binary=(self if self.nano else other).binary)

    def minus(self, other: Sum) -> Sum:
        return self.plus(Sum(-other.nano, binary=other.binary))

    def whole(self) -> Sum:
        """Returns the amount rounded up to a whole number."""
        return Sum(-(-self.nano // _ONE) * _ONE, binary=self.binary)

    def text(self) -> str:
        """Returns the amount as Kubernetes writes it."""
        if self.binary and self.nano % _ONE == 0 and self.nano >= 1024 * _ONE:
            return binary_text(self.nano // _ONE)
        return decimal_text(self.nano)


NOTHING, ONE = Sum.count(0), Sum.count(1)
Sums = Mapping[str, Sum]


def sums_of(amounts: Mapping[str, Any]) -> dict[str, Sum]:
    return {name: Sum.of(amount) for name, amount in amounts.items()}


def add(sums: dict[str, Sum], others: Sums) -> None:
    """Adds to each sum the other sum of the same name."""
    for name, other in others.items():
        sums[name] = sums[name].plus(other) if name in sums else other


def raise_to(sums: dict[str, Sum], others: Sums) -> None:
    """Raises each sum to the other sum of the same name, if the other is larger."""
    for name, other in others.items():
        if name not in sums or other.nano > sums[name].nano:
            sums[name] = other


def pod_sums(spec: Document, of_container: Callable[[Document], Sums]) -> dict[str, Sum]:
    """Returns the sums of the containers that run together; or, if larger, what an init container
    needs together with the earlier sidecars. `of_container` returns the amounts of a container.
    """
    total: dict[str, Sum] = {}
    sidecars: dict[str, Sum] = {}
    starts: dict[str, Sum] = {}
    for container in spec.get("containers") or ():
        add(total, of_container(container))
    for container in spec.get("initContainers") or ():
        amounts = of_container(container)
        start = dict(sidecars)
        add(start, amounts)
        raise_to(starts, start)
        if container.get("restartPolicy") == "Always":
            add(total, amounts)
            sidecars = start
    raise_to(total, starts)
    return total


def canonical_text(amount: Any) -> str:
    """Returns an amount as Kubernetes writes it: without a fraction, with the largest suffix."""
    if _EXPONENT.search(str(amount)):
        return exponent_text(nano_value(amount))
    return Sum.of(amount).text()

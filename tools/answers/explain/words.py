"""Texts, lists, selectors, topologies and amounts in the words of `berth explain`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from rich.markup import escape

from berth.actors.scheduling.kube.core import NodeSelector
from berth.actors.scheduling.kube.labels import Selector
from berth.actors.scheduling.kube.storage import TopologySelectorTerm
from berth.actors.scheduling.plugins.dynamic_resources.consumed_capacity import NANO
from berth.actors.telemetry.klog import printable

MOST_NAMES = 8
_SUFFIXES = ((1024, ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")), (1000, ("k", "M", "G", "T", "P", "E")))
_COMPARISONS = {"Gt": ">", "Lt": "<"}


class _Requirement(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> tuple[str, ...]: ...


def shown(*lines: str) -> str:
    """Returns lines for the console without markup, and with control characters escaped.

    So no text from the cluster can add a line or colour it.
    """
    return escape("\n".join(map(printable, lines)))


def listed(names: Sequence[str]) -> str:
    """Returns the first names and the number of the rest, such as "a, b and 3 more"."""
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def label_in(key: str, values: Iterable[str]) -> str:
    return f"{key} in ({listed(sorted(values))})"


def affinity_words(selector: NodeSelector) -> str:
    """Returns words for the nodes that a volume's node affinity allows, such as "on nodes with zone
    in (a)".
    """
    terms = [
        all_of([required(r) for r in term.match_expressions if r.key.strip("-")])
        for term in selector.node_selector_terms
        if term.match_expressions
    ]
    return f"on nodes with {' or '.join(terms[:MOST_NAMES])}" if terms else "on no node"


def label_words(selector: Selector) -> str:
    """Returns words for the nodes of a topology, such as "on nodes with zone in (a)"."""
    if selector.nothing:
        return "on no node"
    if not selector.requirements:
        return "on any node"
    return f"on nodes with {all_of([required(r) for r in selector.requirements])}"


def topology_words(topologies: Sequence[TopologySelectorTerm]) -> str:
    """Returns words for the nodes of a class's allowedTopologies, such as "on nodes with zone in
    (a)".
    """
    terms = [
        all_of([label_in(r.key, r.values) for r in term.match_label_expressions])
        for term in topologies
        if term.match_label_expressions
    ]
    return f"on nodes with {' or '.join(terms[:MOST_NAMES])}" if terms else "on no node"


def all_of(parts: Sequence[str]) -> str:
    return " and ".join(parts) or "any labels"


def required(requirement: _Requirement) -> str:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "In":
            return label_in(key, values)
        case "NotIn":
            return f"{key} not in ({listed(sorted(values))})"
        case "Exists":
            return f"the label {key}"
        case "DoesNotExist":
            return f"no label {key}"
        case "Gt" | "Lt" as operator:
            return f"{key} {_COMPARISONS[operator]} {', '.join(values)}"
        case other:
            return f"{key} {other} ({listed(sorted(values))}), which no node meets"


def amount(nano: int) -> str:
    """Returns an amount in billionths as a quantity, such as 10Gi."""
    whole, remainder = divmod(abs(nano), NANO)
    sign = "-" if nano < 0 else ""
    if remainder:
        return f"{sign}{abs(nano) // 10**6}m" if not remainder % 10**6 else f"{nano}n"
    for factor, suffixes in _SUFFIXES:
        power = 0
        while whole and whole % factor == 0 and power < len(suffixes):
            whole //= factor
            power += 1
        if power:
            return f"{sign}{whole}{suffixes[power - 1]}"
    return f"{sign}{whole}"


def counted_words(number: int, thing: str) -> str:
    """Returns a number of things, such as "1 device" or "2 devices"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"

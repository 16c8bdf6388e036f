"""Label selectors. Mirrors apimachinery's labels.Selector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from .meta import LabelSelector, own

_MATCH_LABELS = own(LabelSelector, "match_labels")
# The operators, and whether they take values.
OPERATORS = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
MAX_TRIED = 16  # up to this many requirements and values, each is tried


class SelectorError(ValueError):
    """A selector that cannot be read; the message names the part and what was expected."""


class Requirement(msgspec.Struct, frozen=True):
    """A requirement of a selector. Its `values` are sorted, so that equivalent requirements are
    equal.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """True if the labels meet the requirement. Labels without the key meet NotIn."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


class _Rules:
    """Requirements indexed by key, so that the time to match labels does not grow with their
    number.
    """

    __slots__ = ("_absent", "_excluded", "_included", "_required")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self._required: set[str] = set()
        self._absent: set[str] = set()
        self._included: dict[str, set[str]] = {}
        self._excluded: dict[str, set[str]] = {}
        for key, operator, values in map(msgspec.structs.astuple, requirements):
            match operator:
                case "In":
                    self._required.add(key)
                    included = self._included.setdefault(key, set(values))
                    included.intersection_update(values)
                case "NotIn":
                    self._excluded.setdefault(key, set()).update(values)
                case "Exists":
                    self._required.add(key)
                case _:
                    self._absent.add(key)

    def match(self, labels: Mapping[str, str]) -> bool:
        for key, value in labels.items():
            if key in self._absent or value in self._excluded.get(key, ()):
                return False
            included = self._included.get(key)
            if included is not None and value not in included:
                return False
        return all(key in labels for key in self._required)


class Selector(msgspec.Struct, frozen=True, dict=True):
    """A selector of labels that meet all requirements; without any, it selects everything.

    It selects nothing if `nothing` is set. Hashable.
    """

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        rules = self._rules
        if rules is None:
            return all(requirement.holds(labels) for requirement in self.requirements)
        return rules.match(labels)

    @cached_property
    def _rules(self) -> _Rules | None:
        size = sum(1 + len(requirement.values) for requirement in self.requirements)
        return _Rules(self.requirements) if size > MAX_TRIED else None


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def from_map(labels: Mapping[str, str]) -> Selector:
    """Returns the selector of all labels that include these."""
    return Selector(tuple(Requirement(key, "In", (labels[key],)) for key in sorted(labels)))


def from_label_selector(selector: LabelSelector | None) -> Selector:
    """Returns a selector of nothing for None, of everything if empty. Raises SelectorError."""
    if selector is None:
        return NOTHING
    labels = _MATCH_LABELS(selector)
    requirements = [*from_map(labels).requirements] if labels else []
    for number, expression in enumerate(selector.match_expressions):
        operator, values = expression.operator, expression.values
        # As in `is_readable`, without a call for each of what may be thousands of expressions.
        if operator not in OPERATORS or OPERATORS[operator] is (not values):
            raise SelectorError(_problem(f"matchExpressions[{number}]", operator))
        if len(values) > 1:
            values = tuple(sorted(set(values)))
        requirements.append(Requirement(expression.key, operator, values))
    return Selector(tuple(requirements))


def selector_or_nothing(selector: LabelSelector | None) -> Selector:
    """Returns the selector; one that cannot be read selects nothing."""
    return from_label_selector(selector if selector and is_readable(selector) else None)


def label_selector_matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """True if a selector selects these labels. An empty one selects all; None, and one that cannot
    be read, select nothing.
    """
    return selector_or_nothing(selector).matches(labels)


def is_readable(selector: LabelSelector) -> bool:
    """True if `from_label_selector` raises nothing."""
    return all(
        each.operator in OPERATORS and OPERATORS[each.operator] is not (not each.values)
        for each in selector.match_expressions
    )


def _problem(where: str, operator: str) -> str:
    if operator not in OPERATORS:
        return f"{where}.operator: expected one of {', '.join(OPERATORS)}, got {operator!r}"
    expected = "at least one value" if operator in ("In", "NotIn") else "no value"
    return f"{where}.values: expected {expected} for the operator {operator}"

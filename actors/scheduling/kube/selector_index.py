"""SelectorIndex: finds which of many selectors match some labels without trying every selector.

A selector that requires a label is found under that label. A selector that only excludes labels
matches unless it is found under a label that it excludes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .labels import Requirement, Selector, from_label_selector
from .meta import LabelSelector

MAX_SCANNED = 4  # up to this many selectors, each is tried
# A label as (key, value), or a key with any value.
Label = tuple[str, str] | str
# The part of some labels that selectors can distinguish.
Distinguished = tuple[tuple[str, str | None], ...]


class SelectorIndex:
    """An index of selectors by labels. `add_raw` adds a selector."""

    def __init__(self, selectors: Sequence[Selector] = ()) -> None:
        self._scanned = selectors if len(selectors) <= MAX_SCANNED else ()
        # By a label that they require: the selectors of a single requirement, and the others.
        self._requiring: dict[Label, list[int]] = {}
        self._requiring_more: dict[Label, list[tuple[int, Selector]]] = {}
        self._excluding: dict[Label, list[int]] = {}
        self._only_excluding: list[int] = []
        # The labels and the keys that requirements name. No selector can distinguish other labels.
        self._named: set[Label] = set()
        self._keys: set[str] = set()
        for number, selector in enumerate(selectors):
            if not self._scanned:
                self._add(number, selector)
            self._name(selector.requirements)

    def _add(self, number: int, selector: Selector) -> None:
        if selector.nothing:
            return
        if len(selector.requirements) == 1:
            (only,) = selector.requirements
            index = self._requiring
            if only.operator not in ("In", "Exists"):
                self._only_excluding.append(number)
                index = self._excluding
            for label in _labels(only):
                index.setdefault(label, []).append(number)
            return
        required = [r for r in selector.requirements if r.operator in ("In", "Exists")]
        if required:
            rarest = min(required, key=lambda r: (r.operator == "Exists", len(r.values)))
            for label in dict.fromkeys(_labels(rarest)):
                self._requiring_more.setdefault(label, []).append((number, selector))
            return
        self._only_excluding.append(number)
        for requirement in selector.requirements:
            for label in _labels(requirement):
                self._excluding.setdefault(label, []).append(number)

    def _name(self, requirements: Iterable[Requirement]) -> None:
        for requirement in requirements:
            self._keys.add(requirement.key)
            for value in requirement.values:
                self._named.add((requirement.key, value))

    def add_raw(self, number: int, selector: LabelSelector | None) -> None:
        """Adds a selector as the API has it; a selector of a single label takes little time and
        memory. Raises SelectorError.
        """
        if (
            selector is not None
            and len(selector.match_labels) == 1
            and not selector.match_expressions
        ):
            ((key, value),) = selector.match_labels.items()
            label = (key, value)
            numbers = self._requiring.get(label)
            if numbers is None:
                self._requiring[label] = [number]
                self._named.add(label)
                self._keys.add(key)
            else:
                numbers.append(number)
        else:
            read = from_label_selector(selector)
            self._add(number, read)
            self._name(read.requirements)

    def distinguished(self, labels: Mapping[str, str]) -> Distinguished:
        """Returns a value that is equal for labels that no selector can tell apart."""
        keys, named = self._keys, self._named
        return tuple(
            [
                (key, value if (key, value) in named else None)
                for key, value in labels.items()
                if key in keys
            ]
        )

    def selecting(self, labels: Mapping[str, str]) -> list[int]:
        """Returns the positions of the selectors that match these labels, each once."""
        if self._scanned:
            scanned = enumerate(self._scanned)
            return [number for number, selector in scanned if selector.matches(labels)]
        have: list[Label] = [*labels.items(), *labels]
        matches: list[int] = []
        for label in have:
            matches += self._requiring.get(label, ())
            matches += [
                number
                for number, selector in self._requiring_more.get(label, ())
                if selector.matches(labels)
            ]
        if self._only_excluding:
            out = {number for label in have for number in self._excluding.get(label, ())}
            matches += (
                [number for number in self._only_excluding if number not in out]
                if out
                else self._only_excluding
            )
        return matches


def _labels(requirement: Requirement) -> Sequence[Label]:
    """Returns the labels that meet In and Exists, or that fail NotIn and DoesNotExist."""
    if requirement.operator in ("In", "NotIn"):
        return [(requirement.key, value) for value in requirement.values]
    return [requirement.key]

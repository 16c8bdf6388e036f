"""SelectorIndex: finds which of many selectors match some labels without trying every selector.

A selector that requires a label is found under that label. A selector that only excludes labels
matches unless it is found under a label that it excludes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .labels import Requirement, Selector

MAX_SCANNED = 4  # up to this many selectors, each is tried
# A label as (key, value), or a key with any value.
Label = tuple[str, str] | str


class SelectorIndex:
    def __init__(self, selectors: Sequence[Selector]) -> None:
        self._selectors = selectors
        self._indexed = len(selectors) > MAX_SCANNED
        # By a label that they require: the selectors with a single requirement, and the others.
        self._requiring: dict[Label, list[int]] = {}
        self._requiring_more: dict[Label, list[int]] = {}
        self._excluding: dict[Label, list[int]] = {}
        self._only_excluding: list[int] = []
        for number, selector in enumerate(selectors if self._indexed else ()):
            self._add(number, selector)

    def _add(self, number: int, selector: Selector) -> None:
        if selector.nothing:
            return
        required = [r for r in selector.requirements if r.operator in ("In", "Exists")]
        if required:
            rarest = min(required, key=lambda r: (r.operator == "Exists", len(r.values)))
            index = self._requiring if len(selector.requirements) == 1 else self._requiring_more
            for label in dict.fromkeys(_labels(rarest)):
                index.setdefault(label, []).append(number)
            return
        self._only_excluding.append(number)
        for requirement in selector.requirements:
            for label in _labels(requirement):
                self._excluding.setdefault(label, []).append(number)

    def selecting(self, labels: Mapping[str, str]) -> list[int]:
        """Returns the positions of the selectors that match these labels, each once."""
        selectors = self._selectors
        if not self._indexed:
            return [number for number, selector in enumerate(selectors) if selector.matches(labels)]
        have: list[Label] = [*labels.items(), *labels]
        matches: list[int] = []
        for label in have:
            matches += self._requiring.get(label, ())
            matches += [
                number
                for number in self._requiring_more.get(label, ())
                if selectors[number].matches(labels)
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

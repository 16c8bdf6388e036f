"""SelectorIndex: which of many selectors select some labels, found by the labels and not by trying
every selector.

A selector that wants a label is looked up by that label. One that only rules labels out selects
everything but what it rules out, so those that are ruled out are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from berth.actors.scheduling.kube.labels import Requirement, Selector

FEW = 4  # so many are tried one after the other
# A label as key and value, or a key, whatever its value.
Label = tuple[str, str] | str


class SelectorIndex:
    def __init__(self, selectors: Sequence[Selector]) -> None:
        self._selectors = selectors
        self._indexed = len(selectors) > FEW
        self._wanting: dict[Label, list[int]] = {}  # with one requirement, which such a label meets
        self._wanting_more: dict[Label, list[int]] = {}
        self._ruling_out: dict[Label, list[int]] = {}
        self._open: list[int] = []  # those that want nothing
        for number, selector in enumerate(selectors if self._indexed else ()):
            self._add(number, selector)

    def _add(self, number: int, selector: Selector) -> None:
        if selector.nothing:
            return
        wants = [r for r in selector.requirements if r.operator in ("In", "Exists")]
        if wants:
            rarest = min(wants, key=lambda r: (r.operator == "Exists", len(r.values)))
            among = self._wanting if len(selector.requirements) == 1 else self._wanting_more
            for label in dict.fromkeys(_labels(rarest)):
                among.setdefault(label, []).append(number)
            return
        self._open.append(number)
        for requirement in selector.requirements:
            for label in _labels(requirement):
                self._ruling_out.setdefault(label, []).append(number)

    def selecting(self, labels: Mapping[str, str]) -> list[int]:
        """The places of the selectors that select these labels, each once."""
        selectors = self._selectors
        if not self._indexed:
            return [number for number, selector in enumerate(selectors) if selector.matches(labels)]
        have: list[Label] = [*labels.items(), *labels]
        found: list[int] = []
        for label in have:
            found += self._wanting.get(label, ())
            found += [
                number
                for number in self._wanting_more.get(label, ())
                if selectors[number].matches(labels)
            ]
        if self._open:
            out = {number for label in have for number in self._ruling_out.get(label, ())}
            found += [number for number in self._open if number not in out] if out else self._open
        return found


def _labels(requirement: Requirement) -> Sequence[Label]:
    """What meets a requirement that wants a label, or fails one that rules it out."""
    if requirement.operator in ("In", "NotIn"):
        return [(requirement.key, value) for value in requirement.values]
    return [requirement.key]

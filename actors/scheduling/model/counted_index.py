"""CountedIndex: finds the columns that may count the pods of a group, by the labels of the pods.

A thousand parked pods with affinity have a column each, and every pod that gets new labels makes a
new group. A column whose terms require a label is only tried for groups that have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from ..kube.selector_index import Label
from .affinity_terms import AffinityTerm

T = TypeVar("T")
MOST_PLACES = 64  # of one column; one that would have more is always tried
# A namespace, None for any, and a label that a group must have, None for any.
Place = tuple[str | None, Label | None]
ANYWHERE: Sequence[Place] = ((None, None),)


class CountedIndex(Generic[T]):
    """The keys of columns by the places at which they may count pods."""

    def __init__(self) -> None:
        self._at: dict[Place, dict[T, None]] = {}

    def add(self, counted: T, places: Iterable[Place]) -> None:
        for place in places:
            self._at.setdefault(place, {})[counted] = None

    def remove(self, counted: T, places: Iterable[Place]) -> None:
        for place in places:
            here = self._at[place]
            here.pop(counted, None)
            if not here:
                del self._at[place]

    def near(self, namespace: str, labels: Mapping[str, str]) -> Iterator[T]:
        """Yields the columns that may count pods with these labels, each once."""
        at = self._at
        have: list[Label | None] = [None, *labels.items(), *labels]
        found = [
            here
            for scope in (None, namespace)
            for label in have
            if (here := at.get((scope, label))) is not None
        ]
        if len(found) == 1:
            return iter(found[0])
        return iter({counted: None for here in found for counted in here})


def places_of(terms: Sequence[AffinityTerm], *, all_match: bool) -> Sequence[Place]:
    """Returns the places of a column that counts the pods that match any of some terms; with
    `all_match`, those that match all of them.
    """
    if all_match:
        each = [_places_of_term(term) for term in terms]
        return min(each, key=_cost, default=ANYWHERE)
    if len(terms) > MOST_PLACES:
        return ANYWHERE
    places = {place: None for term in terms for place in _places_of_term(term)}
    return [*places] if len(places) <= MOST_PLACES else ANYWHERE


def _cost(places: Sequence[Place]) -> tuple[bool, int]:
    """Returns a sort key that puts places that require a label first."""
    return any(label is None for _, label in places), len(places)


def _places_of_term(term: AffinityTerm) -> Sequence[Place]:
    if term.selector.nothing:
        return ()
    scopes = [*term.namespaces] if term.namespace_selector.nothing else [None]
    required: list[Sequence[Label | None]] = [
        [(each.key, value) for value in each.values] if each.operator == "In" else [each.key]
        for each in term.selector.requirements
        if each.operator in ("In", "Exists")
    ]
    labels = min(required, key=len, default=[None])
    if len(scopes) * len(labels) > MOST_PLACES:
        return ANYWHERE
    return [(scope, label) for scope in scopes for label in labels]

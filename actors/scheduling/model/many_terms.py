"""The affinity terms that a pod carries, and the part of them that counts once the pod is on a
node, or while it waits.

The terms of a pod with many of them are read only as far as it takes to find those that match
another pod: a pod may have ten thousand terms, and a hundred such pods may arrive at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from hashlib import blake2b

import msgspec

from ..kube.core import Pod, PodAffinity, PodAffinityTerm
from ..kube.labels import NOTHING, from_label_selector
from ..kube.selector_index import SelectorIndex
from .affinity_terms import (
    NO_WEIGHTED_TERMS,
    AffinityTerms,
    TermWeights,
    selected_namespaces,
    with_weight_one,
)
from .term_lookup import Part, Scope, TermLookup, TermNumbers

MANY = 64  # more terms than any real pod has
NO_AFFINITY = PodAffinity()
_ENCODER = msgspec.msgpack.Encoder(enc_hook=dict)
# A term as the API has it, and its weight.
Weighted = tuple[PodAffinityTerm, int]


class ManyTerms:
    """Many weighted terms, as an alternative to TermWeights. They are equal if they were written
    alike.
    """

    __slots__ = ("_hash", "_lookup", "_number", "_written")

    def __init__(self, written: bytes, number: int, lookup: TermLookup) -> None:
        """Makes the terms. `written` identifies them, and `number` is how many there are."""
        self._written = written
        self._hash = hash(written)
        self._number = number
        self._lookup = lookup

    @classmethod
    def of(cls, namespace: str, terms: Sequence[Weighted]) -> ManyTerms:
        """Returns the terms of a pod in this namespace. Raises SelectorError."""
        own = any(_is_own(term) for term, _ in terms)
        return cls(
            _digest((namespace if own else "", terms)), len(terms), _lookup(namespace, terms)
        )

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ManyTerms) and self._written == other._written

    def __len__(self) -> int:
        return self._number

    @property
    def topologies(self) -> Set[str]:
        return self._lookup.topologies.keys()

    def weigh(
        self,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
        label_keys: Set[str] | None = None,
    ) -> Mapping[str, int]:
        return self._lookup.weights_of(namespace, labels, namespace_labels, label_keys)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The topology keys and signs of the terms, each pair once."""
        return self._lookup.parts

    @property
    def select_namespaces(self) -> bool:
        """True if a term selects namespaces by their labels."""
        return any(scope.namespace_selector.requirements for scope in self._lookup.scopes)

    def with_namespaces(self, all_namespaces: Mapping[str, Mapping[str, str]]) -> ManyTerms:
        """Returns the terms with the names of the namespaces that their selectors match in place of
        these selectors.
        """
        scopes = self._lookup.scopes
        selected = selected_namespaces(
            (scope.namespace_selector for scope in scopes), all_namespaces
        )
        resolved = tuple(
            scope
            if (names := selected.get(scope.namespace_selector)) is None
            else Scope(scope.namespaces | names, NOTHING)
            for scope in scopes
        )
        written = _digest((self._written, [sorted(scope.namespaces) for scope in resolved]))
        return ManyTerms(written, self._number, self._lookup.with_scopes(resolved))

    def number_matching(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> int:
        return self._lookup.number_matching(namespace, labels, namespace_labels)

    def weight_of_part(
        self,
        part: Part,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
    ) -> int:
        return self._lookup.weight_of_part(part, namespace, labels, namespace_labels)

    def number_that_may_match(self, namespace: str, labels: Mapping[str, str]) -> int:
        return self._lookup.number_that_may_match(namespace, labels)


class CarriedTerms(msgspec.Struct, frozen=True, cache_hash=True):
    """The terms of a pod; required terms have the weight 1. `preferred` holds both affinity and
    anti-affinity.
    """

    required: TermWeights | ManyTerms
    required_anti: TermWeights | ManyTerms
    preferred: TermWeights | ManyTerms

    @property
    def are_many(self) -> bool:
        return any(
            isinstance(terms, ManyTerms)
            for terms in (self.required, self.required_anti, self.preferred)
        )


NO_CARRIED_TERMS = CarriedTerms(NO_WEIGHTED_TERMS, NO_WEIGHTED_TERMS, NO_WEIGHTED_TERMS)


def has_many_terms(pod: Pod) -> bool:
    near, away = _pod_affinities(pod)
    return (
        len(near.required_during_scheduling_ignored_during_execution)
        + len(near.preferred_during_scheduling_ignored_during_execution)
        + len(away.required_during_scheduling_ignored_during_execution)
        + len(away.preferred_during_scheduling_ignored_during_execution)
    ) > MANY


def many_terms_of(pod: Pod) -> CarriedTerms:
    """Returns the terms of a pod with many. Raises SelectorError."""
    near, away = _pod_affinities(pod)

    def required(affinity: PodAffinity) -> TermWeights | ManyTerms:
        terms = affinity.required_during_scheduling_ignored_during_execution
        return _merged_terms(pod, [(term, 1) for term in terms])

    preferred = [
        (weighted.pod_affinity_term, sign * weighted.weight)
        for affinity, sign in ((near, 1), (away, -1))
        for weighted in affinity.preferred_during_scheduling_ignored_during_execution
    ]
    return CarriedTerms(required(near), required(away), _merged_terms(pod, preferred))


def few_terms_of(terms: AffinityTerms) -> CarriedTerms:
    if not terms:
        return NO_CARRIED_TERMS
    return CarriedTerms(
        with_weight_one(terms.required),
        with_weight_one(terms.required_anti),
        TermWeights(terms.preferred) if terms.preferred else NO_WEIGHTED_TERMS,
    )


def _merged_terms(pod: Pod, terms: Sequence[Weighted]) -> TermWeights | ManyTerms:
    return ManyTerms.of(pod.metadata.namespace, terms) if terms else NO_WEIGHTED_TERMS


def _digest(document: object) -> bytes:
    return blake2b(_ENCODER.encode(document), digest_size=16).digest()


def _pod_affinities(pod: Pod) -> tuple[PodAffinity, PodAffinity]:
    """Returns the pod's affinity and anti-affinity to other pods."""
    affinity = pod.spec.affinity
    if affinity is None:
        return NO_AFFINITY, NO_AFFINITY
    return affinity.pod_affinity or NO_AFFINITY, affinity.pod_anti_affinity or NO_AFFINITY


def _is_own(term: PodAffinityTerm) -> bool:
    """True if a term is about the namespace of its pod."""
    return not term.namespaces and term.namespace_selector is None


def _lookup(namespace: str, terms: Sequence[Weighted]) -> TermLookup:
    index, own = SelectorIndex(), 0
    scopes: dict[Scope, int] = {Scope(frozenset((namespace,)), NOTHING): own}
    topologies: dict[str, int] = {}
    of_scopes, of_topologies = [], []
    for number, (term, _) in enumerate(terms):
        index.add_raw(number, term.label_selector)
        if _is_own(term):
            of_scopes.append(own)
        else:
            selector = from_label_selector(term.namespace_selector)
            scope = Scope(frozenset(term.namespaces), selector)
            of_scopes.append(scopes.setdefault(scope, len(scopes)))
        of_topologies.append(topologies.setdefault(term.topology_key, len(topologies)))
    weights = [weight for _, weight in terms]
    numbers = TermNumbers(range(len(terms)), of_scopes, of_topologies, weights)
    return TermLookup(index, tuple(scopes), topologies, numbers)

"""Pod affinity terms, resolved against the pod that carries them and matched by labels.

Mirrors the framework's AffinityTerm. Equal terms of different pods compare equal, so that the terms
of a thousand replicas are counted as one. However many terms a pod has, those that match another
pod are looked up by its labels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from ..kube.core import Pod, PodAffinity, PodAffinityTerm
from ..kube.labels import EVERYTHING, Selector, from_label_selector
from ..kube.selector_index import SelectorIndex
from .vectors import Bools, Ints

NO_LABELS: Mapping[str, str] = {}
NO_WEIGHTS: Mapping[str, int] = {}
MAX_KNOWN_SUMS = 1024
MAX_KNOWN_SCOPES = 1 << 14
# Of a term, and of all terms together: more than those of any real pod weigh, and small enough to
# be summed.
MAX_WEIGHT = (1 << 31) - 1


class AffinityTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """Selects pods by their labels.

    It selects in `namespaces`, and in the namespaces whose labels `namespace_selector` matches.
    """

    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    topology_key: str

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        in_scope = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return in_scope and self.selector.matches(labels)

    @property
    def scope(self) -> Scope:
        return Scope(self.namespaces, self.namespace_selector)


class Scope(msgspec.Struct, frozen=True):
    """The namespaces in which a term selects pods."""

    namespaces: frozenset[str]
    namespace_selector: Selector

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace in self.namespaces or self.namespace_selector.matches(labels)

    def may_cover(self, namespace: str) -> bool:
        """False only if it certainly does not cover the namespace, whose labels are unknown."""
        return not self.namespace_selector.nothing or namespace in self.namespaces


def with_namespaces(
    terms: Sequence[AffinityTerm], all_namespaces: Mapping[str, Mapping[str, str]]
) -> tuple[AffinityTerm, ...]:
    """Returns the terms, with the namespaces that their selectors match added by name.

    The selectors stay. They are later matched against empty namespace labels, as in kube-scheduler.
    """
    selected = {term.namespace_selector: set[str]() for term in terms}
    selectors = [
        selector for selector in selected if not selector.nothing and selector != EVERYTHING
    ]
    if not selectors:
        return tuple(terms)
    index = SelectorIndex(selectors)
    for name, labels in all_namespaces.items():
        for number in index.selecting(labels):
            selected[selectors[number]].add(name)
    return tuple(
        msgspec.structs.replace(
            term, namespaces=term.namespaces.union(selected[term.namespace_selector])
        )
        for term in terms
    )


class WeightedTerm(msgspec.Struct, frozen=True):
    """A preferred term; the weight is negative for anti-affinity."""

    term: AffinityTerm
    weight: int


# The scopes that cover pods, and the parts of their labels that terms can distinguish.
_Alike = tuple[frozenset[int], tuple[tuple[str, str | None], ...]]


class _TermLookup:
    """Finds the terms that match a pod together, whatever their scopes and topologies."""

    def __init__(self, terms: Sequence[WeightedTerm]) -> None:
        selectors: dict[Selector, int] = {}
        scopes: dict[Scope, int] = {}
        topologies: dict[str, int] = {}
        numbers = []
        for weighted in terms:
            term = weighted.term
            numbers.append(
                (
                    selectors.setdefault(term.selector, len(selectors)),
                    scopes.setdefault(term.scope, len(scopes)),
                    topologies.setdefault(term.topology_key, len(topologies)),
                    bounded_weight(weighted.weight),
                )
            )
        self._index = SelectorIndex(tuple(selectors))
        self._scopes = tuple(scopes)
        self._topologies = tuple(topologies)
        # By term: the numbers of its selector, scope and topology key, and its weight.
        columns = np.array(numbers, np.int64).reshape(-1, 4).T
        self._selector, self._scope, self._topology, self._weight = columns
        # By key: the values that a requirement names. No term can distinguish the others.
        self._values: dict[str, set[str]] = {}
        for selector in selectors:
            for requirement in selector.requirements:
                self._values.setdefault(requirement.key, set()).update(requirement.values)
        # By namespace: its labels, and the scopes that cover it.
        self._covering: dict[str, tuple[Mapping[str, str], frozenset[int]]] = {}
        self._kept_scopes = 0
        self._sums: dict[_Alike, Mapping[str, int]] = {}
        self._kept_sums = 0

    def weights_of(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Mapping[str, int]:
        """Returns the sums of the weights of the matching terms by topology key, bounded.

        They are computed once for pods that no term can distinguish.
        """
        covering = self._scopes_covering(namespace, namespace_labels)
        if not covering:
            return NO_WEIGHTS
        named = self._values
        alike = (
            covering,
            tuple(
                [
                    (key, value if value in named[key] else None)
                    for key, value in labels.items()
                    if key in named
                ]
            ),
        )
        sums = self._sums.get(alike)
        if sums is None:
            sums = self._summed(covering, labels)
            self._kept_sums += 1 + len(sums)
            if self._kept_sums > MAX_KNOWN_SUMS:
                self._sums.clear()
                self._kept_sums = 1 + len(sums)
            self._sums[alike] = sums
        return sums

    def may_match(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """False only if certainly no term matches; the namespace's labels are unknown."""
        matching = _among(self._index.selecting(labels), self._selector)
        scopes = set(self._scope[matching].tolist())
        return any(self._scopes[number].may_cover(namespace) for number in scopes)

    def _scopes_covering(
        self, namespace: str, namespace_labels: Mapping[str, str]
    ) -> frozenset[int]:
        known = self._covering.get(namespace)
        if known is None or known[0] is not namespace_labels:
            covering = frozenset(
                number
                for number, scope in enumerate(self._scopes)
                if scope.covers(namespace, namespace_labels)
            )
            self._kept_scopes += 1 + len(covering)
            if self._kept_scopes > MAX_KNOWN_SCOPES:
                self._covering.clear()
                self._kept_scopes = 1 + len(covering)
            known = self._covering[namespace] = (namespace_labels, covering)
        return known[1]

    def _summed(self, covering: frozenset[int], labels: Mapping[str, str]) -> Mapping[str, int]:
        matching = _among(self._index.selecting(labels), self._selector)
        matching &= _among(covering, self._scope)
        topologies = self._topology[matching]
        number = len(self._topologies)
        sums = np.bincount(topologies, self._weight[matching], number)
        present = np.bincount(topologies, minlength=number).nonzero()[0].tolist()
        weights = sums.clip(-MAX_WEIGHT, MAX_WEIGHT).astype(np.int64).tolist()
        return {self._topologies[i]: weights[i] for i in present}


def _among(numbers: Collection[int], column: Ints) -> Bools:
    """Returns where the column has one of the numbers."""
    marks = np.zeros(int(column.max(initial=-1)) + 1, bool)
    marks[list(numbers)] = True
    return marks[column]


class TermWeights(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """Weighted terms. The weight of a pod is the sum of the weights of the terms that match it."""

    terms: tuple[WeightedTerm, ...]

    def weigh(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Mapping[str, int]:
        """Returns the weight of a pod by topology key; only keys of matching terms are present."""
        if len(self.terms) == 1:
            term, weight = self.terms[0].term, self.terms[0].weight
            return (
                {term.topology_key: bounded_weight(weight)}
                if term.matches(namespace, labels, namespace_labels)
                else NO_WEIGHTS
            )
        return self._lookup.weights_of(namespace, labels, namespace_labels)

    def may_match(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """False only if certainly no term matches; the namespace's labels are unknown."""
        return self._lookup.may_match(namespace, labels)

    @cached_property
    def _lookup(self) -> _TermLookup:
        return _TermLookup(self.terms)


def bounded_weight(weight: int) -> int:
    """Returns the weight, limited to MAX_WEIGHT in both directions."""
    return max(-MAX_WEIGHT, min(weight, MAX_WEIGHT))


def with_weight_one(terms: Sequence[AffinityTerm]) -> TermWeights:
    """Gives each term the weight 1, so that the weight of a pod is the number of matching terms."""
    return TermWeights(tuple(WeightedTerm(term, 1) for term in terms))


class AffinityTerms(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """All affinity terms of a pod. `preferred` holds both affinity and anti-affinity."""

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()

    @cached_property
    def required_weights(self) -> TermWeights:
        return with_weight_one(self.required)

    @cached_property
    def required_anti_weights(self) -> TermWeights:
        return with_weight_one(self.required_anti)

    @cached_property
    def preferred_weights(self) -> TermWeights:
        return TermWeights(self.preferred)

    def __bool__(self) -> bool:
        return bool(self.required or self.required_anti or self.preferred)


NO_TERMS = AffinityTerms()


def terms_of(pod: Pod) -> AffinityTerms:
    """Returns a pod's terms. Raises SelectorError for a selector that cannot be read."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    required, soft = _terms(pod, affinity.pod_affinity, 1)
    required_anti, soft_anti = _terms(pod, affinity.pod_anti_affinity, -1)
    return AffinityTerms(required, required_anti, (*soft, *soft_anti))


def _terms(
    pod: Pod, affinity: PodAffinity | None, sign: int
) -> tuple[tuple[AffinityTerm, ...], tuple[WeightedTerm, ...]]:
    """Returns the required and the preferred terms, whose weights get the sign."""
    if affinity is None:
        return (), ()
    required = affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    return tuple(_term(pod, term) for term in required), tuple(
        WeightedTerm(_term(pod, weighted.pod_affinity_term), sign * weighted.weight)
        for weighted in preferred
    )


def _term(pod: Pod, term: PodAffinityTerm) -> AffinityTerm:
    """Resolves a term; without namespaces and namespaceSelector it is about the pod's namespace."""
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        from_label_selector(term.label_selector),
        frozenset((pod.metadata.namespace,)) if own else frozenset(term.namespaces),
        from_label_selector(term.namespace_selector),
        term.topology_key,
    )

"""Pod affinity terms, resolved against the pod that carries them and matched by labels.

Mirrors the framework's AffinityTerm. Equal terms of different pods compare equal, so that the terms
of a thousand replicas are counted as one. However many terms a pod has, those that match another
pod are looked up by its labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from ..kube.core import Pod, PodAffinity, PodAffinityTerm
from ..kube.labels import EVERYTHING, Selector, from_label_selector
from ..kube.selector_index import MAX_SCANNED, SelectorIndex

NO_LABELS: Mapping[str, str] = {}
MAX_KNOWN_SUMS = 1024
# Of all terms together: more than the terms of any real pod weigh, and small enough to be summed.
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


class _ScopedTerms:
    """The terms with one topology key and one scope."""

    __slots__ = ("_keys", "_known_sums", "_weights", "index", "scope", "topology_key")

    def __init__(self, topology_key: str, scope: Scope, weights: Mapping[Selector, int]) -> None:
        self.topology_key = topology_key
        self.scope = scope
        self.index = SelectorIndex(tuple(weights))
        self._weights = tuple(weights.values())
        self._keys = tuple({r.key: None for selector in weights for r in selector.requirements})
        self._known_sums: dict[tuple[str | None, ...], int | None] = {}

    def weight_of(self, labels: Mapping[str, str]) -> int | None:
        """Returns the sum of the weights of the terms that match, or None if no term matches.

        It is computed once for pods that no term can distinguish.
        """
        if len(self._keys) > MAX_SCANNED:
            return self._sum(labels)
        values = tuple([labels.get(key) for key in self._keys])
        if values not in self._known_sums:
            if len(self._known_sums) >= MAX_KNOWN_SUMS:
                self._known_sums.clear()
            self._known_sums[values] = self._sum(labels)
        return self._known_sums[values]

    def _sum(self, labels: Mapping[str, str]) -> int | None:
        matching, weights = self.index.selecting(labels), self._weights
        return sum([weights[number] for number in matching]) if matching else None


class TermWeights(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """Weighted terms. The weight of a pod is the sum of the weights of the terms that match it."""

    terms: tuple[WeightedTerm, ...]

    def weigh(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> dict[str, int]:
        """Returns the weight of a pod by topology key; only keys of matching terms are present."""
        if len(self.terms) == 1:
            term, weight = self.terms[0].term, self.terms[0].weight
            return (
                {term.topology_key: bounded_weight(weight)}
                if term.matches(namespace, labels, namespace_labels)
                else {}
            )
        sums: dict[str, int] = {}
        for part in self._parts:
            if part.scope.covers(namespace, namespace_labels):
                added = part.weight_of(labels)
                if added is not None:
                    sums[part.topology_key] = sums.get(part.topology_key, 0) + added
        return {topology_key: bounded_weight(weight) for topology_key, weight in sums.items()}

    def may_match(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """False only if certainly no term matches; the namespace's labels are unknown."""
        return any(
            part.scope.may_cover(namespace) and part.index.selecting(labels) for part in self._parts
        )

    @cached_property
    def _parts(self) -> tuple[_ScopedTerms, ...]:
        by_part: dict[tuple[str, Scope], dict[Selector, int]] = {}
        for weighted in self.terms:
            term = weighted.term
            weights = by_part.setdefault((term.topology_key, term.scope), {})
            weights[term.selector] = weights.get(term.selector, 0) + weighted.weight
        return tuple(
            _ScopedTerms(topology_key, scope, weights)
            for (topology_key, scope), weights in by_part.items()
        )


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

"""Pod affinity terms, resolved against the pod that carries them and matched by labels.

Mirrors the framework's AffinityTerm. Equal terms of different pods compare equal, so that the terms
of a thousand replicas are counted as one. However many terms a pod has, those that match another
pod are looked up by its labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    """The terms with one scope. They are looked up together, whatever their topologies."""

    __slots__ = ("_kept", "_keys", "_known_sums", "_weights", "index", "scope")

    def __init__(self, scope: Scope, weights: Mapping[Selector, Mapping[str, int]]) -> None:
        """`weights` maps each selector to the sums of its terms' weights by topology key."""
        self.scope = scope
        self.index = SelectorIndex(tuple(weights))
        self._weights = tuple([tuple(sums.items()) for sums in weights.values()])
        self._keys = tuple({r.key: None for selector in weights for r in selector.requirements})
        self._known_sums: dict[tuple[str | None, ...], Mapping[str, int]] = {}
        self._kept = 0  # the number of sums in _known_sums

    def weights_of(self, labels: Mapping[str, str]) -> Mapping[str, int]:
        """Returns the sums of the weights of the matching terms by topology key.

        They are computed once for pods that no term can distinguish.
        """
        if len(self._keys) > MAX_SCANNED:
            return self._sums(labels)
        values = tuple([labels.get(key) for key in self._keys])
        sums = self._known_sums.get(values)
        if sums is None:
            sums = self._sums(labels)
            self._kept += 1 + len(sums)
            if self._kept > MAX_KNOWN_SUMS:
                self._known_sums.clear()
                self._kept = 1 + len(sums)
            self._known_sums[values] = sums
        return sums

    def _sums(self, labels: Mapping[str, str]) -> Mapping[str, int]:
        sums: dict[str, int] = {}
        for number in self.index.selecting(labels):
            _add(sums, self._weights[number])
        return sums


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
                _add(sums, part.weights_of(labels).items())
        return {topology_key: bounded_weight(weight) for topology_key, weight in sums.items()}

    def may_match(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """False only if certainly no term matches; the namespace's labels are unknown."""
        return any(
            part.scope.may_cover(namespace) and part.index.selecting(labels) for part in self._parts
        )

    @cached_property
    def _parts(self) -> tuple[_ScopedTerms, ...]:
        by_scope: dict[Scope, dict[Selector, dict[str, int]]] = {}
        for weighted in self.terms:
            term = weighted.term
            sums = by_scope.setdefault(term.scope, {}).setdefault(term.selector, {})
            _add(sums, ((term.topology_key, weighted.weight),))
        return tuple([_ScopedTerms(scope, weights) for scope, weights in by_scope.items()])


def _add(sums: dict[str, int], weights: Iterable[tuple[str, int]]) -> None:
    for topology_key, weight in weights:
        sums[topology_key] = sums.get(topology_key, 0) + weight


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

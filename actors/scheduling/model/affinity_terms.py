"""Pod affinity terms as scheduling reads them: resolved against the pod that carries them, matched
by labels.

Mirrors the framework's AffinityTerm. Equal terms of different pods are equal here, so that what a
thousand replicas ask for is counted as one. However many terms a pod has, those that match another
are looked up by its labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
from berth.actors.scheduling.kube.core import Pod, PodAffinityTerm
from berth.actors.scheduling.kube.labels import EVERYTHING, Selector, from_label_selector
from berth.actors.scheduling.kube.selector_index import FEW, SelectorIndex

NO_LABELS: Mapping[str, str] = {}
MOST_KNOWN = 1024
MOST_WEIGHT = (
    1 << 31
) - 1  # of all terms together: more than a pod of any size can say, and little enough to be summed


class AffinityTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """Selects pods by labels, in `namespaces` or in those whose labels `namespace_selector`
    selects.
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
    """In which namespaces a term looks."""

    namespaces: frozenset[str]
    namespace_selector: Selector

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace in self.namespaces or self.namespace_selector.matches(labels)

    def may_cover(self, namespace: str) -> bool:
        """False only if it surely does not, where the namespace's labels are not known."""
        return not self.namespace_selector.nothing or namespace in self.namespaces


def with_namespaces(
    terms: Sequence[AffinityTerm], all_namespaces: Mapping[str, Mapping[str, str]]
) -> tuple[AffinityTerm, ...]:
    """The terms with the namespaces that their selectors select added by name.

    The selectors stay, and are later asked about pods without their namespace's labels, as
    kube-scheduler does.
    """
    asked = {term.namespace_selector: set[str]() for term in terms}
    selectors = [selector for selector in asked if not selector.nothing and selector != EVERYTHING]
    if not selectors:
        return tuple(terms)
    index = SelectorIndex(selectors)
    for name, labels in all_namespaces.items():
        for number in index.selecting(labels):
            asked[selectors[number]].add(name)
    return tuple(
        msgspec.structs.replace(
            term, namespaces=term.namespaces.union(asked[term.namespace_selector])
        )
        for term in terms
    )


class WeightedTerm(msgspec.Struct, frozen=True):
    """A preferred term; the weight is negative for anti-affinity."""

    term: AffinityTerm
    weight: int


class _Part:
    """The terms of one topology and scope."""

    __slots__ = ("_keys", "_known", "_weights", "index", "scope", "topology_key")

    def __init__(self, topology_key: str, scope: Scope, weighed: Mapping[Selector, int]) -> None:
        self.topology_key = topology_key
        self.scope = scope
        self.index = SelectorIndex(tuple(weighed))
        self._weights = tuple(weighed.values())
        self._keys = tuple({r.key: None for selector in weighed for r in selector.requirements})
        self._known: dict[tuple[str | None, ...], int | None] = {}

    def weight_of(self, labels: Mapping[str, str]) -> int | None:
        """What the terms that match weigh together, None if none does; once for pods that no term
        tells apart.
        """
        if len(self._keys) > FEW:
            return self._sum(labels)
        asked = tuple([labels.get(key) for key in self._keys])
        if asked not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[asked] = self._sum(labels)
        return self._known[asked]

    def _sum(self, labels: Mapping[str, str]) -> int | None:
        found, weights = self.index.selecting(labels), self._weights
        return sum([weights[number] for number in found]) if found else None


class TermWeights(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """Terms with what each weighs: a pod weighs as much as the terms together that match it."""

    terms: tuple[WeightedTerm, ...]

    def weigh(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> dict[str, int]:
        """What a pod weighs, by topology key, for the topologies of the terms that match it."""
        if len(self.terms) == 1:
            term, weight = self.terms[0].term, self.terms[0].weight
            return (
                {term.topology_key: _bounded(weight)}
                if term.matches(namespace, labels, namespace_labels)
                else {}
            )
        sums: dict[str, int] = {}
        for part in self._parts:
            if part.scope.covers(namespace, namespace_labels):
                found = part.weight_of(labels)
                if found is not None:
                    sums[part.topology_key] = sums.get(part.topology_key, 0) + found
        return {topology_key: _bounded(weight) for topology_key, weight in sums.items()}

    def may_match(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """False only if surely no term matches, where the labels of the pod's namespace are not
        known.
        """
        return any(
            part.scope.may_cover(namespace) and part.index.selecting(labels) for part in self._parts
        )

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        by_part: dict[tuple[str, Scope], dict[Selector, int]] = {}
        for weighted in self.terms:
            term = weighted.term
            weighed = by_part.setdefault((term.topology_key, term.scope), {})
            weighed[term.selector] = weighed.get(term.selector, 0) + weighted.weight
        return tuple(
            _Part(topology_key, scope, weighed)
            for (topology_key, scope), weighed in by_part.items()
        )


def _bounded(weight: int) -> int:
    return max(-MOST_WEIGHT, min(weight, MOST_WEIGHT))


def as_one_each(terms: Sequence[AffinityTerm]) -> TermWeights:
    """A pod weighs as many as match it."""
    return TermWeights(tuple(WeightedTerm(term, 1) for term in terms))


class AffinityTerms(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """All that a pod asks of other pods. `preferred` holds affinity and anti-affinity."""

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()

    @cached_property
    def required_weights(self) -> TermWeights:
        return as_one_each(self.required)

    @cached_property
    def required_anti_weights(self) -> TermWeights:
        return as_one_each(self.required_anti)

    @cached_property
    def preferred_weights(self) -> TermWeights:
        return TermWeights(self.preferred)

    def __bool__(self) -> bool:
        return bool(self.required or self.required_anti or self.preferred)


NO_TERMS = AffinityTerms()


def terms_of(pod: Pod) -> AffinityTerms:
    """Raises SelectorError for a selector that cannot be read."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: list[WeightedTerm] = []
    if affinity.pod_affinity is not None:
        own = affinity.pod_affinity
        required = tuple(
            _term(pod, t) for t in own.required_during_scheduling_ignored_during_execution
        )
        soft = own.preferred_during_scheduling_ignored_during_execution
        preferred += [WeightedTerm(_term(pod, w.pod_affinity_term), w.weight) for w in soft]
    if affinity.pod_anti_affinity is not None:
        anti = affinity.pod_anti_affinity
        required_anti = tuple(
            _term(pod, t) for t in anti.required_during_scheduling_ignored_during_execution
        )
        soft = anti.preferred_during_scheduling_ignored_during_execution
        preferred += [WeightedTerm(_term(pod, w.pod_affinity_term), -w.weight) for w in soft]
    return AffinityTerms(required, required_anti, tuple(preferred))


def _term(pod: Pod, term: PodAffinityTerm) -> AffinityTerm:
    """Without namespaces and namespaceSelector, the pod's own namespace is meant."""
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        from_label_selector(term.label_selector),
        frozenset((pod.metadata.namespace,)) if own else frozenset(term.namespaces),
        from_label_selector(term.namespace_selector),
        term.topology_key,
    )

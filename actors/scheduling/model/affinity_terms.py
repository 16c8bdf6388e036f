"""Pod affinity terms, resolved against the pod that carries them and matched by labels.

Mirrors the framework's AffinityTerm. Equal terms of different pods compare equal, so that the terms
of a thousand replicas are counted as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec

from ..kube.core import Pod, PodAffinity, PodAffinityTerm
from ..kube.labels import EVERYTHING, NOTHING, Selector, from_label_selector
from ..kube.selector_index import SelectorIndex
from .derived import derived_once
from .term_lookup import NO_WEIGHTS, Scope, TermLookup, TermNumbers, bounded_weight

NO_LABELS: Mapping[str, str] = {}


class AffinityTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A selector of pods by their labels.

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


def with_namespaces(
    terms: Sequence[AffinityTerm], all_namespaces: Mapping[str, Mapping[str, str]]
) -> tuple[AffinityTerm, ...]:
    """Returns the terms with namespaces by name, in place of the selectors that match these
    namespaces.
    """
    selected = selected_namespaces((term.namespace_selector for term in terms), all_namespaces)
    if not selected:
        return tuple(terms)
    return tuple(
        term
        if (names := selected.get(term.namespace_selector)) is None
        else msgspec.structs.replace(
            term, namespaces=term.namespaces | names, namespace_selector=NOTHING
        )
        for term in terms
    )


def selected_namespaces(
    selectors: Iterable[Selector], all_namespaces: Mapping[str, Mapping[str, str]]
) -> Mapping[Selector, set[str]]:
    """Returns the namespaces that these selectors match. Selectors of all or no namespaces are left
    out.
    """
    selected = {
        selector: set[str]()
        for selector in selectors
        if not selector.nothing and selector != EVERYTHING
    }
    several = tuple(selected)
    index = SelectorIndex(several)
    for name, labels in all_namespaces.items() if several else ():
        for number in index.selecting(labels):
            selected[several[number]].add(name)
    return selected


class WeightedTerm(msgspec.Struct, frozen=True):
    """A preferred term; the weight is negative for anti-affinity."""

    term: AffinityTerm
    weight: int


class TermWeights(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """Weighted terms. The weight of a pod is the sum of the weights of the terms that match it."""

    terms: tuple[WeightedTerm, ...]

    def __len__(self) -> int:
        return len(self.terms)

    @property
    def topologies(self) -> Set[str]:
        return {weighted.term.topology_key for weighted in self.terms}

    def weigh(
        self,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
        label_keys: Set[str] | None = None,
    ) -> Mapping[str, int]:
        """Returns the weight of a pod by topology key, for the keys of matching terms.

        If there are many terms, topology keys that are not in `label_keys` may be left out.
        """
        if len(self.terms) == 1:
            term, weight = self.terms[0].term, self.terms[0].weight
            return (
                {term.topology_key: bounded_weight(weight)}
                if term.matches(namespace, labels, namespace_labels)
                else NO_WEIGHTS
            )
        return self._lookup.weights_of(namespace, labels, namespace_labels, label_keys)

    def number_that_may_match(self, namespace: str, labels: Mapping[str, str]) -> int:
        """Returns how many terms may match a pod, if the labels of its namespace are unknown."""
        if len(self.terms) == 1:
            term = self.terms[0].term
            return int(term.scope.may_cover(namespace) and term.selector.matches(labels))
        return self._lookup.number_that_may_match(namespace, labels)

    @derived_once
    def _lookup(self) -> TermLookup:
        selectors: dict[Selector, int] = {}
        scopes: dict[Scope, int] = {}
        topologies: dict[str, int] = {}
        numbers: list[tuple[int, int, int, int]] = []
        for weighted in self.terms:
            term = weighted.term
            numbers.append(
                (
                    selectors.setdefault(term.selector, len(selectors)),
                    scopes.setdefault(term.scope, len(scopes)),
                    topologies.setdefault(term.topology_key, len(topologies)),
                    bounded_weight(weighted.weight),
                )
            )
        columns = list(zip(*numbers, strict=True)) or [(), (), (), ()]
        index = SelectorIndex(tuple(selectors))
        return TermLookup(index, tuple(scopes), topologies, TermNumbers(*columns))


NO_WEIGHTED_TERMS = TermWeights(())


def with_weight_one(terms: Sequence[AffinityTerm]) -> TermWeights:
    """Returns the terms with the weight 1 each, so that a pod's weight is the number of terms that
    match it.
    """
    if not terms:
        return NO_WEIGHTED_TERMS
    return TermWeights(tuple([WeightedTerm(term, 1) for term in terms]))


class AffinityTerms(msgspec.Struct, frozen=True, cache_hash=True):
    """All affinity terms of a pod. `preferred` holds both affinity and anti-affinity."""

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()

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
    weighted_terms = [
        WeightedTerm(_term(pod, weighted.pod_affinity_term), sign * weighted.weight)
        for weighted in preferred
    ]
    return tuple([_term(pod, term) for term in required]), tuple(weighted_terms)


def _term(pod: Pod, term: PodAffinityTerm) -> AffinityTerm:
    """Resolves a term; without namespaces and namespaceSelector it is about the pod's namespace."""
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        from_label_selector(term.label_selector),
        frozenset((pod.metadata.namespace,)) if own else frozenset(term.namespaces),
        from_label_selector(term.namespace_selector),
        term.topology_key,
    )

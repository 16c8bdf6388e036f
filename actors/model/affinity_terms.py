"""Pod affinity terms as scheduling reads them: resolved against the pod that carries them, matched by labels.

Mirrors the framework's AffinityTerm. Equal terms of different pods are equal here, so that what a thousand replicas
ask for is counted as one term.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actors.kube.core import Pod, PodAffinityTerm
from actors.kube.labels import EVERYTHING, Selector, from_label_selector

NO_LABELS: Mapping[str, str] = {}


class AffinityTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """Selects pods by labels, in `namespaces` or in those whose labels `namespace_selector` selects."""

    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        in_scope = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return in_scope and self.selector.matches(labels)

    def with_namespaces(self, all_namespaces: Mapping[str, Mapping[str, str]]) -> AffinityTerm:
        """The term with the namespaces that its selector selects added by name.

        The selector stays, and is later asked about pods without their namespace's labels, as kube-scheduler does.
        """
        if self.namespace_selector.nothing or self.namespace_selector == EVERYTHING:
            return self
        found = (name for name, labels in all_namespaces.items() if self.namespace_selector.matches(labels))
        return msgspec.structs.replace(self, namespaces=self.namespaces.union(found))


class WeightedTerm(msgspec.Struct, frozen=True):
    """A preferred term; the weight is negative for anti-affinity."""

    term: AffinityTerm
    weight: int


class AffinityTerms(msgspec.Struct, frozen=True):
    """All that a pod asks of other pods. `preferred` holds affinity and anti-affinity."""

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()

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
        required = tuple(_term(pod, t) for t in own.required_during_scheduling_ignored_during_execution)
        soft = own.preferred_during_scheduling_ignored_during_execution
        preferred += [WeightedTerm(_term(pod, w.pod_affinity_term), w.weight) for w in soft]
    if affinity.pod_anti_affinity is not None:
        anti = affinity.pod_anti_affinity
        required_anti = tuple(_term(pod, t) for t in anti.required_during_scheduling_ignored_during_execution)
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

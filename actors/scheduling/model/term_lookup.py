"""TermLookup: finds which of many affinity terms match a pod, by the pod's labels.

However many terms there are, the answer for a pod takes little time. It is computed once for pods
that no term can distinguish.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set

import msgspec
import numpy as np

from ..kube.labels import Selector
from ..kube.selector_index import Distinguished, SelectorIndex
from .vectors import Bools, Ints

NO_WEIGHTS: Mapping[str, int] = {}
MAX_KNOWN_SUMS = 1024
MAX_KNOWN_SCOPES = 1 << 14
# Of a term, and of all terms together: more than those of any real pod weigh, and small enough to
# be summed.
MAX_WEIGHT = (1 << 31) - 1


class Scope(msgspec.Struct, frozen=True):
    """The namespaces in which a term selects pods."""

    namespaces: frozenset[str]
    namespace_selector: Selector

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace in self.namespaces or self.namespace_selector.matches(labels)

    def may_cover(self, namespace: str) -> bool:
        """True unless the scope certainly excludes the namespace, whose labels are unknown."""
        return not self.namespace_selector.nothing or namespace in self.namespaces


class TermNumbers:
    """For each term: the numbers of its selector, scope and topology key, and its weight."""

    __slots__ = ("scopes", "selectors", "topologies", "weights")

    def __init__(
        self,
        selectors: Sequence[int],
        scopes: Sequence[int],
        topologies: Sequence[int],
        weights: Sequence[int],
    ) -> None:
        self.selectors: Ints = np.array(selectors, np.int64)
        self.scopes: Ints = np.array(scopes, np.int64)
        self.topologies: Ints = np.array(topologies, np.int64)
        self.weights: Ints = np.array(weights, np.int64)


# A topology key, and True for the terms with a negative weight.
Part = tuple[str, bool]


class TermLookup:
    """A lookup of the terms that match a pod.

    `topologies` numbers the topology keys of the terms, and `scopes` are their scopes, each once.
    """

    def __init__(
        self,
        index: SelectorIndex,
        scopes: Sequence[Scope],
        topologies: Mapping[str, int],
        terms: TermNumbers,
    ) -> None:
        self.topologies = topologies
        self.scopes = scopes
        self._index = index
        self._names = tuple(topologies)
        self._terms = terms
        # By namespace: its labels, and the scopes that cover it.
        self._covering: dict[str, tuple[Mapping[str, str], frozenset[int]]] = {}
        self._kept_scopes = 0
        # By the scopes that cover pods, and the parts of their labels that count.
        self._sums: dict[tuple[frozenset[int], Distinguished], Mapping[str, int]] = {}
        self._kept_sums = 0
        self._numbers_that_may_match: dict[tuple[str, Distinguished], int] = {}
        # As in _sums: the number of matching terms (None), and the weight of a part.
        self._parts: dict[tuple[frozenset[int], Distinguished, Part | None], int] = {}
        # The label keys of the latest question, and by topology whether it is one of them.
        self._label_keys: Set[str] | None = None
        self._on_nodes: Bools = np.ones(len(topologies), np.bool_)
        self._nowhere = False

    def weights_of(
        self,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
        label_keys: Set[str] | None = None,
    ) -> Mapping[str, int]:
        """Returns the sums of the weights of the matching terms by topology key, bounded. Only keys
        in `label_keys` are present, unless that is None.
        """
        if label_keys is not self._label_keys:
            self._use(label_keys)
        if self._nowhere:
            return NO_WEIGHTS
        covering = self._scopes_covering(namespace, namespace_labels)
        if not covering:
            return NO_WEIGHTS
        alike = (covering, self._index.distinguished(labels))
        sums = self._sums.get(alike)
        if sums is None:
            sums = self._summed(covering, labels)
            self._kept_sums += 1 + len(sums)
            if self._kept_sums > MAX_KNOWN_SUMS:
                self._sums.clear()
                self._kept_sums = 1 + len(sums)
            self._sums[alike] = sums
        return sums

    def with_scopes(self, scopes: Sequence[Scope]) -> TermLookup:
        """Returns a lookup of the same terms with other scopes, in the same order."""
        return TermLookup(self._index, scopes, self.topologies, self._terms)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The topology keys and signs of the terms, each pair once."""
        pairs = dict.fromkeys(
            zip(self._terms.topologies.tolist(), (self._terms.weights < 0).tolist(), strict=True)
        )
        return tuple((self._names[number], negative) for number, negative in pairs)

    def number_matching(
        self,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
    ) -> int:
        """Returns how many terms match a pod."""
        return self._of_part(None, namespace, labels, namespace_labels)

    def weight_of_part(
        self,
        part: Part,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
    ) -> int:
        """Returns the sum of the weights of the matching terms of a part, bounded."""
        return self._of_part(part, namespace, labels, namespace_labels)

    def _of_part(
        self,
        part: Part | None,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
    ) -> int:
        covering = self._scopes_covering(namespace, namespace_labels)
        if not covering:
            return 0
        alike = (covering, self._index.distinguished(labels), part)
        number = self._parts.get(alike)
        if number is None:
            matching = self._matching(covering, labels)
            if part is None:
                number = int(np.count_nonzero(matching))
            else:
                weights = self._terms.weights
                matching &= self._terms.topologies == self.topologies[part[0]]
                matching &= (weights < 0) == part[1]
                number = bounded_weight(int(weights[matching].sum()))
            if len(self._parts) >= MAX_KNOWN_SUMS:
                self._parts.clear()
            self._parts[alike] = number
        return number

    def number_that_may_match(self, namespace: str, labels: Mapping[str, str]) -> int:
        """Returns how many terms may match a pod, if the labels of its namespace are unknown."""
        alike = (namespace, self._index.distinguished(labels))
        number = self._numbers_that_may_match.get(alike)
        if number is None:
            scopes = [n for n, scope in enumerate(self.scopes) if scope.may_cover(namespace)]
            number = int(np.count_nonzero(self._matching(scopes, labels)))
            if len(self._numbers_that_may_match) >= MAX_KNOWN_SUMS:
                self._numbers_that_may_match.clear()
            self._numbers_that_may_match[alike] = number
        return number

    def _use(self, label_keys: Set[str] | None) -> None:
        self._label_keys = label_keys
        count = len(self._names)
        self._on_nodes = (
            np.ones(count, np.bool_)
            if label_keys is None
            else np.fromiter((name in label_keys for name in self._names), np.bool_, count)
        )
        self._nowhere = not self._on_nodes.any()
        self._sums.clear()
        self._kept_sums = 0

    def _scopes_covering(
        self, namespace: str, namespace_labels: Mapping[str, str]
    ) -> frozenset[int]:
        kept = self._covering.get(namespace)
        if kept is None or kept[0] != namespace_labels:
            covering = frozenset(
                number
                for number, scope in enumerate(self.scopes)
                if scope.covers(namespace, namespace_labels)
            )
            self._kept_scopes += 1 + len(covering)
            if self._kept_scopes > MAX_KNOWN_SCOPES:
                self._covering.clear()
                self._kept_scopes = 1 + len(covering)
            kept = self._covering[namespace] = (namespace_labels, covering)
        return kept[1]

    def _summed(self, covering: frozenset[int], labels: Mapping[str, str]) -> Mapping[str, int]:
        matching = self._matching(covering, labels)
        if not matching.any():
            return NO_WEIGHTS
        matching &= self._on_nodes[self._terms.topologies]
        topologies = self._terms.topologies[matching]
        number = len(self._names)
        sums = np.bincount(topologies, self._terms.weights[matching], number)
        present = np.bincount(topologies, minlength=number).nonzero()[0].tolist()
        weights = sums.clip(-MAX_WEIGHT, MAX_WEIGHT).astype(np.int64).tolist()
        return {self._names[i]: weights[i] for i in present}

    def _matching(self, scopes: Collection[int], labels: Mapping[str, str]) -> Bools:
        """Returns, by term, whether it selects these labels and has one of the scopes."""
        matching = _mask_of_numbers(self._index.selecting(labels), self._terms.selectors)
        matching &= _mask_of_numbers(scopes, self._terms.scopes)
        return matching


def bounded_weight(weight: int) -> int:
    """Returns the weight, limited to MAX_WEIGHT in both directions."""
    return max(-MAX_WEIGHT, min(weight, MAX_WEIGHT))


def _mask_of_numbers(numbers: Collection[int], column: Ints) -> Bools:
    """Returns a mask of the elements of the column that are among the numbers."""
    marks = np.zeros(int(column.max(initial=-1)) + 1, bool)
    marks[list(numbers)] = True
    return marks[column]

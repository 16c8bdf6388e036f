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
        """False only if it certainly does not cover the namespace, whose labels are unknown."""
        return not self.namespace_selector.nothing or namespace in self.namespaces


class TermNumbers(msgspec.Struct, frozen=True):
    """By term: the numbers of its selector, scope and topology key, and its weight."""

    selectors: list[int]
    scopes: list[int]
    topologies: list[int]
    weights: list[int]


class TermLookup:
    """`topologies` are the topology keys of the terms, each once."""

    def __init__(
        self,
        index: SelectorIndex,
        scopes: Sequence[Scope],
        topologies: Mapping[str, int],
        terms: TermNumbers,
    ) -> None:
        self.topologies = topologies
        self._index = index
        self._scopes = scopes
        self._names = tuple(topologies)
        self._selector = np.array(terms.selectors, np.int64)
        self._scope = np.array(terms.scopes, np.int64)
        self._topology = np.array(terms.topologies, np.int64)
        self._weight = np.array(terms.weights, np.int64)
        # By namespace: its labels, and the scopes that cover it.
        self._covering: dict[str, tuple[Mapping[str, str], frozenset[int]]] = {}
        self._kept_scopes = 0
        # By the scopes that cover pods, and the parts of their labels that count.
        self._sums: dict[tuple[frozenset[int], Distinguished], Mapping[str, int]] = {}
        self._kept_sums = 0
        self._numbers_that_may_match: dict[tuple[str, Distinguished], int] = {}
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
        """Returns the sums of the weights of the matching terms by topology key, bounded; only of
        the keys in `label_keys`, unless that is None.
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

    def number_that_may_match(self, namespace: str, labels: Mapping[str, str]) -> int:
        """Returns how many terms may match a pod; the labels of its namespace are unknown."""
        alike = (namespace, self._index.distinguished(labels))
        number = self._numbers_that_may_match.get(alike)
        if number is None:
            matching = _among(self._index.selecting(labels), self._selector)
            scopes = [n for n, scope in enumerate(self._scopes) if scope.may_cover(namespace)]
            number = int(np.count_nonzero(matching & _among(scopes, self._scope)))
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
        selecting = self._index.selecting(labels)
        if not selecting:
            return NO_WEIGHTS
        matching = _among(selecting, self._selector)
        matching &= _among(covering, self._scope)
        matching &= self._on_nodes[self._topology]
        topologies = self._topology[matching]
        number = len(self._names)
        sums = np.bincount(topologies, self._weight[matching], number)
        present = np.bincount(topologies, minlength=number).nonzero()[0].tolist()
        weights = sums.clip(-MAX_WEIGHT, MAX_WEIGHT).astype(np.int64).tolist()
        return {self._names[i]: weights[i] for i in present}


def bounded_weight(weight: int) -> int:
    """Returns the weight, limited to MAX_WEIGHT in both directions."""
    return max(-MAX_WEIGHT, min(weight, MAX_WEIGHT))


def _among(numbers: Collection[int], column: Ints) -> Bools:
    """Returns where the column has one of the numbers."""
    marks = np.zeros(int(column.max(initial=-1)) + 1, bool)
    marks[list(numbers)] = True
    return marks[column]

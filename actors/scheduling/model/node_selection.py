"""Matches node selectors and node affinity terms against all nodes of a view at once.

The terms of a pod are read once for all pods of its template. A term with one requirement is
decided for each value of the label, and each node takes the result for its own value. The work for
thousands of terms therefore grows with the terms, and not with terms times nodes. Only a term with
several requirements needs operations over all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from ..kube.core import NodeSelectorRequirement, NodeSelectorTerm, Pod
from ..kube.node_selector import integer
from .label_column import LabelColumn
from .pod_info import PodInfo
from .pod_template import PerTemplate
from .snapshot import NodeView
from .vectors import Bools, Ints


def select_rows(nodes: NodeView, label: str, operator: str, values: Sequence[str]) -> Bools:
    """Returns bool[nodes.size]: the nodes that meet the requirement `label operator values`.

    Operators: In, NotIn, Exists, DoesNotExist, Gt, Lt, as in a NodeSelectorRequirement. Gt and Lt
    compare each distinct value once; a value that is not an integer does not match. An unknown
    operator matches nothing.
    """
    column = nodes.columns.label(label)
    codes = column.codes[nodes.rows]
    match operator:
        case "Exists":
            return np.asarray(codes >= 0)
        case "DoesNotExist":
            return np.asarray(codes < 0)
        case "In" | "NotIn":
            selected = [code for code in map(column.code, values) if code is not None]
            if len(selected) == 1:
                return np.asarray(
                    codes == selected[0] if operator == "In" else codes != selected[0]
                )
            return np.isin(codes, selected, invert=operator == "NotIn")
        case "Gt" | "Lt":
            bound = integer(values[0]) if len(values) == 1 else None
            if bound is None:
                return np.zeros(nodes.size, dtype=np.bool_)
            numbers, valid = column.numbers()
            # The last element of the table is for code -1, a node without the label.
            table = np.append(
                valid & (numbers > bound if operator == "Gt" else numbers < bound), np.False_
            )
            return np.asarray(table[codes])
        case _:
            return np.zeros(nodes.size, dtype=np.bool_)


def required_terms(pod: Pod) -> Sequence[NodeSelectorTerm] | None:
    """Returns the terms of the pod's required node affinity, or None if it has none."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return None if required is None else required.node_selector_terms


def term_matches(term: NodeSelectorTerm, nodes: NodeView) -> Bools:
    """Returns bool[nodes.size]: the matching nodes, none for a term without requirements."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(nodes.size, dtype=np.bool_)
    if any(_matches_no_node(requirement, nodes) for requirement in term.match_expressions):
        return np.zeros(nodes.size, dtype=np.bool_)
    matches = [select_rows(nodes, r.key, r.operator, r.values) for r in term.match_expressions]
    for field in term.match_fields:
        rows = [nodes.columns.row_of[n] for n in _names(field) if n in nodes.columns.row_of]
        named = np.zeros(nodes.columns.size, dtype=np.bool_)
        named[rows] = True
        matches.append(named[nodes.rows] if field.operator == "In" else ~named[nodes.rows])
    return matches[0] if len(matches) == 1 else reduce(np.bitwise_and, matches)


def _names(field: NodeSelectorRequirement) -> Sequence[str]:
    """Returns the node names in a requirement on the name, the only field of nodes."""
    return field.values if field.key == "metadata.name" else ()


def _matches_no_node(requirement: NodeSelectorRequirement, nodes: NodeView) -> bool:
    """True if the label's values alone show that no node meets the requirement."""
    match requirement.operator:
        case "In":
            code = nodes.columns.label(requirement.key).code
            return all(code(value) is None for value in requirement.values)
        case "Exists" | "Gt" | "Lt":
            return not nodes.columns.label(requirement.key).nodes
        case _:
            return False


class _LabelWeights:
    """The weights of the requirements on one label, by the values of the label."""

    __slots__ = ("_above", "_below", "_by_value", "_everywhere", "_labelled", "_unlabelled")

    def __init__(self) -> None:
        self._by_value: dict[str, int] = {}
        self._everywhere = self._labelled = self._unlabelled = 0
        self._above: list[tuple[int, int]] = []  # (bound, weight) of each Gt
        self._below: list[tuple[int, int]] = []  # (bound, weight) of each Lt

    def add(self, requirement: NodeSelectorRequirement, weight: int) -> None:
        match requirement.operator:
            case "In":
                self._add_to_values(requirement.values, weight)
            case "NotIn":
                self._everywhere += weight
                self._add_to_values(requirement.values, -weight)
            case "Exists":
                self._labelled += weight
            case "DoesNotExist":
                self._unlabelled += weight
            case "Gt" | "Lt" as operator:
                bound = integer(requirement.values[0]) if len(requirement.values) == 1 else None
                if bound is not None:
                    (self._above if operator == "Gt" else self._below).append((bound, weight))
            case _:
                pass  # an unknown operator matches nothing

    def _add_to_values(self, values: Sequence[str], weight: int) -> None:
        for value in values if len(values) == 1 else dict.fromkeys(values):
            self._by_value[value] = self._by_value.get(value, 0) + weight

    @property
    def without_label(self) -> int:
        """The weight of the requirements that a node without the label meets."""
        return self._everywhere + self._unlabelled

    def by_code(self, column: LabelColumn) -> Ints:
        """Returns the weight of the requirements that a node meets, by the code of its value.

        The last element is for nodes without the label.
        """
        sums = np.full(len(column.values) + 1, self._labelled + self._everywhere, dtype=np.int64)
        sums[-1] = self.without_label
        weighted = [
            (code, weight)
            for value, weight in self._by_value.items()
            if (code := column.code(value)) is not None
        ]
        if weighted:
            codes, weights = np.array(weighted, dtype=np.int64).T
            sums[codes] += weights
        if self._above or self._below:
            numbers, valid = column.numbers()
            # n -> -1 - n reverses the order, and maps every int64 to an int64.
            reversed_below = [(-1 - bound, weight) for bound, weight in self._below]
            sums[:-1] += valid * (
                _weight_of_smaller_bounds(self._above, numbers)
                + _weight_of_smaller_bounds(reversed_below, -1 - numbers)
            )
        return sums


def _weight_of_smaller_bounds(bounds: Sequence[tuple[int, int]], numbers: Ints) -> Ints:
    """Returns, for each number, the sum of the weights of the bounds that are smaller."""
    in_order = sorted(bounds)
    sums = np.cumsum([0, *(weight for _, weight in in_order)], dtype=np.int64)
    return np.asarray(
        sums[np.searchsorted(np.array([bound for bound, _ in in_order], dtype=np.int64), numbers)]
    )


class NodeTerms:
    """Weighted node selector terms; a term without requirements matches nothing."""

    def __init__(self, terms: Sequence[tuple[NodeSelectorTerm, int]]) -> None:
        self._single = terms[0] if len(terms) == 1 else None
        self._by_label: dict[str, _LabelWeights] = {}
        self._by_name: dict[str, int] = {}
        self._everywhere = 0
        self._others: list[tuple[NodeSelectorTerm, int]] = []
        for term, weight in terms if self._single is None else ():
            self._add(term, weight)

    def _add(self, term: NodeSelectorTerm, weight: int) -> None:
        if len(term.match_expressions) + len(term.match_fields) != 1:
            self._others.append((term, weight))
            return
        for requirement in term.match_expressions:
            self._by_label.setdefault(requirement.key, _LabelWeights()).add(requirement, weight)
        for field in term.match_fields:
            sign = 1 if field.operator == "In" else -1
            self._everywhere += weight if sign < 0 else 0
            for name in dict.fromkeys(_names(field)):
                self._by_name[name] = self._by_name.get(name, 0) + sign * weight

    def match(self, nodes: NodeView) -> Bools:
        """Returns bool[nodes.size]: the nodes that some term matches; weights must be positive."""
        if self._single is not None:
            return term_matches(self._single[0], nodes)
        return np.asarray(self.weigh(nodes) > 0)

    def weigh(self, nodes: NodeView) -> Ints:
        """Returns int64[nodes.size]: the sum of the weights of the terms that match each node."""
        if self._single is not None:
            return term_matches(self._single[0], nodes) * np.int64(self._single[1])
        columns, everywhere = nodes.columns, self._everywhere
        sums: Ints = np.zeros(nodes.size, dtype=np.int64)
        for key, weights in self._by_label.items():
            column = columns.label(key)
            if column.nodes:
                sums += weights.by_code(column)[column.codes[nodes.rows]]
            else:
                everywhere += weights.without_label
        if self._by_name:
            weight_by_row = {
                columns.row_of[name]: w
                for name, w in self._by_name.items()
                if name in columns.row_of
            }
            named = np.zeros(columns.size, dtype=np.int64)
            named[[*weight_by_row]] = [*weight_by_row.values()]
            sums += named[nodes.rows]
        for term, weight in self._others:
            sums += weight * term_matches(term, nodes)
        return sums + everywhere if everywhere else sums


def _required(pod: Pod) -> NodeTerms | None:
    terms = required_terms(pod)
    return None if terms is None else NodeTerms([(term, 1) for term in terms])


_REQUIRED = PerTemplate(_required)


def pod_affinity_matches(info: PodInfo, nodes: NodeView) -> Bools:
    """Returns bool[nodes.size]: the nodes that match the pod's node selector and affinity."""
    matched = np.ones(nodes.size, dtype=np.bool_)
    for label, value in info.pod.spec.node_selector.items():
        if nodes.columns.label(label).code(value) is None:
            return np.zeros(nodes.size, dtype=np.bool_)
        matched &= select_rows(nodes, label, "In", (value,))
    terms = _REQUIRED(info.template, info.pod)
    if terms is not None:
        matched &= terms.match(nodes)
    return matched

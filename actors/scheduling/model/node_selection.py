"""What a pod asks of nodes, decided for all nodes of a view at once, through the columns of their
labels.

Many terms are read once for all pods of a template. Those with one requirement are decided for the
values of its label, and nodes take what their value has: so the work for thousands of terms is
theirs, and not theirs times the nodes'. Only terms with several requirements are operations over
all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from berth.actors.scheduling.kube.core import NodeSelectorRequirement, NodeSelectorTerm, Pod
from berth.actors.scheduling.kube.node_selector import integer
from berth.actors.scheduling.model.columns import Bools, Ints, LabelColumn
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.pod_template import PerTemplate
from berth.actors.scheduling.model.snapshot import NodeView


def select_rows(nodes: NodeView, label: str, operator: str, values: Sequence[str]) -> Bools:
    """bool[nodes.size]: where the requirement `label operator values` holds.

    Operators: In, NotIn, Exists, DoesNotExist, Gt, Lt, as in a NodeSelectorRequirement. Gt and Lt
    look at each distinct value once; a value that is no integer does not match. An unknown operator
    matches nothing.
    """
    column = nodes.columns.label(label)
    codes = column.codes[nodes.rows]
    match operator:
        case "Exists":
            return np.asarray(codes >= 0)
        case "DoesNotExist":
            return np.asarray(codes < 0)
        case "In" | "NotIn":
            wanted = [code for code in map(column.code, values) if code is not None]
            if len(wanted) == 1:
                return np.asarray(codes == wanted[0] if operator == "In" else codes != wanted[0])
            return np.isin(codes, wanted, invert=operator == "NotIn")
        case "Gt" | "Lt":
            bound = integer(values[0]) if len(values) == 1 else None
            if bound is None:
                return np.zeros(nodes.size, dtype=np.bool_)
            numbers, valid = column.numbers()
            # The last place of the table is read for code -1, a node without the label.
            table = np.append(
                valid & (numbers > bound if operator == "Gt" else numbers < bound), np.False_
            )
            return np.asarray(table[codes])
        case _:
            return np.zeros(nodes.size, dtype=np.bool_)


def required_terms(pod: Pod) -> Sequence[NodeSelectorTerm] | None:
    """The terms of the pod's required node affinity, None if it has none."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return None if required is None else required.node_selector_terms


def term_matches(term: NodeSelectorTerm, nodes: NodeView) -> Bools:
    """True where every requirement of the term holds; a term without any matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(nodes.size, dtype=np.bool_)
    if any(_holds_nowhere(requirement, nodes) for requirement in term.match_expressions):
        return np.zeros(nodes.size, dtype=np.bool_)
    found = [select_rows(nodes, r.key, r.operator, r.values) for r in term.match_expressions]
    for field in term.match_fields:
        rows = [nodes.columns.row_of[name] for name in field.values if name in nodes.columns.row_of]
        named = np.zeros(nodes.columns.size, dtype=np.bool_)
        named[rows] = True
        found.append(named[nodes.rows] if field.operator == "In" else ~named[nodes.rows])
    return found[0] if len(found) == 1 else reduce(np.bitwise_and, found)


def _holds_nowhere(requirement: NodeSelectorRequirement, nodes: NodeView) -> bool:
    """True if it takes no look at the nodes to tell that it does not hold."""
    match requirement.operator:
        case "In":
            code = nodes.columns.label(requirement.key).code
            return all(code(value) is None for value in requirement.values)
        case "Exists" | "Gt" | "Lt":
            return not nodes.columns.label(requirement.key).nodes
        case _:
            return False


class _OfLabel:
    """What requirements on one label weigh, by its values."""

    __slots__ = ("_above", "_below", "_by_value", "_everywhere", "_labelled", "_unlabelled")

    def __init__(self) -> None:
        self._by_value: dict[str, int] = {}
        self._everywhere = self._labelled = self._unlabelled = 0
        self._above: list[tuple[int, int]] = []  # bounds of Gt, each with a weight
        self._below: list[tuple[int, int]] = []  # bounds of Lt

    def add(self, requirement: NodeSelectorRequirement, weight: int) -> None:
        match requirement.operator:
            case "In":
                self._at(requirement.values, weight)
            case "NotIn":
                self._everywhere += weight
                self._at(requirement.values, -weight)
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

    def _at(self, values: Sequence[str], weight: int) -> None:
        for value in values if len(values) == 1 else dict.fromkeys(values):
            self._by_value[value] = self._by_value.get(value, 0) + weight

    @property
    def without(self) -> int:
        """What those that hold without the label weigh."""
        return self._everywhere + self._unlabelled

    def by_code(self, column: LabelColumn) -> Ints:
        """What those that hold weigh, by the code of a node's value; the last place is for nodes
        without the label.
        """
        sums = np.full(len(column.values) + 1, self._labelled + self._everywhere, dtype=np.int64)
        sums[-1] = self.without
        known = [
            (code, weight)
            for value, weight in self._by_value.items()
            if (code := column.code(value)) is not None
        ]
        if known:
            codes, weights = np.array(known, dtype=np.int64).T
            sums[codes] += weights
        if self._above or self._below:
            numbers, valid = column.numbers()
            # Less becomes more: -1 - n is an int64 for every int64.
            turned = [(-1 - bound, weight) for bound, weight in self._below]
            sums[:-1] += valid * (
                _weight_of_less(self._above, numbers) + _weight_of_less(turned, -1 - numbers)
            )
        return sums


def _weight_of_less(bounds: Sequence[tuple[int, int]], numbers: Ints) -> Ints:
    """For each number what the bounds that are less weigh together."""
    in_order = sorted(bounds)
    sums = np.cumsum([0, *(weight for _, weight in in_order)], dtype=np.int64)
    return np.asarray(
        sums[np.searchsorted(np.array([bound for bound, _ in in_order], dtype=np.int64), numbers)]
    )


class NodeTerms:
    """Terms with what each weighs; one without requirements matches nothing."""

    def __init__(self, terms: Sequence[tuple[NodeSelectorTerm, int]]) -> None:
        self._single = terms[0] if len(terms) == 1 else None
        self._by_label: dict[str, _OfLabel] = {}
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
            self._by_label.setdefault(requirement.key, _OfLabel()).add(requirement, weight)
        for field in term.match_fields:
            sign = 1 if field.operator == "In" else -1
            self._everywhere += weight if sign < 0 else 0
            for name in dict.fromkeys(field.values):
                self._by_name[name] = self._by_name.get(name, 0) + sign * weight

    def match(self, nodes: NodeView) -> Bools:
        """bool[nodes.size]: where at least one term matches; for terms that weigh more than
        nothing.
        """
        if self._single is not None:
            return term_matches(self._single[0], nodes)
        return np.asarray(self.weigh(nodes) > 0)

    def weigh(self, nodes: NodeView) -> Ints:
        """int64[nodes.size]: what the terms that match each node weigh together."""
        if self._single is not None:
            return term_matches(self._single[0], nodes) * np.int64(self._single[1])
        columns, everywhere = nodes.columns, self._everywhere
        sums: Ints = np.zeros(nodes.size, dtype=np.int64)
        for key, of_label in self._by_label.items():
            column = columns.label(key)
            if column.nodes:
                sums += of_label.by_code(column)[column.codes[nodes.rows]]
            else:
                everywhere += of_label.without
        if self._by_name:
            known = {
                columns.row_of[name]: w
                for name, w in self._by_name.items()
                if name in columns.row_of
            }
            named = np.zeros(columns.size, dtype=np.int64)
            named[[*known]] = [*known.values()]
            sums += named[nodes.rows]
        for term, weight in self._others:
            sums += weight * term_matches(term, nodes)
        return sums + everywhere if everywhere else sums


def _required(pod: Pod) -> NodeTerms | None:
    terms = required_terms(pod)
    return None if terms is None else NodeTerms([(term, 1) for term in terms])


_REQUIRED = PerTemplate(_required)


def pod_affinity_matches(info: PodInfo, nodes: NodeView) -> Bools:
    """bool[nodes.size]: where the pod's nodeSelector and required node affinity hold."""
    matched = np.ones(nodes.size, dtype=np.bool_)
    for label, wanted in info.pod.spec.node_selector.items():
        if nodes.columns.label(label).code(wanted) is None:
            return np.zeros(nodes.size, dtype=np.bool_)
        matched &= select_rows(nodes, label, "In", (wanted,))
    terms = _REQUIRED(info.template, info.pod)
    if terms is not None:
        matched &= terms.match(nodes)
    return matched

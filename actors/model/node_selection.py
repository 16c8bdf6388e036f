"""What a pod asks of nodes, decided for all nodes of a view at once, through the columns of their labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actors.kube.core import NodeSelectorTerm, Pod
from actors.kube.node_selector import integer
from actors.model.columns import Bools
from actors.model.snapshot import NodeView


def select_rows(nodes: NodeView, label: str, operator: str, values: Sequence[str]) -> Bools:
    """bool[nodes.size]: where the requirement `label operator values` holds.

    Operators: In, NotIn, Exists, DoesNotExist, Gt, Lt, as in a NodeSelectorRequirement. Gt and Lt look at each
    distinct value once; a value that is no integer does not match. An unknown operator matches nothing.
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
            found = codes == wanted[0] if len(wanted) == 1 else np.isin(codes, wanted)
            return np.asarray(found if operator == "In" else ~found)
        case "Gt" | "Lt":
            # The last place of the table is read for code -1, a node without the label.
            table = np.zeros(len(column.values) + 1, dtype=np.bool_)
            bound = integer(values[0]) if len(values) == 1 else None
            if bound is not None:
                for code, text in enumerate(column.values):
                    number = integer(text)
                    if number is not None:
                        table[code] = number > bound if operator == "Gt" else number < bound
            return np.asarray(table[codes])
        case _:
            return np.zeros(nodes.size, dtype=np.bool_)


def pod_affinity_matches(pod: Pod, nodes: NodeView) -> Bools:
    """bool[nodes.size]: where the pod's nodeSelector and required node affinity hold."""
    matched = np.ones(nodes.size, dtype=np.bool_)
    for label, wanted in pod.spec.node_selector.items():
        matched &= select_rows(nodes, label, "In", (wanted,))
    terms = required_terms(pod)
    if terms is not None:
        matched &= any_term_matches(terms, nodes)
    return matched


def required_terms(pod: Pod) -> Sequence[NodeSelectorTerm] | None:
    """The terms of the pod's required node affinity, None if it has none."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return None if required is None else required.node_selector_terms


def any_term_matches(terms: Sequence[NodeSelectorTerm], nodes: NodeView) -> Bools:
    """True where at least one term matches."""
    matched = np.zeros(nodes.size, dtype=np.bool_)
    for term in terms:
        matched |= term_matches(term, nodes)
    return matched


def term_matches(term: NodeSelectorTerm, nodes: NodeView) -> Bools:
    """True where every requirement of the term holds; a term without any matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(nodes.size, dtype=np.bool_)
    matched = np.ones(nodes.size, dtype=np.bool_)
    for requirement in term.match_expressions:
        matched &= select_rows(nodes, requirement.key, requirement.operator, requirement.values)
    for field in term.match_fields:
        rows = [nodes.columns.row_of[name] for name in field.values if name in nodes.columns.row_of]
        named = np.zeros(nodes.columns.size, dtype=np.bool_)
        named[rows] = True
        matched &= named[nodes.rows] if field.operator == "In" else ~named[nodes.rows]
    return matched

"""The counts of a topology spread constraint: the eligible nodes, and the pods in each domain.

Which nodes are eligible depends only on the pod's template and on the nodes, so the result is kept
until a node changes. If whole domains are eligible, the counts by domain are the live ones of
berth.actors.scheduling.model.pod_counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from berth.plugin import Bools, Ints, NodeView, PodInfo, Snapshot

from ..kube.core import TopologySpreadConstraint
from ..kube.labels import Selector
from ..model.bookmark import Bookmark
from ..model.columns import NodeColumns
from ..model.label_column import LabelColumn
from ..model.node_selection import pod_affinity_matches
from ..model.pod_counts import CountedPods, pods_selected
from ..model.pod_template import PodTemplate
from ..model.vectors import Rows

MAX_SKEW = (1 << 31) - 1  # an int32 in Kubernetes


class Constraint(msgspec.Struct, frozen=True):
    """A constraint, with its selector resolved against the pod.

    `counted` is None if the constraint counts no pods, because it has no selector.
    """

    max_skew: int
    topology_key: str
    selector: Selector
    counted: CountedPods | None
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


def constraint_of(spec: TopologySpreadConstraint, selector: Selector, namespace: str) -> Constraint:
    """Resolves a constraint of pods in a namespace."""
    return Constraint(
        min(spec.max_skew, MAX_SKEW),
        spec.topology_key,
        selector,
        None if selector.nothing else pods_selected(namespace, selector),
        1 if spec.min_domains is None else spec.min_domains,
        spec.node_affinity_policy in (None, "Honor"),
        spec.node_taints_policy == "Honor",
    )


class EligibleNodes(msgspec.Struct, frozen=True):
    """The eligible rows of a constraint, `rows`, each with the code of its domain in `codes`.

    `domains` holds the distinct codes, and `number` their number. `whole` marks them by code, with
    a last element for no label; it is None if no labelled row is left out. `mixed` is true if a
    domain has both eligible and other rows.
    """

    rows: Ints
    codes: Ints
    domains: Rows
    number: int
    whole: Bools | None
    mixed: bool


class _Entry(msgspec.Struct, frozen=True):
    constraints: tuple[Constraint, ...]
    bookmark: Bookmark
    eligible: tuple[EligibleNodes, ...]


class Eligibility(msgspec.Struct, frozen=True):
    """The eligible nodes for each template, which are kept until a node changes."""

    _kept: WeakKeyDictionary[PodTemplate, _Entry] = msgspec.field(default_factory=WeakKeyDictionary)

    def of(
        self,
        constraints: tuple[Constraint, ...],
        info: PodInfo,
        snapshot: Snapshot,
        *,
        labelled: bool,
    ) -> tuple[EligibleNodes, ...]:
        """Returns the eligible rows of each constraint.

        If `labelled`, only nodes with the topology labels of all constraints are eligible.
        """
        columns = snapshot.columns
        kept = self._kept.get(info.template)
        if (
            kept is not None
            and kept.bookmark.same_nodes(snapshot)
            and (kept.constraints is constraints or kept.constraints == constraints)
        ):
            return kept.eligible
        nodes = snapshot.rows(columns.order)
        base = have_all(constraints, nodes) if labelled else np.ones(nodes.size, dtype=np.bool_)
        # Constraints with the same policies have the same nodes; with the same label, also the
        # same domains.
        by_policies: dict[tuple[bool, bool], Bools] = {}
        by_key: dict[tuple[LabelColumn, bool, bool], EligibleNodes] = {}
        for constraint in constraints:
            policies = (constraint.honor_affinity, constraint.honor_taints)
            key = (columns.label(constraint.topology_key), *policies)
            if key not in by_key:
                if policies not in by_policies:
                    by_policies[policies] = _by_policies(constraint, info, nodes, base)
                by_key[key] = _eligible(key[0], nodes, by_policies[policies])
        eligible = tuple(
            by_key[
                columns.label(constraint.topology_key),
                constraint.honor_affinity,
                constraint.honor_taints,
            ]
            for constraint in constraints
        )
        self._kept[info.template] = _Entry(constraints, Bookmark(snapshot), eligible)
        return eligible


def _by_policies(constraint: Constraint, info: PodInfo, nodes: NodeView, base: Bools) -> Bools:
    """Returns the nodes in `base` that the constraint's policies on affinity and taints keep."""
    where = base
    if constraint.honor_affinity:
        where = where & pod_affinity_matches(info, nodes)
    if constraint.honor_taints:
        tolerated = np.fromiter(
            map(info.template.tolerations.let_in, nodes.columns.taint_classes), dtype=np.bool_
        )
        where = where & tolerated[nodes.columns.taints[nodes.rows]]
    return where


def _eligible(label: LabelColumn, nodes: NodeView, where: Bools) -> EligibleNodes:
    codes = label.codes[nodes.rows]
    size, labelled = len(label.values) + 1, codes >= 0
    counted, left_out = where & labelled, ~where & labelled
    inside = np.bincount(codes[counted], minlength=size) > 0
    outside = np.bincount(codes[left_out], minlength=size) > 0
    eligible = inside.nonzero()[0]
    number = len(eligible)
    domains = slice(0, number) if number == size - 1 else eligible  # indexing by a slice is free
    whole = inside if outside.any() else None
    mixed = bool((inside & outside).any())
    return EligibleNodes(
        nodes.columns.order[counted], codes[counted], domains, number, whole, mixed
    )


def have_all(constraints: Sequence[Constraint], nodes: NodeView) -> Bools:
    """Returns bool[nodes.size]: the nodes that have the topology label of every constraint."""
    have = np.ones(nodes.size, dtype=np.bool_)
    for key in {constraint.topology_key: None for constraint in constraints}:
        label = nodes.columns.label(key)
        if not label.nodes:
            return np.zeros(nodes.size, dtype=np.bool_)
        have &= label.codes[nodes.rows] >= 0
    return have


def _removed_terminating(constraint: Constraint, info: PodInfo, columns: NodeColumns) -> list[int]:
    """Returns the rows of the matching terminating pods that a what-if question removed.

    They are subtracted although terminating pods are never counted, as in kube-scheduler's dry run.
    """
    if not columns.counts.removed_terminating:
        return []
    namespace, selector = info.pod.metadata.namespace, constraint.selector
    return [
        row
        for row, gone in columns.counts.removed_terminating
        if gone.pod.metadata.namespace == namespace and selector.matches(gone.pod.metadata.labels)
    ]


def pods_by_row(constraint: Constraint, info: PodInfo, columns: NodeColumns) -> Ints:
    """Returns the number of pods on each row that the constraint counts: int64[rows]."""
    if constraint.counted is None:
        return np.zeros(len(columns.pods), dtype=np.int64)
    counts = columns.counts.column(constraint.counted).by_row
    removed = _removed_terminating(constraint, info, columns)
    if removed:
        counts = counts.copy()
        np.subtract.at(counts, removed, 1)
    return counts


def pods_by_domain(
    constraint: Constraint,
    eligible: EligibleNodes,
    label: LabelColumn,
    info: PodInfo,
    snapshot: Snapshot,
) -> Ints:
    """Returns the number of counted pods on the eligible nodes, by label code.

    The last element, for no label, is 0.
    """
    columns = snapshot.columns
    if (
        not eligible.mixed
        and constraint.counted is not None
        and not _removed_terminating(constraint, info, columns)
    ):
        sums = columns.counts.column(constraint.counted).by_domain(label).sums
        return sums if eligible.whole is None else sums * eligible.whole
    weights = pods_by_row(constraint, info, columns)[eligible.rows]
    return np.bincount(eligible.codes, weights=weights, minlength=len(label.values) + 1).astype(
        np.int64
    )

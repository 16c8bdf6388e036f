"""What a constraint of topology spreading counts: which nodes take part, and how many pods there
are in each domain.

Which nodes take part depends on the pod's template and on nodes alone, so it is kept until a node
changes. Where all do, the counts by domain are the ones that are kept up to date as pods come and
go (see berth.actors.scheduling.model.pod_counts).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from berth.actors.scheduling.kube.labels import Selector
from berth.actors.scheduling.model.bookmark import Bookmark
from berth.actors.scheduling.model.columns import LabelColumn, NodeColumns
from berth.actors.scheduling.model.node_selection import pod_affinity_matches
from berth.actors.scheduling.model.pod_counts import Counted, pods_selected
from berth.actors.scheduling.model.pod_template import PodTemplate
from berth.actors.scheduling.model.vectors import Rows
from berth.plugin import Bools, Ints, NodeView, PodInfo, Snapshot

MOST_SKEW = (1 << 31) - 1  # an int32 in Kubernetes


class Constraint(msgspec.Struct, frozen=True):
    """A constraint with its selector resolved against the pod. `counted` is None if it counts no
    pod.
    """

    max_skew: int
    topology_key: str
    selector: Selector
    counted: Counted | None
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


class Written(Protocol):
    """A constraint as a pod's spec or a profile's arguments have it."""

    @property
    def max_skew(self) -> int: ...
    @property
    def topology_key(self) -> str: ...
    @property
    def min_domains(self) -> int | None: ...
    @property
    def node_affinity_policy(self) -> str | None: ...
    @property
    def node_taints_policy(self) -> str | None: ...


def constraint_of(written: Written, selector: Selector, namespace: str) -> Constraint:
    """An empty selector counts no pod, although it selects all."""
    counts = not selector.nothing and bool(selector.requirements)
    return Constraint(
        min(written.max_skew, MOST_SKEW),
        written.topology_key,
        selector,
        pods_selected(namespace, selector) if counts else None,
        1 if written.min_domains is None else written.min_domains,
        written.node_affinity_policy in (None, "Honor"),
        written.node_taints_policy == "Honor",
    )


class Eligible(msgspec.Struct, frozen=True):
    """Where pods count for a constraint: `rows`, each with the code of its domain in `codes`.

    `domains` are the codes found there, `number` of them. `whole` marks them by code, with a last
    place for no label; it is None if no row of any domain is left out. `mixed` if a domain has both
    rows that count and others.
    """

    rows: Ints
    codes: Ints
    domains: Rows
    number: int
    whole: Bools | None
    mixed: bool


class _Kept(msgspec.Struct, frozen=True):
    constraints: tuple[Constraint, ...]
    bookmark: Bookmark
    eligible: tuple[Eligible, ...]


class Eligibility(msgspec.Struct, frozen=True):
    """The nodes that count, kept for each template until a node changes."""

    _kept: WeakKeyDictionary[PodTemplate, _Kept] = msgspec.field(default_factory=WeakKeyDictionary)

    def of(
        self,
        constraints: tuple[Constraint, ...],
        info: PodInfo,
        snapshot: Snapshot,
        *,
        labelled: bool,
    ) -> tuple[Eligible, ...]:
        """For each constraint where pods count; `labelled` if only nodes with the labels of all
        constraints do.
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
        every = have_all(constraints, nodes) if labelled else np.ones(nodes.size, dtype=np.bool_)
        # What is looked at: constraints that differ in nothing else count on the same nodes.
        honoured: dict[tuple[bool, bool], Bools] = {}
        found: dict[tuple[LabelColumn, bool, bool], Eligible] = {}
        for constraint in constraints:
            what = (constraint.honor_affinity, constraint.honor_taints)
            key = (columns.label(constraint.topology_key), *what)
            if key not in found:
                if what not in honoured:
                    honoured[what] = _honoured(constraint, info, nodes, every)
                found[key] = _eligible(key[0], nodes, honoured[what])
        eligible = tuple(
            found[
                columns.label(constraint.topology_key),
                constraint.honor_affinity,
                constraint.honor_taints,
            ]
            for constraint in constraints
        )
        self._kept[info.template] = _Kept(constraints, Bookmark(snapshot), eligible)
        return eligible


def _honoured(constraint: Constraint, info: PodInfo, nodes: NodeView, every: Bools) -> Bools:
    """Of `every` node those that the pod may run on, as far as the constraint looks at that."""
    where = every
    if constraint.honor_affinity:
        where = where & pod_affinity_matches(info, nodes)
    if constraint.honor_taints:
        lets = np.fromiter(
            map(info.tolerations.let_in, nodes.columns.taint_classes), dtype=np.bool_
        )
        where = where & lets[nodes.columns.taints[nodes.rows]]
    return where


def _eligible(label: LabelColumn, nodes: NodeView, where: Bools) -> Eligible:
    codes = label.codes[nodes.rows]
    places, labelled = len(label.values) + 1, codes >= 0
    counted, left_out = where & labelled, ~where & labelled
    inside = np.bincount(codes[counted], minlength=places) > 0
    outside = np.bincount(codes[left_out], minlength=places) > 0
    found = inside.nonzero()[0]
    number = len(found)
    domains = slice(0, number) if number == places - 1 else found  # a slice is read at no cost
    whole = inside if outside.any() else None
    mixed = bool((inside & outside).any())
    return Eligible(nodes.columns.order[counted], codes[counted], domains, number, whole, mixed)


def have_all(constraints: Sequence[Constraint], nodes: NodeView) -> Bools:
    """True where a node has the topology label of every constraint."""
    have = np.ones(nodes.size, dtype=np.bool_)
    for key in {constraint.topology_key: None for constraint in constraints}:
        label = nodes.columns.label(key)
        if not label.nodes:
            return np.zeros(nodes.size, dtype=np.bool_)
        have &= label.codes[nodes.rows] >= 0
    return have


def _missed(constraint: Constraint, info: PodInfo, columns: NodeColumns) -> list[int]:
    """The rows of pods that are subtracted although they were never counted.

    Terminating pods are not counted, and yet one that is removed in thought is subtracted, as in
    kube-scheduler.
    """
    if not columns.counts.missed:
        return []
    namespace, selector = info.pod.metadata.namespace, constraint.selector
    return [
        row
        for row, gone in columns.counts.missed
        if gone.pod.metadata.namespace == namespace and selector.matches(gone.pod.metadata.labels)
    ]


def pods_by_row(constraint: Constraint, info: PodInfo, columns: NodeColumns) -> Ints:
    """How many pods of each row the constraint counts."""
    if constraint.counted is None:
        return np.zeros(len(columns.pods), dtype=np.int64)
    counts = columns.counts.column(constraint.counted).rows
    missed = _missed(constraint, info, columns)
    if missed:
        counts = counts.copy()
        np.subtract.at(counts, missed, 1)
    return counts


def pods_by_domain(
    constraint: Constraint,
    eligible: Eligible,
    label: LabelColumn,
    info: PodInfo,
    snapshot: Snapshot,
) -> Ints:
    """How many pods there are on the eligible nodes by label code; the last place, for no label,
    holds 0.
    """
    columns = snapshot.columns
    if (
        not eligible.mixed
        and constraint.counted is not None
        and not _missed(constraint, info, columns)
    ):
        sums = columns.counts.column(constraint.counted).by_domain(label).sums
        return sums if eligible.whole is None else sums * eligible.whole
    weights = pods_by_row(constraint, info, columns)[eligible.rows]
    return np.bincount(eligible.codes, weights=weights, minlength=len(label.values) + 1).astype(
        np.int64
    )

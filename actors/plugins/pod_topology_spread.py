"""PodTopologySpread: keeps pods that a selector selects evenly spread over zones, hosts or any other topology.

Pods are counted by column (see actors.model.pod_counts); the count of a domain is one bincount over the topology's
label column, and a node is judged by the count of its domain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from actors.framework.cycle_state import CycleState, StateKey
from actors.framework.events import Action, ClusterEvent, Hint, Registration, Resource
from actors.framework.interface import (
    MAX_NODE_SCORE,
    ArgsError,
    FilterPlugin,
    Handle,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    read_args,
)
from actors.framework.status import SKIP, SUCCESS, Code, Status
from actors.framework.verdicts import Verdicts
from actors.kube.apps import ReplicaSet, ReplicationController, StatefulSet
from actors.kube.core import Node, Pod, Service, TopologySpreadConstraint
from actors.kube.labels import NOTHING, Selector, from_label_selector, from_map
from actors.kube.taints import lets_in
from actors.model.cluster_objects import ClusterObjects
from actors.model.columns import LabelColumn, NodeColumns
from actors.model.node_selection import pod_affinity_matches
from actors.model.pod_counts import pods_selected
from actors.model.pod_info import PodInfo
from actors.model.snapshot import NodeView, Snapshot
from actors.model.vectors import Bools, Ints

REASON = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON} (missing required label)"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NO_DOMAIN = (1 << 31) - 1  # the least count where there is no domain to count in
HARD: Literal["DoNotSchedule"] = "DoNotSchedule"
SOFT: Literal["ScheduleAnyway"] = "ScheduleAnyway"


class DefaultConstraint(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A constraint of the profile; its selector comes from the pod's Services and owner."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: int | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None


class PodTopologySpreadArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"


SYSTEM_DEFAULTS = (DefaultConstraint(3, HOSTNAME, SOFT), DefaultConstraint(5, ZONE, SOFT))


class Constraint(msgspec.Struct, frozen=True):
    """A constraint with its selector resolved against the pod."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


class Domains(msgspec.Struct, frozen=True):
    """How many pods a constraint counts in each domain: `table` by label code, the last place for nodes without it.

    `least` is the count that a domain is compared with, `of_pod` 1 if the pod itself is counted.
    """

    constraint: Constraint
    column: LabelColumn
    table: Ints
    least: int
    of_pod: int


class Scoring(msgspec.Struct, frozen=True):
    """`tables` by label code, None where each node is a domain; `ignored` and the tables are for one view."""

    constraints: tuple[Constraint, ...]
    tables: tuple[Ints | None, ...]
    weights: tuple[float, ...]
    ignored: Bools


_DOMAINS: StateKey[tuple[Domains, ...]] = StateKey("PodTopologySpread.domains")
_SCORING: StateKey[Scoring] = StateKey("PodTopologySpread.scoring")


class PodTopologySpread(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "PodTopologySpread"

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        read = read_args(args, PodTopologySpreadArgs)
        self._by_system = read.defaulting_type == "System"
        if self._by_system and read.default_constraints:
            raise ArgsError("defaultConstraints: expected none with defaultingType System")
        self._defaults = SYSTEM_DEFAULTS if self._by_system else read.default_constraints
        for i, constraint in enumerate(self._defaults):
            _check(constraint, f"defaultConstraints[{i}]", self._defaults[:i])

    # ------------------------------------------------------------------------------------------- filtering

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status | PreFilterResult:
        constraints = self._constraints(info.pod, HARD, snapshot.objects)
        if not constraints:
            return SKIP
        nodes = snapshot.rows(snapshot.columns.order)
        eligible = _have_all(constraints, nodes)
        state.write(
            _DOMAINS, tuple(_domains(c, info, nodes, eligible & _included(c, info.pod, nodes)) for c in constraints)
        )
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        keys = np.zeros(nodes.size, dtype=np.int64)
        for domains in state.read(_DOMAINS):
            codes = domains.column.codes[nodes.rows]
            undecided = keys == 0
            skew = domains.table[codes] + domains.of_pod - domains.least
            keys[undecided & (skew > domains.constraint.max_skew)] = 2
            keys[undecided & (codes < 0)] = 1
        if not keys.any():
            return None
        codes_of = np.array((Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE), dtype=np.int8)
        return Verdicts(codes_of[keys], keys, lambda key: (REASON_LABEL if key == 1 else REASON,))

    # ------------------------------------------------------------------------------------------- scoring

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        constraints = self._constraints(info.pod, SOFT, nodes.snapshot.objects)
        if not constraints:
            return SKIP
        needs_all = bool(info.pod.spec.topology_spread_constraints) or not self._by_system
        columns = nodes.columns
        ignored = ~_have_all(constraints, nodes) if needs_all else np.zeros(nodes.size, dtype=np.bool_)
        every = nodes.snapshot.rows(columns.order)
        counted = _have_all(constraints, every) if needs_all else np.ones(every.size, dtype=np.bool_)
        tables: list[Ints | None] = []
        weights = []
        for constraint in constraints:
            if constraint.topology_key == HOSTNAME:
                tables.append(None)
                size = nodes.size - int(ignored.sum())
            else:
                label = columns.label(constraint.topology_key)
                size = len(np.unique(label.codes[nodes.rows][~ignored]))
                eligible = counted & _included(constraint, info.pod, every)
                tables.append(_table(label, every, eligible, _counts(constraint, info, columns)))
            weights.append(math.log(size + 2))
        state.write(_SCORING, Scoring(constraints, tuple(tables), tuple(weights), ignored))
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        scoring = state.read(_SCORING)
        sums = np.zeros(nodes.size, dtype=np.float64)
        for constraint, table, weight in zip(scoring.constraints, scoring.tables, scoring.weights, strict=True):
            codes = nodes.columns.label(constraint.topology_key).codes[nodes.rows]
            counts = _counts(constraint, info, nodes.columns)[nodes.rows] if table is None else table[codes]
            sums += np.where(codes >= 0, counts * weight + (constraint.max_skew - 1), 0.0)
        whole = np.trunc(sums)
        rounded = (whole + (sums - whole >= 0.5)).astype(np.int64)
        rounded[scoring.ignored] = 0
        return rounded

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        ignored = state.read(_SCORING).ignored
        heard = scores[~ignored]
        if not len(heard):
            return np.zeros(len(scores), dtype=np.int64)
        lowest, highest = int(heard.min()), max(int(heard.max()), 0)
        if highest == 0:
            return np.where(ignored, 0, MAX_NODE_SCORE)
        return np.where(ignored, 0, MAX_NODE_SCORE * (highest + lowest - scores) // highest)

    # ------------------------------------------------------------------------------------------- constraints

    def _constraints(self, pod: Pod, action: str, objects: ClusterObjects) -> tuple[Constraint, ...]:
        """The constraints of the pod, or those of the profile if it has none."""
        own = pod.spec.topology_spread_constraints
        if own:
            return tuple(_constraint(c, _selector(c, pod)) for c in own if c.when_unsatisfiable == action)
        defaults = [c for c in self._defaults if c.when_unsatisfiable == action]
        if not defaults:
            return ()
        selector = default_selector(pod, objects)
        if not selector.requirements:
            return ()
        return tuple(_constraint(c, selector) for c in defaults)

    # ------------------------------------------------------------------------------------------- events

    def events_to_register(self) -> Sequence[Registration]:
        def pod_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
            return Hint.QUEUE if self._pod_matters(pod, old, new) else Hint.SKIP

        def node_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
            return Hint.QUEUE if self._node_matters(pod, old, new) else Hint.SKIP

        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return (
            Registration(ClusterEvent(Resource.POD, pods), pod_changed),
            Registration(ClusterEvent(Resource.NODE, nodes), node_changed),
        )

    def _hard(self, pod: Pod) -> list[tuple[str, Selector | None]]:
        """Key and selector of what keeps the pod off nodes; the selector of a default is not known without Services."""
        own = pod.spec.topology_spread_constraints
        if own:
            return [(c.topology_key, _selector(c, pod)) for c in own if c.when_unsatisfiable == HARD]
        return [(c.topology_key, None) for c in self._defaults if c.when_unsatisfiable == HARD]

    def _pod_matters(self, pod: Pod, old: object | None, new: object | None) -> bool:
        """True if a pod came into or left what a constraint counts; the parked pod counts as if it were there."""
        both = [item for item in (old, new) if isinstance(item, Pod)]
        assert both
        if not all(_involved(item, pod) for item in both):
            return False
        if isinstance(old, Pod) and isinstance(new, Pod):
            before, after = old, new
            if _more_tolerant(pod, before, after):
                return True
            if before.metadata.labels == after.metadata.labels:
                return False
        for _, selector in self._hard(pod):
            if selector is None:
                return True
            if sum(selector.matches(item.metadata.labels) for item in both) == 1:
                return True
        return False

    def _node_matters(self, pod: Pod, old: object | None, new: object | None) -> bool:
        """True if a node that has, or had, every topology key has come, gone, or changed what constraints look at."""
        assert isinstance(old, Node) or isinstance(new, Node)
        keys = [key for key, _ in self._hard(pod)]
        before = old.metadata.labels if isinstance(old, Node) else {}
        after = new.metadata.labels if isinstance(new, Node) else {}
        had, has = all(key in before for key in keys), all(key in after for key in keys)
        if isinstance(old, Node) and isinstance(new, Node):
            moved = any(before.get(key) != after.get(key) for key in keys)
            retainted = old.spec.taints != new.spec.taints
            return had != has or (has and (moved or retainted))
        return had if isinstance(old, Node) else has


def _involved(item: Pod, pod: Pod) -> bool:
    """True for the parked pod itself, and for pods on nodes in its namespace."""
    same_namespace = item.metadata.namespace == pod.metadata.namespace
    return item.metadata.uid == pod.metadata.uid or (bool(item.spec.node_name) and same_namespace)


def _more_tolerant(pod: Pod, before: Pod, after: Pod) -> bool:
    """True if the parked pod tolerates other nodes now, and a constraint counts only the nodes it tolerates."""
    if after.metadata.uid != pod.metadata.uid or before.spec.tolerations == after.spec.tolerations:
        return False
    hard = (c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == HARD)
    return any(constraint.node_taints_policy == "Honor" for constraint in hard)


def default_selector(pod: Pod, objects: ClusterObjects) -> Selector:
    """What the Services that select the pod and the controller that owns it select, taken together."""
    namespace, labels = pod.metadata.namespace, pod.metadata.labels
    merged: dict[str, str] = {}
    for service in objects.within(Service, namespace).values():
        wanted = service.spec.selector
        if wanted and all(labels.get(key) == value for key, value in wanted.items()):
            merged |= wanted
    owner = next((reference for reference in pod.metadata.owner_references if reference.controller), None)
    if owner is None:
        return from_map(merged)
    selector = NOTHING
    match owner.api_version, owner.kind:
        case "v1", "ReplicationController":
            controller = objects.get(ReplicationController, owner.name, namespace)
            if controller is not None:
                merged |= controller.spec.selector
        case "apps/v1", "ReplicaSet":
            replicas = objects.get(ReplicaSet, owner.name, namespace)
            selector = from_label_selector(None if replicas is None else replicas.spec.selector)
        case "apps/v1", "StatefulSet":
            stateful = objects.get(StatefulSet, owner.name, namespace)
            selector = from_label_selector(None if stateful is None else stateful.spec.selector)
    return Selector((*from_map(merged).requirements, *selector.requirements))


def _selector(constraint: TopologySpreadConstraint, pod: Pod) -> Selector:
    """The constraint's selector, narrowed down to the pod's own values of matchLabelKeys."""
    selector = from_label_selector(constraint.label_selector)
    labels = pod.metadata.labels
    own = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    if not own:
        return selector
    return Selector((*from_map(own).requirements, *selector.requirements))


def _constraint(constraint: TopologySpreadConstraint | DefaultConstraint, selector: Selector) -> Constraint:
    return Constraint(
        constraint.max_skew,
        constraint.topology_key,
        selector,
        1 if constraint.min_domains is None else constraint.min_domains,
        constraint.node_affinity_policy in (None, "Honor"),
        constraint.node_taints_policy == "Honor",
    )


def _have_all(constraints: Sequence[Constraint], nodes: NodeView) -> Bools:
    """True where a node has the topology label of every constraint."""
    have = np.ones(nodes.size, dtype=np.bool_)
    for key in {constraint.topology_key: None for constraint in constraints}:
        have &= nodes.columns.label(key).codes[nodes.rows] >= 0
    return have


def _included(constraint: Constraint, pod: Pod, nodes: NodeView) -> Bools:
    """True where pods count, by the constraint's policies on node affinity and taints."""
    included = np.ones(nodes.size, dtype=np.bool_)
    if constraint.honor_affinity:
        included &= pod_affinity_matches(pod, nodes)
    if constraint.honor_taints:
        tolerations = pod.spec.tolerations
        lets = np.fromiter((lets_in(tolerations, taints) for taints in nodes.columns.taint_classes), dtype=np.bool_)
        included &= lets[nodes.columns.taints[nodes.rows]]
    return included


def _counts(constraint: Constraint, info: PodInfo, columns: NodeColumns) -> Ints:
    """How many pods of each row the constraint counts. An empty selector counts none, although it selects all.

    Terminating pods are not counted, and yet one that is removed in thought is subtracted, as in kube-scheduler.
    """
    selector = constraint.selector
    if selector.nothing or not selector.requirements:
        return np.zeros(len(columns.pods), dtype=np.int64)
    namespace = info.pod.metadata.namespace
    counts = columns.counts.column(pods_selected(namespace, selector)).rows
    missed = [
        row
        for row, gone in columns.counts.missed
        if gone.pod.metadata.namespace == namespace and selector.matches(gone.pod.metadata.labels)
    ]
    if missed:
        counts = counts.copy()
        np.subtract.at(counts, missed, 1)
    return counts


def _table(column: LabelColumn, nodes: NodeView, eligible: Bools, counts: Ints) -> Ints:
    """The sum of the counts by label code, over the eligible nodes that have the label."""
    codes = column.codes[nodes.rows]
    chosen = eligible & (codes >= 0)
    weights = counts[nodes.rows][chosen]
    return np.bincount(codes[chosen], weights=weights, minlength=len(column.values) + 1).astype(np.int64)


def _domains(constraint: Constraint, info: PodInfo, nodes: NodeView, eligible: Bools) -> Domains:
    column = nodes.columns.label(constraint.topology_key)
    table = _table(column, nodes, eligible, _counts(constraint, info, nodes.columns))
    there = np.unique(column.codes[nodes.rows][eligible])
    least = int(table[there].min(initial=NO_DOMAIN))
    if len(there) < constraint.min_domains:
        least = 0
    labels: Mapping[str, str] = info.pod.metadata.labels
    return Domains(constraint, column, table, least, int(constraint.selector.matches(labels)))


def _check(constraint: DefaultConstraint, path: str, earlier: Sequence[DefaultConstraint]) -> None:
    if constraint.max_skew <= 0:
        raise ArgsError(f"{path}.maxSkew: expected a positive integer, got {constraint.max_skew}")
    if not constraint.topology_key:
        raise ArgsError(f"{path}.topologyKey: expected a label key")
    if constraint.min_domains is not None and (constraint.min_domains <= 0 or constraint.when_unsatisfiable == SOFT):
        raise ArgsError(f"{path}.minDomains: expected a positive integer, and only with {HARD}")
    same = [(c.topology_key, c.when_unsatisfiable) for c in earlier]
    if (constraint.topology_key, constraint.when_unsatisfiable) in same:
        raise ArgsError(f"{path}: topologyKey and whenUnsatisfiable together stand there already")

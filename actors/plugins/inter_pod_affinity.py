"""InterPodAffinity: places pods near pods that they want, and away from pods that they, or those, do not want.

Who is where is counted by column (see actors.model.pod_counts): one for what the pod itself asks for, one for each
distinct term that the pods on the nodes carry. A topology's counts are one bincount over its label column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
from actors.framework.status import SKIP, SUCCESS, Code, Status, unresolvable
from actors.framework.verdicts import Verdicts
from actors.kube.core import Namespace, Node, Pod
from actors.kube.labels import SelectorError
from actors.model.affinity_terms import NO_LABELS, AffinityTerm, AffinityTerms, terms_of
from actors.model.cluster_objects import ClusterObjects
from actors.model.columns import NodeColumns
from actors.model.pod_counts import MOST_COLUMNS, Column, Counted
from actors.model.pod_info import PodInfo
from actors.model.snapshot import NodeView, Snapshot
from actors.model.vectors import Bools, Ints

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
MAX_HARD_WEIGHT = 100

# Topology key -> how much there is in each domain, by label code; the last place is for nodes without the label.
Tables = dict[str, Ints]


class InterPodAffinityArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    hard_pod_affinity_weight: int | None = None
    ignore_preferred_terms_of_existing_pods: bool = False


class Wanted(msgspec.Struct, frozen=True):
    """What PreFilter found. `affinity` has a table a term; `first` is true if the pod may be the first of its kind."""

    affinity: tuple[tuple[str, Ints], ...]
    first: bool
    anti_affinity: Tables
    existing: Tables


_WANTED: StateKey[Wanted] = StateKey("InterPodAffinity.wanted")
_SCORES: StateKey[Tables] = StateKey("InterPodAffinity.scores")


class InScope:
    """What terms count, the namespaces that their selectors select added by name; kept until a namespace changes."""

    def __init__(self) -> None:
        self._objects: ClusterObjects | None = None
        self._version = -1
        self._counted: dict[tuple[AffinityTerm, ...], Counted] = {}

    def of(self, terms: tuple[AffinityTerm, ...], objects: ClusterObjects) -> Counted:
        version = objects.version(Namespace)
        if version != self._version or objects is not self._objects or len(self._counted) >= MOST_COLUMNS:
            self._objects, self._version = objects, version
            self._counted.clear()
        counted = self._counted.get(terms)
        if counted is None:
            by_selector = any(not term.namespace_selector.nothing for term in terms)
            found = objects.within(Namespace) if by_selector else {}
            labels = {name: namespace.metadata.labels for name, namespace in found.items()}
            counted = self._counted[terms] = Counted(tuple(term.with_namespaces(labels) for term in terms))
        return counted


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "InterPodAffinity"

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        read = read_args(args, InterPodAffinityArgs)
        weight = read.hard_pod_affinity_weight
        self._hard_weight = 1 if weight is None else weight
        if not 0 <= self._hard_weight <= MAX_HARD_WEIGHT:
            raise ArgsError(f"hardPodAffinityWeight: expected 0 to {MAX_HARD_WEIGHT}, got {self._hard_weight}")
        self._ignore_existing = read.ignore_preferred_terms_of_existing_pods
        self._in_scope = InScope()

    # ------------------------------------------------------------------------------------------- filtering

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status | PreFilterResult:
        try:
            own = info.affinity_terms
        except SelectorError as problem:
            return unresolvable(f"pod affinity: {problem}")
        columns, objects = snapshot.columns, snapshot.objects
        existing = _matching_tables(columns, info, objects)
        if not existing and not own.required and not own.required_anti:
            return SKIP
        affinity: tuple[tuple[str, Ints], ...] = ()
        first = True
        if own.required:
            counted = columns.counts.column(self._in_scope.of(own.required, objects))
            affinity = tuple((t.topology_key, counted.by_domain(columns.label(t.topology_key))) for t in own.required)
            pod = info.pod.metadata
            first = not any(table.any() for _, table in affinity)
            first = first and all(
                term.matches(pod.namespace, pod.labels, NO_LABELS)
                for term in self._in_scope.of(own.required, objects).terms
            )
        anti: Tables = {}
        for term in own.required_anti:
            _add(anti, columns, term, columns.counts.column(self._in_scope.of((term,), objects)), 1)
        state.write(_WANTED, Wanted(affinity, first, anti, existing))
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        wanted = state.read(_WANTED)
        by_existing, by_anti = _any_positive(wanted.existing, nodes), _any_positive(wanted.anti_affinity, nodes)
        far = None
        for topology_key, table in wanted.affinity:
            codes = nodes.columns.label(topology_key).codes[nodes.rows]
            missed = codes < 0 if wanted.first else table[codes] == 0  # which it is without the label as well
            far = missed if far is None else far | missed
        rejected = [where for where in (by_existing, by_anti, far) if where is not None]
        if not any(where.any() for where in rejected):
            return None
        keys = np.zeros(nodes.size, dtype=np.int64)
        for where, key in ((by_existing, 3), (by_anti, 2), (far, 1)):
            if where is not None:
                keys[where] = key
        return Verdicts(_CODES[keys], keys, lambda key: (_REASONS[key],))

    # ------------------------------------------------------------------------------------------- scoring

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        own = info.affinity_terms.preferred
        if self._ignore_existing and not own:
            return SKIP
        columns, objects = nodes.columns, nodes.snapshot.objects
        counts = columns.counts
        scores: Tables = {}
        for weighted in own:
            counted = counts.column(self._in_scope.of((weighted.term,), objects))
            _add(scores, columns, weighted.term, counted, weighted.weight)
        around = _namespace_labels(objects, info.pod.metadata.namespace)
        if self._hard_weight:
            for term, column in counts.required.matching(info, around):
                _add(scores, columns, term, column, self._hard_weight)
        for (term, weight), column in counts.preferred.matching(info, around):
            _add(scores, columns, term, column, weight)
        if not scores:
            return SKIP
        state.write(_SCORES, scores)
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        scores = np.zeros(nodes.size, dtype=np.int64)
        for topology_key, table in state.read(_SCORES).items():
            scores += table[nodes.columns.label(topology_key).codes[nodes.rows]]
        return scores

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        if not len(scores):
            return scores
        lowest = int(scores.min())
        spread = int(scores.max()) - lowest
        if spread <= 0:
            return np.zeros(len(scores), dtype=np.int64)
        return (MAX_NODE_SCORE * ((scores - lowest) / spread)).astype(np.int64)

    # ------------------------------------------------------------------------------------------- events

    def events_to_register(self) -> Sequence[Registration]:
        def pod_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
            return Hint.QUEUE if _pod_matters(pod, old, new) else Hint.SKIP

        def node_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
            return Hint.QUEUE if _node_matters(pod, old, new) else Hint.SKIP

        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL
        return (
            Registration(ClusterEvent(Resource.POD, pods), pod_changed),
            Registration(ClusterEvent(Resource.NODE, nodes), node_changed),
        )


_CODES = np.array(
    (Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE), dtype=np.int8
)
_REASONS = ("", REASON_AFFINITY, REASON_ANTI_AFFINITY, REASON_EXISTING)


def _namespace_labels(objects: ClusterObjects, name: str) -> Mapping[str, str]:
    namespace = objects.get(Namespace, name)
    return NO_LABELS if namespace is None else namespace.metadata.labels


def _add(tables: Tables, columns: NodeColumns, term: AffinityTerm, counted: Column, weight: int) -> None:
    """Add weighted counts to the table of a term's topology, if any of what is counted is on a node with its label."""
    if not counted.total:
        return
    table = counted.by_domain(columns.label(term.topology_key))
    if table.any():
        before = tables.get(term.topology_key)
        weighted = table if weight == 1 else weight * table
        tables[term.topology_key] = weighted if before is None else before + weighted


def _matching_tables(columns: NodeColumns, info: PodInfo, objects: ClusterObjects) -> Tables:
    """How many pods in each domain carry a required anti-affinity term that matches the pod."""
    tables: Tables = {}
    for term, column in columns.counts.required_anti.matching(
        info, _namespace_labels(objects, info.pod.metadata.namespace)
    ):
        _add(tables, columns, term, column, 1)
    return tables


def _any_positive(tables: Tables, nodes: NodeView) -> Bools | None:
    """bool[nodes.size]: where the domain of some table holds more than 0; None for nowhere."""
    found: Bools | None = None
    for topology_key, table in tables.items():
        positive = table[nodes.columns.label(topology_key).codes[nodes.rows]] > 0
        found = positive if found is None else found | positive
    return found


def _terms(pod: Pod) -> AffinityTerms:
    try:
        return terms_of(pod)
    except SelectorError:
        return AffinityTerms()


def _pod_matters(pod: Pod, old: object | None, new: object | None) -> bool:
    """True if a pod that the parked pod wants has come, or one that it (or that) does not want has gone."""
    changed = new if isinstance(new, Pod) else old
    assert isinstance(changed, Pod)
    if changed.metadata.uid == pod.metadata.uid:
        return True
    own = _terms(pod)

    def all_match(terms: Sequence[AffinityTerm], other: object | None) -> bool:
        return isinstance(other, Pod) and all(_might_match(term, other) for term in terms)

    def any_match(terms: Sequence[AffinityTerm], other: object | None) -> bool:
        return isinstance(other, Pod) and any(_might_match(term, other) for term in terms)

    if own.required and all_match(own.required, new) and not all_match(own.required, old):
        return True
    if any_match(own.required_anti, old) and not any_match(own.required_anti, new):
        return True
    if isinstance(new, Pod):
        return False
    return any(_might_match(term, pod) for term in _terms(changed).required_anti)


def _might_match(term: AffinityTerm, pod: Pod) -> bool:
    """True unless the term surely does not select the pod; a namespace's labels are not known here."""
    by_selector = not term.namespace_selector.nothing
    return (by_selector or pod.metadata.namespace in term.namespaces) and term.selector.matches(pod.metadata.labels)


def _node_matters(pod: Pod, old: object | None, new: object | None) -> bool:
    """True if a node has come to a topology where the parked pod may be, or has left one where it may not.

    A pod without terms of its own was rejected for those of pods on the nodes, whose topologies are not known here.
    """
    assert isinstance(new, Node)
    own = _terms(pod)
    after = new.metadata.labels
    if not isinstance(old, Node):
        return not own.required or any(term.topology_key in after for term in own.required) or bool(own.required_anti)
    before = old.metadata.labels
    if not own.required and not own.required_anti:
        return True
    joined = any(after.get(t.topology_key) not in (None, before.get(t.topology_key)) for t in own.required)
    left = any(before.get(t.topology_key) not in (None, after.get(t.topology_key)) for t in own.required_anti)
    return joined or left

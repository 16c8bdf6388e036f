"""InterPodAffinity: places pods near pods that they want, and away from pods that they, or those,
do not want.

Who is where is counted by column (see berth.actors.scheduling.model.pod_counts): for each topology
one of what the pod itself asks for, and one for all pods on the nodes that carry the same terms. A
topology's counts are one bincount over its label column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from berth.actors.scheduling.kube.labels import SelectorError
from berth.actors.scheduling.model.affinity_terms import (
    NO_LABELS,
    NO_TERMS,
    AffinityTerm,
    AffinityTerms,
    TermWeights,
    WeightedTerm,
    with_namespaces,
)
from berth.actors.scheduling.model.cluster_objects import ClusterObjects
from berth.actors.scheduling.model.columns import NodeColumns
from berth.actors.scheduling.model.pod_counts import MOST_COLUMNS, Column, Counted, Weighed
from berth.actors.scheduling.model.pod_info import info_of
from berth.actors.scheduling.model.vectors import highest, lowest, some
from berth.plugin import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    Action,
    ArgsError,
    Bools,
    ClusterEvent,
    Code,
    CycleState,
    FilterPlugin,
    Handle,
    Hint,
    Ints,
    Namespace,
    Node,
    NodeView,
    Plugin,
    Pod,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Registration,
    Resource,
    ScorePlugin,
    Snapshot,
    StateKey,
    Status,
    UnlistedError,
    Verdicts,
    read_args,
    unresolvable,
)

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
MAX_HARD_WEIGHT = 100

# Topology key -> a mark for each domain, by label code; the last place is for nodes without the
# label.
Domains = dict[str, Bools]
# Topology key -> what is counted in each domain, as in Domains, and what one of it is worth.
Scored = dict[str, list[tuple[Ints, int]]]


class InterPodAffinityArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    hard_pod_affinity_weight: int | None = None
    ignore_preferred_terms_of_existing_pods: bool = False


class Wanted(msgspec.Struct, frozen=True):
    """The domains that the pod may not be in: for what it wants, for what it does not, and for what
    others do not.
    """

    affinity: Domains
    anti_affinity: Domains
    existing: Domains


_WANTED: StateKey[Wanted] = StateKey("PreFilterInterPodAffinity")
_SCORED: StateKey[Scored] = StateKey("PreScoreInterPodAffinity")


class Asked(msgspec.Struct, frozen=True):
    """What the terms of a pod count: all required ones together, of the others what pods weigh in
    each topology.

    What attracts and what repels are weighed apart, so that they never make up for each other.
    """

    required: Counted
    required_anti: tuple[tuple[str, Weighed], ...]
    preferred: tuple[tuple[str, Weighed], ...]


class InScope:
    """What pods' terms count, the namespaces that their selectors select added by name; kept until
    one changes.
    """

    def __init__(self) -> None:
        self._objects: ClusterObjects | None = None
        self._version = -1
        self._asked: dict[AffinityTerms, Asked] = {}

    def of(self, terms: AffinityTerms, objects: ClusterObjects) -> Asked:
        version = objects.version(Namespace)
        if (
            version != self._version
            or objects is not self._objects
            or len(self._asked) >= MOST_COLUMNS
        ):
            self._objects, self._version = objects, version
            self._asked.clear()
        asked = self._asked.get(terms)
        if asked is None:
            asked = self._asked[terms] = _asked(terms, objects)
        return asked


def _asked(terms: AffinityTerms, objects: ClusterObjects) -> Asked:
    preferred = [weighted.term for weighted in terms.preferred]
    by_selector = any(
        t.namespace_selector.requirements
        for t in (*terms.required, *terms.required_anti, *preferred)
    )
    found = objects.within(Namespace) if by_selector else {}
    labels = {name: namespace.metadata.labels for name, namespace in found.items()}
    anti = [WeightedTerm(term, 1) for term in with_namespaces(terms.required_anti, labels)]
    weights = [weighted.weight for weighted in terms.preferred]
    soft = [
        WeightedTerm(*pair)
        for pair in zip(with_namespaces(preferred, labels), weights, strict=True)
    ]
    return Asked(
        Counted(with_namespaces(terms.required, labels)), _by_topology(anti), _by_topology(soft)
    )


def _by_topology(terms: Iterable[WeightedTerm]) -> tuple[tuple[str, Weighed], ...]:
    found: dict[tuple[str, bool], list[WeightedTerm]] = {}
    for weighted in terms:
        found.setdefault((weighted.term.topology_key, weighted.weight < 0), []).append(weighted)
    return tuple(
        (topology_key, Weighed(TermWeights(tuple(some))))
        for (topology_key, _), some in found.items()
    )


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "InterPodAffinity"
    lookups = (Namespace,)

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        read = read_args(args, InterPodAffinityArgs)
        weight = read.hard_pod_affinity_weight
        self._hard_weight = 1 if weight is None else weight
        if not 0 <= self._hard_weight <= MAX_HARD_WEIGHT:
            raise ArgsError(
                f"hardPodAffinityWeight: expected 0 to {MAX_HARD_WEIGHT}, got {self._hard_weight}"
            )
        self._ignore_existing = read.ignore_preferred_terms_of_existing_pods
        self._in_scope = InScope()

    # ------------------------------------------------------------------------------------ filtering

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        try:
            own = info.affinity_terms
        except SelectorError as problem:
            return unresolvable(f"pod affinity: {problem}")
        columns, objects = snapshot.columns, snapshot.objects
        asks = own.required or own.required_anti
        if not asks and not columns.counts.required_anti.columns:
            return SKIP
        existing: Domains = {}
        for topology_key, _, column in columns.counts.required_anti.matching(
            info, _around(info, objects)
        ):
            _mark_some(existing, columns, topology_key, column)
        if not existing and not asks:
            return SKIP
        anti: Domains = {}
        affinity: Domains = {}
        if asks:
            asked = self._in_scope.of(own, objects)
            for topology_key, weighed in asked.required_anti:
                if columns.label(topology_key).nodes:
                    _mark_some(anti, columns, topology_key, columns.counts.column(weighed))
            if own.required:
                affinity = _far(info, asked.required, columns)
        state.write(_WANTED, Wanted(affinity, anti, existing))
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        wanted = state.read(_WANTED)
        keys: Ints | None = None
        for domains, key in ((wanted.existing, 3), (wanted.anti_affinity, 2), (wanted.affinity, 1)):
            where = _inside(domains, nodes)
            if where is not None and some(where):
                keys = np.zeros(nodes.size, dtype=np.int64) if keys is None else keys
                keys[where] = key
        return None if keys is None else Verdicts(_CODES[keys], keys, lambda key: (_REASONS[key],))

    def passing(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
        wanted = state.read(_WANTED)
        rejected: Domains = {**wanted.existing}
        for domains in (wanted.anti_affinity, wanted.affinity):
            for topology_key, marks in domains.items():
                _mark(rejected, topology_key, marks)
        where = _inside(rejected, nodes)
        return None if where is None else ~where

    # -------------------------------------------------------------------------------------- scoring

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        own = info.affinity_terms.preferred
        if self._ignore_existing and not own:
            return SKIP
        columns, objects = nodes.columns, nodes.snapshot.objects
        counts = columns.counts
        if not own and not counts.required.columns and not counts.preferred.columns:
            return SKIP
        scored: Scored = {}
        for topology_key, weighed in (
            self._in_scope.of(info.affinity_terms, objects).preferred if own else ()
        ):
            if columns.label(topology_key).nodes:
                _weigh(scored, columns, topology_key, counts.column(weighed), 1)
        around = _around(info, objects)
        if self._hard_weight:
            for topology_key, number, column in counts.required.matching(info, around):
                _weigh(scored, columns, topology_key, column, number * self._hard_weight)
        for topology_key, weight, column in counts.preferred.matching(info, around):
            _weigh(scored, columns, topology_key, column, weight)
        if not scored:
            return SKIP
        state.write(_SCORED, scored)
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        scores: Ints | None = None
        for topology_key, tables in state.read(_SCORED).items():
            codes = nodes.columns.label(topology_key).codes[nodes.rows]
            for table, weight in tables:
                own = table[codes] if weight == 1 else table[codes] * weight
                scores = own if scores is None else scores + own
        return np.zeros(nodes.size, dtype=np.int64) if scores is None else scores

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        if not len(scores):
            return scores
        least = lowest(scores)
        spread = highest(scores) - least
        if spread <= 0:
            return np.zeros(len(scores), dtype=np.int64)
        return (MAX_NODE_SCORE * ((scores - least) / spread)).astype(np.int64)

    # --------------------------------------------------------------------------------------- events

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
    (Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE),
    dtype=np.int8,
)
_REASONS = ("", REASON_AFFINITY, REASON_ANTI_AFFINITY, REASON_EXISTING)


class _UnknownLabels(dict[str, str]):
    """The labels of a namespace that is not known: who asks for one gets the reason, as
    UnlistedError.
    """

    def __init__(self, unlisted: UnlistedError) -> None:
        super().__init__()
        self._unlisted = unlisted

    def get(self, *_: object) -> Any:
        raise self._unlisted

    def __contains__(self, _: object) -> bool:
        raise self._unlisted


def _around(info: PodInfo, objects: ClusterObjects) -> Mapping[str, str]:
    """The labels of the pod's namespace."""
    try:
        namespace = objects.get(Namespace, info.pod.metadata.namespace)
    except UnlistedError as unlisted:
        return _UnknownLabels(unlisted)
    return NO_LABELS if namespace is None else namespace.metadata.labels


def _far(info: PodInfo, wanted: Counted, columns: NodeColumns) -> Domains:
    """The domains without a pod that the terms want, or none where the pod may be the first of its
    kind.
    """
    counted, pod = columns.counts.column(wanted), info.pod.metadata
    labels = {term.topology_key: columns.label(term.topology_key) for term in wanted.terms}
    absent = next((topology_key for topology_key, label in labels.items() if not label.nodes), None)
    if absent is not None:  # No node will do, whatever the other terms say.
        labels = {absent: labels[absent]}
    tables = {topology_key: counted.by_domain(label) for topology_key, label in labels.items()}
    first = not any(table.total for table in tables.values())
    first = first and all(
        term.matches(pod.namespace, pod.labels, NO_LABELS) for term in wanted.terms
    )
    far: Domains = {}
    for topology_key, table in tables.items():
        without = np.zeros(len(table.some), dtype=np.bool_) if first else ~table.some
        without[-1] = not columns.all_have(labels[topology_key])
        if some(without):
            far[topology_key] = without
    return far


def _weigh(
    scored: Scored, columns: NodeColumns, topology_key: str, counted: Column, weight: int
) -> None:
    """Add what is counted, if any of it is on a node with the label of the topology."""
    if counted.total:
        table = counted.by_domain(columns.label(topology_key))
        if table.total:
            scored.setdefault(topology_key, []).append((table.sums, weight))


def _mark_some(domains: Domains, columns: NodeColumns, topology_key: str, counted: Column) -> None:
    """Mark the domains of the topology that hold some of what is counted."""
    if counted.total:
        table = counted.by_domain(columns.label(topology_key))
        if table.total:
            _mark(domains, topology_key, table.some)


def _mark(domains: Domains, topology_key: str, marks: Bools) -> None:
    before = domains.get(topology_key)
    domains[topology_key] = marks if before is None else before | marks


def _inside(domains: Domains, nodes: NodeView) -> Bools | None:
    """bool[nodes.size]: which nodes are in a domain that is marked; None for nowhere."""
    inside: Bools | None = None
    for topology_key, marks in domains.items():
        found = marks[nodes.columns.label(topology_key).codes[nodes.rows]]
        inside = found if inside is None else inside | found
    return inside


def _terms(pod: Pod) -> AffinityTerms:
    if pod.spec.affinity is None:
        return NO_TERMS
    try:
        return info_of(pod).affinity_terms
    except SelectorError:
        return NO_TERMS


def _pod_matters(pod: Pod, old: object | None, new: object | None) -> bool:
    """True if a pod that the parked pod wants has come, or one that it (or that) does not want has
    gone.
    """
    changed = new if isinstance(new, Pod) else old
    assert isinstance(changed, Pod)
    if changed.metadata.uid == pod.metadata.uid:
        return True
    own = _terms(pod)

    def all_match(terms: Sequence[AffinityTerm], other: object | None) -> bool:
        return isinstance(other, Pod) and all(_might_match(term, other) for term in terms)

    def any_match(terms: TermWeights, other: object | None) -> bool:
        return isinstance(other, Pod) and terms.may_match(
            other.metadata.namespace, other.metadata.labels
        )

    if own.required and all_match(own.required, new) and not all_match(own.required, old):
        return True
    anti = own.required_anti_weights
    if own.required_anti and any_match(anti, old) and not any_match(anti, new):
        return True
    return not isinstance(new, Pod) and any_match(_terms(changed).required_anti_weights, pod)


def _might_match(term: AffinityTerm, pod: Pod) -> bool:
    """True unless the term surely does not select the pod; a namespace's labels are not known
    here.
    """
    return term.scope.may_cover(pod.metadata.namespace) and term.selector.matches(
        pod.metadata.labels
    )


def _node_matters(pod: Pod, old: object | None, new: object | None) -> bool:
    """True if a node has come to a topology where the parked pod may be, or has left one where it
    may not.

    A pod without terms of its own was rejected for those of pods on the nodes, whose topologies are
    not known here.
    """
    assert isinstance(new, Node)
    own = _terms(pod)
    after = new.metadata.labels
    if not isinstance(old, Node):
        return (
            not own.required
            or any(term.topology_key in after for term in own.required)
            or bool(own.required_anti)
        )
    before = old.metadata.labels
    if not own.required and not own.required_anti:
        return True
    joined = any(
        after.get(t.topology_key) not in (None, before.get(t.topology_key)) for t in own.required
    )
    left = any(
        before.get(t.topology_key) not in (None, after.get(t.topology_key))
        for t in own.required_anti
    )
    return joined or left

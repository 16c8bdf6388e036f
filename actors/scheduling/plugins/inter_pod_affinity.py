"""InterPodAffinity: applies affinity and anti-affinity between a pod and the pods on nodes.

It applies the terms of the pod, and the terms of the pods on nodes that match the pod. Both are
counted in columns (see berth.actors.scheduling.model.pod_counts): for each topology one column of
the pods that the pod's own terms match, and one column for each set of terms that pods on nodes
carry. The counts by domain are one bincount over the label column of the topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from berth.config.types import described
from berth.plugin import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    Action,
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
    PluginArgs,
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

from ..kube.labels import SelectorError
from ..kube.meta import ObjectMeta, own
from ..model.affinity_terms import (
    NO_LABELS,
    AffinityTerms,
    TermWeights,
    WeightedTerm,
    with_namespaces,
)
from ..model.cluster_objects import ClusterObjects
from ..model.columns import NodeColumns
from ..model.many_terms import NO_CARRIED_TERMS, CarriedTerms, ManyTerms
from ..model.pod_counts import (
    MAX_COLUMNS,
    Column,
    CountedPods,
    MatchedByAll,
    WeighedByPart,
    WeighedPods,
)
from ..model.pod_info import LatestPodInfos
from ..model.pod_template import PodTemplate
from ..model.vectors import any_true, highest, lowest

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
MAX_HARD_WEIGHT = 100

# Topology key -> a mark for each domain, by label code; the last element is for nodes without the
# label.
MarkedDomains = dict[str, Bools]
# Topology key -> pairs of counts by domain, indexed as above, and the weight of each count.
WeightedCounts = dict[str, list[tuple[Ints, int]]]


class InterPodAffinityArgs(PluginArgs, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of InterPodAffinity."""

    hard_pod_affinity_weight: Annotated[
        int,
        msgspec.Meta(ge=0, le=MAX_HARD_WEIGHT),
        described("How much the required affinity of other pods to this one counts."),
    ] = 1
    ignore_preferred_terms_of_existing_pods: Annotated[
        bool, described("The preferences of other pods count only for pods with affinity.")
    ] = False


class RejectedDomains(msgspec.Struct, frozen=True):
    """The domains that reject the pod.

    `affinity` and `anti_affinity` are for the pod's own terms, and `existing` is for the
    anti-affinity terms of pods on nodes.
    """

    affinity: MarkedDomains
    anti_affinity: MarkedDomains
    existing: MarkedDomains


_REJECTED: StateKey[RejectedDomains] = StateKey(
    "PreFilterInterPodAffinity",
    'error reading "PreFilterInterPodAffinity" from cycleState: not found',
)
_WEIGHTED: StateKey[WeightedCounts] = StateKey(
    "PreScoreInterPodAffinity",
    'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
)


ColumnsByTopology = tuple[tuple[str, WeighedPods | WeighedByPart], ...]


class OwnColumns(msgspec.Struct, frozen=True):
    """The columns of a pod's own terms.

    `required` counts the pods that match all required terms. The other columns sum weights by
    topology key. Positive and negative weights are in separate columns, so that they never cancel
    out.
    """

    required: CountedPods | MatchedByAll
    required_anti: ColumnsByTopology
    preferred: ColumnsByTopology


class OwnColumnsByTerms:
    """The columns of terms, kept until a Namespace changes; those of heavy pods are kept with their
    template.

    The terms include by name the namespaces that their selectors match.
    """

    def __init__(self) -> None:
        self._objects: ClusterObjects | None = None
        self._version = -1
        self._columns: dict[CarriedTerms, OwnColumns] = {}

    def of(self, template: PodTemplate, objects: ClusterObjects) -> OwnColumns:
        version = objects.version(Namespace)
        if (
            version != self._version
            or objects is not self._objects
            or len(self._columns) >= MAX_COLUMNS
        ):
            self._objects, self._version = objects, version
            self._columns = {}  # not cleared, as templates name it
        terms = template.carried_terms
        columns = self._columns.get(terms)
        if columns is None:
            if template.is_heavy:
                return self._of_heavy(template, objects)
            columns = self._columns[terms] = _new_own_columns(template, objects)
        return columns

    def _of_heavy(self, template: PodTemplate, objects: ClusterObjects) -> OwnColumns:
        kept: tuple[object, OwnColumns] | None = template.derived.get(self)
        if kept is None or kept[0] is not self._columns:
            kept = template.derived[self] = self._columns, _new_own_columns(template, objects)
        return kept[1]


def _new_own_columns(template: PodTemplate, objects: ClusterObjects) -> OwnColumns:
    terms = template.carried_terms
    if terms.are_many:
        return _columns_of_many(terms, objects)
    return _own_columns(template.affinity_terms, objects)


def _own_columns(terms: AffinityTerms, objects: ClusterObjects) -> OwnColumns:
    preferred = [weighted.term for weighted in terms.preferred]
    by_selector = any(
        t.namespace_selector.requirements
        for t in (*terms.required, *terms.required_anti, *preferred)
    )
    labels = _labels_of_namespaces(objects) if by_selector else {}
    anti = [WeightedTerm(term, 1) for term in with_namespaces(terms.required_anti, labels)]
    weights = [weighted.weight for weighted in terms.preferred]
    soft = [
        WeightedTerm(*pair)
        for pair in zip(with_namespaces(preferred, labels), weights, strict=True)
    ]
    return OwnColumns(
        CountedPods(with_namespaces(terms.required, labels)), _by_topology(anti), _by_topology(soft)
    )


def _labels_of_namespaces(objects: ClusterObjects) -> Mapping[str, Mapping[str, str]]:
    namespaces = objects.within(Namespace)
    return {name: namespace.metadata.labels for name, namespace in namespaces.items()}


def _columns_of_many(terms: CarriedTerms, objects: ClusterObjects) -> OwnColumns:
    def resolved(terms: TermWeights | ManyTerms) -> ManyTerms | None:
        if not isinstance(terms, ManyTerms):
            return None  # There are no such terms.
        if not terms.select_namespaces:
            return terms
        return terms.with_namespaces(_labels_of_namespaces(objects))

    def by_part(terms: ManyTerms | None) -> ColumnsByTopology:
        if terms is None:
            return ()
        return tuple((part[0], WeighedByPart(terms, part)) for part in terms.parts)

    required = resolved(terms.required)
    return OwnColumns(
        CountedPods(()) if required is None else MatchedByAll(required),
        by_part(resolved(terms.required_anti)),
        by_part(resolved(terms.preferred)),
    )


def _by_topology(terms: Iterable[WeightedTerm]) -> ColumnsByTopology:
    by_topology: dict[tuple[str, bool], list[WeightedTerm]] = {}
    for weighted in terms:
        by_topology.setdefault((weighted.term.topology_key, weighted.weight < 0), []).append(
            weighted
        )
    return tuple(
        (topology_key, WeighedPods(TermWeights(tuple(weighted))))
        for (topology_key, _), weighted in by_topology.items()
    )


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "InterPodAffinity"
    only_own_values = True
    args_type = InterPodAffinityArgs
    lookups = (Namespace,)

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        read = read_args(args, InterPodAffinityArgs, handle.feature_gates)
        self._hard_weight = read.hard_pod_affinity_weight
        self._ignore_existing = read.ignore_preferred_terms_of_existing_pods
        self._own_columns = OwnColumnsByTerms()

    # ------------------------------------------------------------------------------------ filtering

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        try:
            own = info.template.carried_terms
        except SelectorError as problem:
            return unresolvable(f"pod affinity: {problem}")
        columns, objects = snapshot.columns, snapshot.objects
        has_required = own is not NO_CARRIED_TERMS and bool(own.required or own.required_anti)
        if not has_required and not columns.counts.required_anti.columns:
            return SKIP
        existing: MarkedDomains = {}
        if columns.counts.required_anti.columns:
            for topology_key, _, column in columns.counts.required_anti.matching(
                info, _namespace_labels(info, objects), columns.label_keys
            ):
                _mark_populated(existing, columns, topology_key, column)
        if not existing and not has_required:
            return SKIP
        anti: MarkedDomains = {}
        affinity: MarkedDomains = {}
        if has_required:
            own_columns = self._own_columns.of(info.template, objects)
            for topology_key, weighed in own_columns.required_anti:
                if columns.label(topology_key).nodes:
                    _mark_populated(anti, columns, topology_key, columns.counts.column(weighed))
            if own.required:
                affinity = _without_matching_pods(info, own_columns.required, columns)
        state.write(_REJECTED, RejectedDomains(affinity, anti, existing))
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        rejected = state.read(_REJECTED)
        keys: Ints | None = None
        for domains, key in (
            (rejected.existing, 3),
            (rejected.anti_affinity, 2),
            (rejected.affinity, 1),
        ):
            where = _nodes_in(domains, nodes)
            if where is not None and any_true(where):
                keys = np.zeros(nodes.size, dtype=np.int64) if keys is None else keys
                keys[where] = key
        return None if keys is None else Verdicts(_CODES[keys], keys, lambda key: (_REASONS[key],))

    def passing(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
        rejected = state.read(_REJECTED)
        if not (rejected.existing or rejected.anti_affinity or rejected.affinity):
            return None
        union: MarkedDomains = {**rejected.existing}
        for domains in (rejected.anti_affinity, rejected.affinity):
            for topology_key, marks in domains.items():
                _mark(union, topology_key, marks)
        where = _nodes_in(union, nodes)
        return None if where is None else ~where

    # -------------------------------------------------------------------------------------- scoring

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        own = info.template.carried_terms.preferred
        if self._ignore_existing and not own:
            return SKIP
        columns, objects = nodes.columns, nodes.snapshot.objects
        counts = columns.counts
        if not own and not counts.required.columns and not counts.preferred.columns:
            return SKIP
        weighted: WeightedCounts = {}
        for topology_key, weighed in (
            self._own_columns.of(info.template, objects).preferred if own else ()
        ):
            if columns.label(topology_key).nodes:
                _add_counts(weighted, columns, topology_key, counts.column(weighed), 1)
        labels, label_keys = _namespace_labels(info, objects), columns.label_keys
        if self._hard_weight:
            for topology_key, number, column in counts.required.matching(info, labels, label_keys):
                _add_counts(weighted, columns, topology_key, column, number * self._hard_weight)
        for topology_key, weight, column in counts.preferred.matching(info, labels, label_keys):
            _add_counts(weighted, columns, topology_key, column, weight)
        if not weighted:
            return SKIP
        state.write(_WEIGHTED, weighted)
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        scores: Ints | None = None
        for topology_key, weighted in state.read(_WEIGHTED).items():
            codes = nodes.columns.label(topology_key).codes[nodes.rows]
            for counts, weight in weighted:
                own = counts[codes] if weight == 1 else counts[codes] * weight
                scores = own if scores is None else scores + own
        return np.zeros(nodes.size, dtype=np.int64) if scores is None else scores

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        if not len(scores):
            return scores
        low = lowest(scores)
        spread = highest(scores) - low
        if spread <= 0:
            return np.zeros(len(scores), dtype=np.int64)
        return (MAX_NODE_SCORE * ((scores - low) / spread)).astype(np.int64)

    # --------------------------------------------------------------------------------------- events

    def events_to_register(self) -> Sequence[Registration]:
        infos = LatestPodInfos()

        def pod_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
            return Hint.QUEUE if _pod_matters(infos, pod, old, new) else Hint.SKIP

        def node_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
            return Hint.QUEUE if _node_matters(_terms(infos, pod), old, new) else Hint.SKIP

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
    """The labels of an unknown namespace. Reading one raises UnlistedError with the reason."""

    def __init__(self, unlisted: UnlistedError) -> None:
        super().__init__()
        self._unlisted = unlisted

    def get(self, *_: object) -> Any:
        raise self._unlisted

    def __contains__(self, _: object) -> bool:
        raise self._unlisted

    def items(self) -> Any:
        raise self._unlisted


_LABELS = own(ObjectMeta, "labels")


def _namespace_labels(info: PodInfo, objects: ClusterObjects) -> Mapping[str, str]:
    """Returns the labels of the pod's namespace."""
    try:
        namespace = objects.get(Namespace, info.pod.metadata.namespace)
    except UnlistedError as unlisted:
        return _UnknownLabels(unlisted)
    return NO_LABELS if namespace is None else _LABELS(namespace.metadata)


def _without_matching_pods(
    info: PodInfo, required: CountedPods | MatchedByAll, columns: NodeColumns
) -> MarkedDomains:
    """Marks the domains in which no pod matches the required terms.

    It marks only nodes without the label if no pod matches anywhere and the pod matches its own
    terms: it may then be the first of its kind.
    """
    labels = {key: columns.label(key) for key in required.topologies}
    absent = next((topology_key for topology_key, label in labels.items() if not label.nodes), None)
    if absent is not None:  # This term rejects every node, so the other terms do not matter.
        labels = {absent: labels[absent]}
    column = columns.counts.column(required)
    counts = {topology_key: column.by_domain(label) for topology_key, label in labels.items()}
    first = not any(domains.total for domains in counts.values())
    first = first and bool(required.weight_of(info.group, info.pod.metadata.labels))
    marked: MarkedDomains = {}
    for topology_key, domains in counts.items():
        marks = np.zeros(len(domains.populated), dtype=np.bool_) if first else ~domains.populated
        marks[-1] = not columns.all_have(labels[topology_key])
        if any_true(marks):
            marked[topology_key] = marks
    return marked


def _add_counts(
    weighted: WeightedCounts, columns: NodeColumns, topology_key: str, column: Column, weight: int
) -> None:
    """Adds the counts by domain, times their weight. Does nothing if all are 0."""
    label = columns.label(topology_key)
    if label.nodes and column.total:
        counts = column.by_domain(label)
        if counts.total:
            weighted.setdefault(topology_key, []).append((counts.sums, weight))


def _mark_populated(
    marked: MarkedDomains, columns: NodeColumns, topology_key: str, column: Column
) -> None:
    """Marks the domains in which the column counts pods."""
    label = columns.label(topology_key)
    if label.nodes and column.total:
        counts = column.by_domain(label)
        if counts.total:
            _mark(marked, topology_key, counts.populated)


def _mark(marked: MarkedDomains, topology_key: str, marks: Bools) -> None:
    before = marked.get(topology_key)
    marked[topology_key] = marks if before is None else before | marks


def _nodes_in(marked: MarkedDomains, nodes: NodeView) -> Bools | None:
    """Returns bool[nodes.size]: the nodes in some marked domain; None if no domain is marked."""
    inside: Bools | None = None
    for topology_key, marks in marked.items():
        in_domain = marks[nodes.columns.label(topology_key).codes[nodes.rows]]
        inside = in_domain if inside is None else inside | in_domain
    return inside


def _terms(infos: LatestPodInfos, pod: Pod) -> CarriedTerms:
    if pod.spec.affinity is None:
        return NO_CARRIED_TERMS
    try:
        return infos.of(pod).template.carried_terms
    except SelectorError:
        return NO_CARRIED_TERMS


def _pod_matters(infos: LatestPodInfos, pod: Pod, old: object | None, new: object | None) -> bool:
    """True if the change of another pod can help the parked pod.

    It helps if a pod that its affinity requires appeared, or if a pod disappeared that its
    anti-affinity excludes or whose anti-affinity excludes it.
    """
    changed = new if isinstance(new, Pod) else old
    assert isinstance(changed, Pod)
    if changed.metadata.uid == pod.metadata.uid:
        return True
    own = _terms(infos, pod)

    def number(terms: TermWeights | ManyTerms, other: object | None) -> int:
        if not isinstance(other, Pod):
            return 0
        return terms.number_that_may_match(other.metadata.namespace, other.metadata.labels)

    def all_match(terms: TermWeights | ManyTerms, other: object | None) -> bool:
        return number(terms, other) == len(terms)

    if own.required and all_match(own.required, new) and not all_match(own.required, old):
        return True
    anti = own.required_anti
    if anti and number(anti, old) and not number(anti, new):
        return True
    if isinstance(new, Pod):
        return False
    theirs = _terms(infos, changed).required_anti
    return bool(theirs) and number(theirs, pod) > 0


def _node_matters(own: CarriedTerms, old: object | None, new: object | None) -> bool:
    """True if the change of a node can help a parked pod with these terms.

    It helps if the node joined a topology of its affinity, or left one of its anti-affinity. A pod
    without own terms was rejected because of the terms of pods on nodes. The topologies of these
    terms are unknown here, so any change may help it.
    """
    assert isinstance(new, Node)
    after = new.metadata.labels
    if not isinstance(old, Node):
        return (
            not own.required
            or not own.required.topologies.isdisjoint(after)
            or bool(own.required_anti)
        )
    before = old.metadata.labels
    if not own.required and not own.required_anti:
        return True
    near, away = own.required.topologies, own.required_anti.topologies
    joined = any(key in near and before.get(key) != value for key, value in after.items())
    left = any(key in away and after.get(key) != value for key, value in before.items())
    return joined or left

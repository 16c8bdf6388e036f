"""PodTopologySpread: spreads the pods that a selector matches evenly over zones, hosts and so on.

Pods are counted by row and by domain (see berth.actors.scheduling.model.pod_counts). A node is
filtered and scored by the count of its domain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from berth.config.names import is_qualified_name
from berth.config.types import (
    Int32,
    described,
)
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
    ReplicaSet,
    ReplicationController,
    Resource,
    ScorePlugin,
    Service,
    Snapshot,
    StatefulSet,
    StateKey,
    Status,
    Verdicts,
    read_args,
)

from ..kube.core import TopologySpreadConstraint
from ..kube.labels import (
    EVERYTHING,
    NOTHING,
    Selector,
    SelectorError,
    from_label_selector,
    from_map,
)
from ..kube.meta import ObjectMeta, own
from ..kube.selector_index import SelectorIndex
from ..model.cluster_objects import ClusterObjects
from ..model.label_column import LabelColumn
from ..model.pod_info import LatestPodInfos
from ..model.pod_template import PerTemplate
from ..model.vectors import Floats, any_true, highest, lowest
from .spread_domains import (
    Constraint,
    Eligibility,
    constraint_of,
    have_all,
    pods_by_domain,
    pods_by_row,
)

REASON = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON} (missing required label)"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NO_DOMAIN_MINIMUM = (1 << 31) - 1  # the minimum count if there is no domain
Unsatisfiable = Literal["DoNotSchedule", "ScheduleAnyway"]
HARD: Literal["DoNotSchedule"] = "DoNotSchedule"
SOFT: Literal["ScheduleAnyway"] = "ScheduleAnyway"


class DefaultConstraint(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A constraint of the profile. Its selector is derived from the pod's Services and owner."""

    max_skew: Annotated[
        Int32, described("How much the numbers of pods in two domains may differ.")
    ] = 0
    topology_key: Annotated[str, described("The label of nodes that makes the domains.")] = ""
    when_unsatisfiable: Annotated[
        Unsatisfiable | None, described("Whether the constraint filters or scores.")
    ] = None
    min_domains: Annotated[
        Int32 | None, described("With fewer domains, the least number of pods counts as 0.")
    ] = None
    node_affinity_policy: Annotated[
        Literal["Honor", "Ignore"] | None,
        described("Whether only nodes that the pod's node affinity matches count."),
    ] = None
    node_taints_policy: Annotated[
        Literal["Honor", "Ignore"] | None,
        described("Whether only nodes whose taints the pod tolerates count."),
    ] = None
    match_label_keys: Annotated[
        tuple[str, ...], described("No effect: the selector is derived for each pod.")
    ] = ()
    label_selector: Annotated[
        dict[str, Any] | None, described("Not allowed: the selector is derived for each pod.")
    ] = None


class PodTopologySpreadArgs(PluginArgs, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of PodTopologySpread."""

    default_constraints: Annotated[
        tuple[DefaultConstraint, ...],
        described("The constraints of pods without their own; only with defaultingType List."),
    ] = ()
    defaulting_type: Annotated[
        Literal["System", "List"],
        described("System: over hostnames and zones, softly. List: by defaultConstraints."),
    ] = "System"

    def problems(self, gates: Mapping[str, bool]) -> Iterable[str]:
        if self.defaulting_type == "System" and self.default_constraints:
            yield "defaultConstraints: expected none with defaultingType System"
        seen: set[tuple[str, str | None]] = set()
        for i, constraint in enumerate(self.default_constraints):
            path = f"defaultConstraints[{i}]"
            yield from _constraint_problems(constraint, path)
            ends = (constraint.topology_key, constraint.when_unsatisfiable)
            if ends in seen:
                yield (
                    f"{path}: an earlier constraint has the same topologyKey and whenUnsatisfiable"
                )
            seen.add(ends)


def _constraint_problems(constraint: DefaultConstraint, path: str) -> Iterable[str]:
    if constraint.max_skew <= 0:
        yield f"{path}.maxSkew: expected a positive integer, got {constraint.max_skew}"
    if not is_qualified_name(constraint.topology_key):
        quoted_key = repr(constraint.topology_key) if constraint.topology_key else "nothing"
        yield f"{path}.topologyKey: expected a label key, got {quoted_key}"
    if constraint.when_unsatisfiable is None:
        yield f"{path}.whenUnsatisfiable: expected {HARD} or {SOFT}, got nothing"
    if constraint.label_selector is not None:
        yield f"{path}.labelSelector: expected nothing, it is derived for each pod"


SYSTEM_DEFAULTS = (DefaultConstraint(3, HOSTNAME, SOFT), DefaultConstraint(5, ZONE, SOFT))


class HardConstraints(msgspec.Struct, frozen=True):
    """The constraints of the filter, as hints need them: their topology keys, and an index of their
    selectors. Default constraints have no index, as they are unknown without Services.
    """

    keys: frozenset[str]
    selectors: SelectorIndex | None


class RejectedDomains(msgspec.Struct, frozen=True):
    """The domains that a constraint rejects, by label code.

    The last element is for nodes without the label.
    """

    column: LabelColumn
    rejected: Bools


class ScoredConstraint(msgspec.Struct, frozen=True):
    """A constraint for the nodes of a view.

    `codes` holds the domain of each node, or -1, and `counts` the pods in it, each int64[n].
    """

    constraint: Constraint
    codes: Ints
    counts: Ints
    weight: float


class Scoring(msgspec.Struct, frozen=True):
    """The scored constraints of a view. `ignored` marks the nodes that score 0; None if none do."""

    constraints: tuple[ScoredConstraint, ...]
    ignored: Bools | None


_REJECTED: StateKey[tuple[RejectedDomains, ...]] = StateKey("PreFilterPodTopologySpread")
_SCORING: StateKey[Scoring] = StateKey(
    "PreScorePodTopologySpread",
    'error reading "PreScorePodTopologySpread" from cycleState: not found',
)


class PodTopologySpread(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "PodTopologySpread"
    only_own_values = True
    args_type = PodTopologySpreadArgs
    lookups = (Service, ReplicationController, ReplicaSet, StatefulSet)

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        self._hinted = LatestPodInfos()
        read = read_args(args, PodTopologySpreadArgs, handle.feature_gates)
        self._system_defaults = read.defaulting_type == "System"
        defaults = [
            msgspec.convert(constraint, TopologySpreadConstraint, from_attributes=True)
            for constraint in (
                SYSTEM_DEFAULTS if self._system_defaults else read.default_constraints
            )
        ]
        self._defaults = {
            a: [c for c in defaults if c.when_unsatisfiable == a] for a in (HARD, SOFT)
        }
        keys = frozenset(constraint.topology_key for constraint in self._defaults[HARD])
        self._hard_defaults = HardConstraints(keys, None)
        self._eligible = {HARD: Eligibility(), SOFT: Eligibility()}

    # ------------------------------------------------------------------------------------ filtering

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        constraints = self._constraints(info, HARD, snapshot.objects)
        if not constraints:
            return SKIP
        eligible = self._eligible[HARD].of(constraints, info, snapshot, labelled=True)
        labels: Mapping[str, str] = info.pod.metadata.labels
        rejected_domains = []
        for constraint, where in zip(constraints, eligible, strict=True):
            column = snapshot.columns.label(constraint.topology_key)
            if not column.nodes:  # The constraint rejects every node, so later ones do not matter.
                every_code = np.ones(len(column.values) + 1, dtype=np.bool_)
                rejected_domains.append(RejectedDomains(column, every_code))
                break
            counts = pods_by_domain(constraint, where, column, info, snapshot)
            minimum = lowest(counts[where.domains]) if where.number else NO_DOMAIN_MINIMUM
            if where.number < constraint.min_domains:
                minimum = 0
            rejected = counts > constraint.max_skew + minimum - constraint.selector.matches(labels)
            rejected[-1] = not snapshot.columns.all_have(column)
            if any_true(rejected):
                rejected_domains.append(RejectedDomains(column, rejected))
        state.write(_REJECTED, tuple(rejected_domains))
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        keys: Ints | None = None
        for domains in state.read(_REJECTED):
            codes = domains.column.codes[nodes.rows]
            rejected = domains.rejected[codes]
            if any_true(rejected):
                own_keys = np.where(rejected, np.where(codes < 0, 1, 2), 0)
                keys = own_keys if keys is None else np.where(keys, keys, own_keys)
        if keys is None:
            return None
        return Verdicts(_CODES[keys], keys, lambda key: (REASON_LABEL if key == 1 else REASON,))

    def passing(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
        rejected: Bools | None = None
        for domains in state.read(_REJECTED):
            in_domains = domains.rejected[domains.column.codes[nodes.rows]]
            rejected = in_domains if rejected is None else rejected | in_domains
        return None if rejected is None else ~rejected

    # -------------------------------------------------------------------------------------- scoring

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        constraints = self._constraints(info, SOFT, nodes.snapshot.objects)
        if not constraints:
            return SKIP
        needs_all = bool(info.pod.spec.topology_spread_constraints) or not self._system_defaults
        columns = nodes.columns
        labels = [columns.label(constraint.topology_key) for constraint in constraints]
        ignored: Bools | None = None
        if needs_all and not all(columns.all_have(label) for label in labels):
            ignored = ~have_all(constraints, nodes)
            if not ignored.any():
                ignored = None
        scored = nodes.size if ignored is None else nodes.size - int(ignored.sum())
        eligible = self._eligible[SOFT].of(constraints, info, nodes.snapshot, labelled=needs_all)
        scored_constraints = []
        for constraint, label, where in zip(constraints, labels, eligible, strict=True):
            if not label.nodes:
                continue  # The constraint adds nothing to any score.
            codes = label.codes[nodes.rows]
            if constraint.topology_key == HOSTNAME:
                size, counts = scored, pods_by_row(constraint, info, columns)[nodes.rows]
            else:
                size = _number_of_codes(codes if ignored is None else codes[~ignored])
                counts = pods_by_domain(constraint, where, label, info, nodes.snapshot)[codes]
            scored_constraints.append(
                ScoredConstraint(constraint, codes, counts, math.log(size + 2))
            )
        state.write(_SCORING, Scoring(tuple(scored_constraints), ignored))
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        scoring = state.read(_SCORING)
        sums: Floats = np.zeros(nodes.size, dtype=np.float64)
        for scored in scoring.constraints:
            own = scored.counts * scored.weight + (scored.constraint.max_skew - 1)
            if not nodes.columns.all_have(nodes.columns.label(scored.constraint.topology_key)):
                own = np.where(scored.codes >= 0, own, 0.0)
            sums = sums + own
        whole = np.trunc(sums)
        rounded = (whole + (sums - whole >= 0.5)).astype(np.int64)
        if scoring.ignored is not None:
            rounded[scoring.ignored] = 0
        return rounded

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        ignored = state.read(_SCORING).ignored
        considered = scores if ignored is None else scores[~ignored]
        if not len(considered):
            return np.zeros(len(scores), dtype=np.int64)
        low, high = lowest(considered), max(highest(considered), 0)
        if high == 0:
            scaled: Ints = np.full(len(scores), MAX_NODE_SCORE, dtype=np.int64)
        else:
            scaled = MAX_NODE_SCORE * (high + low - scores) // high
        return scaled if ignored is None else np.where(ignored, 0, scaled)

    # ---------------------------------------------------------------------------------- constraints

    def _constraints(
        self, info: PodInfo, action: Unsatisfiable, objects: ClusterObjects
    ) -> tuple[Constraint, ...]:
        """Returns the pod's constraints with this action, or the profile's if the pod has none."""
        pod = info.pod
        if pod.spec.topology_spread_constraints:
            return _OWN[action](info.template, pod)
        defaults = self._defaults[action]
        if not defaults:
            return ()
        selector = default_selector(pod, objects, needs_all=not self._system_defaults)
        if not selector.requirements:
            return ()
        return tuple(constraint_of(c, selector, pod.metadata.namespace) for c in defaults)

    # --------------------------------------------------------------------------------------- events

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

    def _filter_constraints(self, pod: Pod) -> HardConstraints:
        """Returns the constraints that the filter applies."""
        if pod.spec.topology_spread_constraints:
            return _HARD(self._hinted.of(pod).template, pod)
        return self._hard_defaults

    def _pod_matters(self, pod: Pod, old: object | None, new: object | None) -> bool:
        """True if a constraint counts a pod before a change but not after it, or the reverse.

        The parked pod itself counts as if it were on a node.
        """
        both = [item for item in (old, new) if isinstance(item, Pod)]
        assert both
        if not all(_may_matter(item, pod) for item in both):
            return False
        if isinstance(old, Pod) and isinstance(new, Pod):
            before, after = old, new
            if _tolerations_matter(pod, before, after):
                return True
            if before.metadata.labels == after.metadata.labels:
                return False
        hard = self._filter_constraints(pod)
        if hard.selectors is None:
            return bool(hard.keys)
        counting = [hard.selectors.selecting(item.metadata.labels) for item in both]
        if len(counting) == 1:
            return bool(counting[0])
        return set(counting[0]) != set(counting[1])

    def _node_matters(self, pod: Pod, old: object | None, new: object | None) -> bool:
        """True if the change of a node can affect a constraint of the pod.

        The node must have, or have had, every topology key. It must have been added or removed, or
        have changed in a topology label or in its taints.
        """
        assert isinstance(old, Node) or isinstance(new, Node)
        keys = self._filter_constraints(pod).keys
        before = old.metadata.labels if isinstance(old, Node) else {}
        after = new.metadata.labels if isinstance(new, Node) else {}
        had, has = keys <= before.keys(), keys <= after.keys()
        if isinstance(old, Node) and isinstance(new, Node):
            moved = has and any(before.get(key) != after[key] for key in keys)
            retainted = old.spec.taints != new.spec.taints
            return had != has or (has and (moved or retainted))
        return had if isinstance(old, Node) else has


_CODES = np.array(
    (Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE), dtype=np.int8
)


def _number_of_codes(codes: Ints) -> int:
    """Returns the number of different codes, including -1."""
    return int(np.count_nonzero(np.bincount(codes + 1)))


def own_constraints(action: Unsatisfiable, pod: Pod) -> tuple[Constraint, ...]:
    """Returns the pod's own constraints with this value of whenUnsatisfiable."""
    own = (c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == action)
    return tuple(constraint_of(c, _selector(c, pod), pod.metadata.namespace) for c in own)


_OWN: Mapping[Unsatisfiable, PerTemplate[tuple[Constraint, ...]]] = {
    HARD: PerTemplate(partial(own_constraints, HARD)),
    SOFT: PerTemplate(partial(own_constraints, SOFT)),
}


def _hard_constraints(pod: Pod) -> HardConstraints:
    own = own_constraints(HARD, pod)
    keys = frozenset(constraint.topology_key for constraint in own)
    selectors = dict.fromkeys(constraint.selector for constraint in own)
    return HardConstraints(keys, SelectorIndex(tuple(selectors)))


_HARD: PerTemplate[HardConstraints] = PerTemplate(_hard_constraints)


def _may_matter(item: Pod, pod: Pod) -> bool:
    """True for the parked pod itself, and for assigned or nominated pods of its namespace."""
    if item.metadata.uid == pod.metadata.uid:
        return True
    node = item.spec.node_name or item.status.nominated_node_name
    return bool(node) and item.metadata.namespace == pod.metadata.namespace


def _tolerations_matter(pod: Pod, before: Pod, after: Pod) -> bool:
    """True if the parked pod's tolerations changed and a constraint honors taints."""
    if after.metadata.uid != pod.metadata.uid or before.spec.tolerations == after.spec.tolerations:
        return False
    hard = (c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == HARD)
    return any(constraint.node_taints_policy == "Honor" for constraint in hard)


def default_selector(pod: Pod, objects: ClusterObjects, *, needs_all: bool = True) -> Selector:
    """Returns one selector that combines those of the Services that match the pod with that of its
    controller.

    If a kind is unknown, raises UnlistedError if `needs_all`; otherwise the kind has no objects.
    """
    namespace, labels = _OF_METADATA(pod.metadata)
    services = objects.within(Service, namespace) if needs_all or objects.is_listed(Service) else {}
    if not services and not pod.metadata.owner_references:
        return EVERYTHING
    merged: dict[str, str] = {}
    for service in services.values():
        required = service.spec.selector
        if required and all(labels.get(key) == value for key, value in required.items()):
            merged |= required
    owner = next(
        (reference for reference in pod.metadata.owner_references if reference.controller), None
    )
    if owner is None:
        return from_map(merged)
    kind = _OWNERS.get((owner.api_version, owner.kind))
    controller = None
    if kind is not None and (needs_all or objects.is_listed(kind)):
        controller = objects.get(kind, owner.name, namespace)
    selector = NOTHING
    match controller:
        case ReplicationController():
            merged |= controller.spec.selector
        case ReplicaSet() | StatefulSet():
            # A selector that cannot be read matches nothing, as in kube-scheduler.
            with suppress(SelectorError):
                selector = from_label_selector(controller.spec.selector)
        case None:
            pass
    return Selector((*from_map(merged).requirements, *selector.requirements))


_OF_METADATA = own(ObjectMeta, "namespace", "labels")
_OWNERS: Mapping[tuple[str, str], type[ReplicationController | ReplicaSet | StatefulSet]] = {
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
}


def _selector(constraint: TopologySpreadConstraint, pod: Pod) -> Selector:
    """Returns the constraint's selector, limited to the pod's own values of matchLabelKeys."""
    selector = from_label_selector(constraint.label_selector)
    labels = pod.metadata.labels
    own = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    if not own:
        return selector
    # The API server has usually added them already.
    return Selector(tuple(dict.fromkeys((*from_map(own).requirements, *selector.requirements))))

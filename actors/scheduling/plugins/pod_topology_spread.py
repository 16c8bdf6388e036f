"""PodTopologySpread: keeps pods that a selector selects evenly spread over zones, hosts or any
other topology.

Pods are counted by column and by domain (see berth.actors.scheduling.model.pod_counts), and a node
is judged by the count of its domain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import msgspec
import numpy as np
from berth.actors.scheduling.kube.core import TopologySpreadConstraint
from berth.actors.scheduling.kube.labels import (
    EVERYTHING,
    NOTHING,
    Selector,
    SelectorError,
    from_label_selector,
    from_map,
)
from berth.actors.scheduling.model.cluster_objects import ClusterObjects
from berth.actors.scheduling.model.columns import LabelColumn
from berth.actors.scheduling.model.pod_info import info_of
from berth.actors.scheduling.model.pod_template import PerTemplate
from berth.actors.scheduling.model.vectors import Floats, highest, lowest, some
from berth.actors.scheduling.plugins.spread_domains import (
    Constraint,
    Eligibility,
    constraint_of,
    have_all,
    pods_by_domain,
    pods_by_row,
)
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
    Node,
    NodeView,
    Plugin,
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

REASON = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON} (missing required label)"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NO_DOMAIN = (1 << 31) - 1  # the least count where there is no domain to count in
Unsatisfiable = Literal["DoNotSchedule", "ScheduleAnyway"]
HARD: Literal["DoNotSchedule"] = "DoNotSchedule"
SOFT: Literal["ScheduleAnyway"] = "ScheduleAnyway"


class DefaultConstraint(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A constraint of the profile; its selector comes from the pod's Services and owner."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: Unsatisfiable
    min_domains: int | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None


class PodTopologySpreadArgs(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"


SYSTEM_DEFAULTS = (DefaultConstraint(3, HOSTNAME, SOFT), DefaultConstraint(5, ZONE, SOFT))


class Domains(msgspec.Struct, frozen=True):
    """Which domains of a constraint are `full`, by label code; the last place, for no label, is
    marked like them.
    """

    column: LabelColumn
    full: Bools


class Part(msgspec.Struct, frozen=True):
    """What one constraint has to say of a view: of each node its domain, or -1, and how many pods
    there are.
    """

    constraint: Constraint
    codes: Ints
    counts: Ints
    weight: float


class Scoring(msgspec.Struct, frozen=True):
    """For one view. `ignored` is None for no node."""

    parts: tuple[Part, ...]
    ignored: Bools | None


_DOMAINS: StateKey[tuple[Domains, ...]] = StateKey("PreFilterPodTopologySpread")
_SCORING: StateKey[Scoring] = StateKey("PreScorePodTopologySpread")


class PodTopologySpread(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "PodTopologySpread"
    lookups = (Service, ReplicationController, ReplicaSet, StatefulSet)

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        read = read_args(args, PodTopologySpreadArgs)
        self._by_system = read.defaulting_type == "System"
        if self._by_system and read.default_constraints:
            raise ArgsError("defaultConstraints: expected none with defaultingType System")
        self._defaults = SYSTEM_DEFAULTS if self._by_system else read.default_constraints
        for i, constraint in enumerate(self._defaults):
            _check(constraint, f"defaultConstraints[{i}]", self._defaults[:i])
        self._defaults_by = {
            a: [c for c in self._defaults if c.when_unsatisfiable == a] for a in (HARD, SOFT)
        }
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
        found = []
        for constraint, where in zip(constraints, eligible, strict=True):
            column = snapshot.columns.label(constraint.topology_key)
            if not column.nodes:  # No node is left, and the constraints to come cannot tell why.
                found.append(Domains(column, np.ones(len(column.values) + 1, dtype=np.bool_)))
                break
            table = pods_by_domain(constraint, where, column, info, snapshot)
            least = lowest(table[where.domains]) if where.number else NO_DOMAIN
            if where.number < constraint.min_domains:
                least = 0
            full = table > constraint.max_skew + least - constraint.selector.matches(labels)
            full[-1] = not snapshot.columns.all_have(column)
            if some(full):
                found.append(Domains(column, full))
        state.write(_DOMAINS, tuple(found))
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        keys: Ints | None = None
        for domains in state.read(_DOMAINS):
            codes = domains.column.codes[nodes.rows]
            full = domains.full[codes]
            if some(full):
                mine = np.where(full, np.where(codes < 0, 1, 2), 0)
                keys = mine if keys is None else np.where(keys, keys, mine)
        if keys is None:
            return None
        return Verdicts(_CODES[keys], keys, lambda key: (REASON_LABEL if key == 1 else REASON,))

    def passing(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
        rejected: Bools | None = None
        for domains in state.read(_DOMAINS):
            full = domains.full[domains.column.codes[nodes.rows]]
            rejected = full if rejected is None else rejected | full
        return None if rejected is None else ~rejected

    # -------------------------------------------------------------------------------------- scoring

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        constraints = self._constraints(info, SOFT, nodes.snapshot.objects)
        if not constraints:
            return SKIP
        needs_all = bool(info.pod.spec.topology_spread_constraints) or not self._by_system
        columns = nodes.columns
        labels = [columns.label(constraint.topology_key) for constraint in constraints]
        ignored: Bools | None = None
        if needs_all and not all(columns.all_have(label) for label in labels):
            ignored = ~have_all(constraints, nodes)
            if not ignored.any():
                ignored = None
        heard = nodes.size if ignored is None else nodes.size - int(ignored.sum())
        eligible = self._eligible[SOFT].of(constraints, info, nodes.snapshot, labelled=needs_all)
        parts = []
        for constraint, label, where in zip(constraints, labels, eligible, strict=True):
            if not label.nodes:
                continue  # It adds nothing anywhere.
            codes = label.codes[nodes.rows]
            if constraint.topology_key == HOSTNAME:
                size, counts = heard, pods_by_row(constraint, info, columns)[nodes.rows]
            else:
                size = _distinct(codes if ignored is None else codes[~ignored])
                counts = pods_by_domain(constraint, where, label, info, nodes.snapshot)[codes]
            parts.append(Part(constraint, codes, counts, math.log(size + 2)))
        state.write(_SCORING, Scoring(tuple(parts), ignored))
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        scoring = state.read(_SCORING)
        sums: Floats = np.zeros(nodes.size, dtype=np.float64)
        for part in scoring.parts:
            own = part.counts * part.weight + (part.constraint.max_skew - 1)
            if not nodes.columns.all_have(nodes.columns.label(part.constraint.topology_key)):
                own = np.where(part.codes >= 0, own, 0.0)
            sums = sums + own
        whole = np.trunc(sums)
        rounded = (whole + (sums - whole >= 0.5)).astype(np.int64)
        if scoring.ignored is not None:
            rounded[scoring.ignored] = 0
        return rounded

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        ignored = state.read(_SCORING).ignored
        heard = scores if ignored is None else scores[~ignored]
        if not len(heard):
            return np.zeros(len(scores), dtype=np.int64)
        least, most = lowest(heard), max(highest(heard), 0)
        if most == 0:
            scaled: Ints = np.full(len(scores), MAX_NODE_SCORE, dtype=np.int64)
        else:
            scaled = MAX_NODE_SCORE * (most + least - scores) // most
        return scaled if ignored is None else np.where(ignored, 0, scaled)

    # ---------------------------------------------------------------------------------- constraints

    def _constraints(
        self, info: PodInfo, action: Unsatisfiable, objects: ClusterObjects
    ) -> tuple[Constraint, ...]:
        """The constraints of the pod, or those of the profile if it has none."""
        pod = info.pod
        if pod.spec.topology_spread_constraints:
            return _OWN[action](info.template, pod)
        defaults = self._defaults_by[action]
        if not defaults:
            return ()
        selector = default_selector(pod, objects, needs_all=not self._by_system)
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

    def _hard(self, pod: Pod) -> list[tuple[str, Selector | None]]:
        """Key and selector of what keeps the pod off nodes; the selector of a default is not known
        without Services.
        """
        if pod.spec.topology_spread_constraints:
            own = _OWN[HARD](info_of(pod).template, pod)
            return [(constraint.topology_key, constraint.selector) for constraint in own]
        return [(c.topology_key, None) for c in self._defaults if c.when_unsatisfiable == HARD]

    def _pod_matters(self, pod: Pod, old: object | None, new: object | None) -> bool:
        """True if a pod came into or left what a constraint counts; the parked pod counts as if it
        were there.
        """
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
        """True if a node that has, or had, every topology key has come, gone, or changed what
        constraints look at.
        """
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


_CODES = np.array(
    (Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE), dtype=np.int8
)


def _distinct(codes: Ints) -> int:
    """How many different codes there are, -1 among them."""
    return int(np.count_nonzero(np.bincount(codes + 1)))


def own_constraints(action: Unsatisfiable, pod: Pod) -> tuple[Constraint, ...]:
    """The pod's own constraints for which this is to happen where they cannot be satisfied."""
    own = (c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == action)
    return tuple(constraint_of(c, _selector(c, pod), pod.metadata.namespace) for c in own)


_OWN: Mapping[Unsatisfiable, PerTemplate[tuple[Constraint, ...]]] = {
    HARD: PerTemplate(partial(own_constraints, HARD)),
    SOFT: PerTemplate(partial(own_constraints, SOFT)),
}


def _involved(item: Pod, pod: Pod) -> bool:
    """True for the parked pod itself, and for pods of its namespace that are on nodes or have been
    promised one.
    """
    if item.metadata.uid == pod.metadata.uid:
        return True
    counts = item.spec.node_name or item.status.nominated_node_name
    return bool(counts) and item.metadata.namespace == pod.metadata.namespace


def _more_tolerant(pod: Pod, before: Pod, after: Pod) -> bool:
    """True if the parked pod tolerates other nodes now, and a constraint counts only the nodes it
    tolerates.
    """
    if after.metadata.uid != pod.metadata.uid or before.spec.tolerations == after.spec.tolerations:
        return False
    hard = (c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == HARD)
    return any(constraint.node_taints_policy == "Honor" for constraint in hard)


def default_selector(pod: Pod, objects: ClusterObjects, *, needs_all: bool = True) -> Selector:
    """What the Services that select the pod and the controller that owns it select, taken together.

    With `needs_all`, raises UnlistedError where one of the kinds is not known; else that selects
    nothing.
    """
    namespace, labels = pod.metadata.namespace, pod.metadata.labels
    services = objects.within(Service, namespace) if needs_all or objects.is_listed(Service) else {}
    if not services and not pod.metadata.owner_references:
        return EVERYTHING
    merged: dict[str, str] = {}
    for service in services.values():
        wanted = service.spec.selector
        if wanted and all(labels.get(key) == value for key, value in wanted.items()):
            merged |= wanted
    owner = next(
        (reference for reference in pod.metadata.owner_references if reference.controller), None
    )
    if owner is None:
        return from_map(merged)
    kind = _OWNERS.get((owner.api_version, owner.kind))
    found = None
    if kind is not None and (needs_all or objects.is_listed(kind)):
        found = objects.get(kind, owner.name, namespace)
    selector = NOTHING
    match found:
        case ReplicationController():
            merged |= found.spec.selector
        case ReplicaSet() | StatefulSet():
            with suppress(
                SelectorError
            ):  # what cannot be read selects nothing, as in kube-scheduler
                selector = from_label_selector(found.spec.selector)
        case None:
            pass
    return Selector((*from_map(merged).requirements, *selector.requirements))


_OWNERS: Mapping[tuple[str, str], type[ReplicationController | ReplicaSet | StatefulSet]] = {
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
}


def _selector(constraint: TopologySpreadConstraint, pod: Pod) -> Selector:
    """The constraint's selector, narrowed down to the pod's own values of matchLabelKeys."""
    selector = from_label_selector(constraint.label_selector)
    labels = pod.metadata.labels
    own = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    if not own:
        return selector
    return Selector((*from_map(own).requirements, *selector.requirements))


def _check(constraint: DefaultConstraint, path: str, earlier: Sequence[DefaultConstraint]) -> None:
    if constraint.max_skew <= 0:
        raise ArgsError(f"{path}.maxSkew: expected a positive integer, got {constraint.max_skew}")
    if not constraint.topology_key:
        raise ArgsError(f"{path}.topologyKey: expected a label key")
    if constraint.min_domains is not None and (
        constraint.min_domains <= 0 or constraint.when_unsatisfiable == SOFT
    ):
        raise ArgsError(f"{path}.minDomains: expected a positive integer, and only with {HARD}")
    same = [(c.topology_key, c.when_unsatisfiable) for c in earlier]
    if (constraint.topology_key, constraint.when_unsatisfiable) in same:
        raise ArgsError(f"{path}: topologyKey and whenUnsatisfiable together stand there already")

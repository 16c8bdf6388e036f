"""NodeAffinity: the pod's nodeSelector and node affinity, and the profile's addedAffinity.

Terms are matched against label columns (see berth.actors.scheduling.model.node_selection). If every
required term names nodes by `metadata.name In`, PreFilter already limits the search to these nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from berth.config.types import described
from berth.plugin import (
    SKIP,
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    CycleState,
    DependsOn,
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
    Resource,
    ScorePlugin,
    Snapshot,
    Status,
    UserMessageError,
    Verdicts,
    default_normalize,
    error,
    read_args,
    unresolvable,
)

from ..kube.aggregate import joined_errors
from ..kube.core import NodeAffinity as NodeAffinitySpec
from ..kube.core import NodeSelectorTerm, PreferredSchedulingTerm
from ..kube.node_selector import node_selector_matches, parse_errors
from ..model.node_selection import NodeTerms, pod_affinity_matches, required_terms
from ..model.pod_template import PerTemplate
from ..model.term_lookup import bounded_weight

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


class NodeAffinityArgs(PluginArgs, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of NodeAffinity."""

    added_affinity: Annotated[
        NodeAffinitySpec | None,
        described("A node affinity of every pod of the profile, besides the pod's own."),
    ] = None

    def problems(self, gates: Mapping[str, bool]) -> Iterable[str]:
        added = self.added_affinity or NodeAffinitySpec()
        required = added.required_during_scheduling_ignored_during_execution
        hard, soft = (
            f"addedAffinity.{how}DuringSchedulingIgnoredDuringExecution"
            for how in ("required", "preferred")
        )
        for i, term in enumerate(required.node_selector_terms if required is not None else ()):
            yield from parse_errors(term, f"{hard}.nodeSelectorTerms[{i}]")
        preferred = added.preferred_during_scheduling_ignored_during_execution
        yield from _preferred_errors(preferred, soft)


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "NodeAffinity"
    args_type = NodeAffinityArgs
    depends_on = DependsOn.NODE

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        read = read_args(args, NodeAffinityArgs, handle.feature_gates)
        added = read.added_affinity or NodeAffinitySpec()
        required = added.required_during_scheduling_ignored_during_execution
        self.added_required = required.node_selector_terms if required is not None else None
        self.added_preferred = added.preferred_during_scheduling_ignored_during_execution
        self._enforced = (
            None
            if required is None
            else NodeTerms([(term, 1) for term in required.node_selector_terms])
        )
        self._preferred = PerTemplate(self._preferred_by)

    def pre_filter(
        self,
        state: CycleState,
        info: PodInfo,
        snapshot: Snapshot,
    ) -> Status | PreFilterResult:
        terms = required_terms(info.pod)
        if terms is None and not info.pod.spec.node_selector:
            return SUCCESS if self.added_required is not None else SKIP
        names = _named_nodes(terms) if terms else None
        if names is not None and not names:
            return unresolvable(REASON_CONFLICT)
        return PreFilterResult(names)

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        keys = np.zeros(nodes.size, dtype=np.int64)
        if self._enforced is not None:
            keys[~self._enforced.match(nodes)] = 1
        matched = pod_affinity_matches(info, nodes)
        keys[~matched & (keys == 0)] = 2
        codes = np.where(keys == 0, np.int8(0), np.int8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
        return Verdicts(codes, keys, lambda key: (REASON_ENFORCED if key == 1 else REASON_POD,))

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        preferred = self._preferred(info.template, info.pod)
        if isinstance(preferred, Status):
            return preferred
        return SKIP if preferred is None else SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        match self._preferred(info.template, info.pod):
            case None:
                return np.zeros(nodes.size, dtype=np.int64)
            case NodeTerms() as preferred:
                return preferred.weigh(nodes)
            case unparsable:  # PreScore is disabled.
                raise UserMessageError(unparsable.message)

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        return default_normalize(scores, reverse=False)

    def _preferred_by(self, pod: Pod) -> NodeTerms | Status | None:
        """Returns the preferred terms of the pod and the profile; None without any, an error if
        those of the pod cannot be parsed.
        """
        affinity = pod.spec.affinity
        own = affinity.node_affinity if affinity is not None else None
        terms = own.preferred_during_scheduling_ignored_during_execution if own is not None else ()
        if problem := joined_errors(_preferred_errors(terms)):
            return error(problem)
        weighed = [
            (term.preference, bounded_weight(term.weight))
            for term in (*self.added_preferred, *terms)
        ]
        return NodeTerms(weighed) if weighed else None

    def events_to_register(self) -> Sequence[Registration]:
        def matches(pod: Pod, node: object | None) -> bool:
            if not isinstance(node, Node):
                return False
            added = self.added_required is None or node_selector_matches(self.added_required, node)
            labels = node.metadata.labels
            selected = all(labels.get(k) == v for k, v in pod.spec.node_selector.items())
            terms = required_terms(pod)
            return added and selected and (terms is None or node_selector_matches(terms, node))

        def node_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
            assert isinstance(new, Node)
            return Hint.QUEUE if matches(pod, new) and not matches(pod, old) else Hint.SKIP

        return (
            Registration(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), node_changed
            ),
        )


def _preferred_errors(terms: Iterable[PreferredSchedulingTerm], path: str = "") -> Iterator[str]:
    """Yields why preferred terms cannot be parsed. Terms without a weight are left out."""
    for i, term in enumerate(terms):
        if term.weight:
            yield from parse_errors(term.preference, f"{path}[{i}]")


def _named_nodes(terms: Sequence[NodeSelectorTerm]) -> frozenset[str] | None:
    """Returns the nodes that the terms name by metadata.name, or None if a term names none."""
    names: set[str] = set()
    for term in terms:
        named = [
            frozenset(field.values)
            for field in term.match_fields
            if field.key == "metadata.name" and field.operator == "In"
        ]
        if not named:
            return None
        names |= named[0] if len(named) == 1 else frozenset.intersection(*named)
    return frozenset(names)

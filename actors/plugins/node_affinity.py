"""NodeAffinity: the pod's nodeSelector and node affinity, and the profile's addedAffinity.

Terms are decided by label column: a requirement becomes a table over the distinct values of its label, gathered by
code, so the work is one operation over all nodes however many there are. A `metadata.name In` field in every required
term narrows the nodes down before any filter runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from actors.framework.cycle_state import CycleState, StateKey
from actors.framework.events import Action, ClusterEvent, Hint, Registration, Resource
from actors.framework.interface import (
    ArgsError,
    FilterPlugin,
    Handle,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    default_normalize,
    read_args,
)
from actors.framework.status import SKIP, SUCCESS, Code, Status, unresolvable
from actors.framework.verdicts import Verdicts
from actors.kube.core import (
    Node,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
)
from actors.kube.core import (
    NodeAffinity as NodeAffinitySpec,
)
from actors.kube.node_selector import node_selector_matches, validate_node_selector_term
from actors.model.columns import Ints
from actors.model.node_selection import any_term_matches, pod_affinity_matches, required_terms, term_matches
from actors.model.pod_info import PodInfo
from actors.model.snapshot import NodeView, Snapshot

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"

_PREFERRED: StateKey[tuple[PreferredSchedulingTerm, ...]] = StateKey("PreScoreNodeAffinity")


class NodeAffinityArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """pluginConfig's args: `addedAffinity` holds for every pod of the profile, besides the pod's own."""

    added_affinity: NodeAffinitySpec | None = None


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "NodeAffinity"
    reads = Reads.NODE

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        added = read_args(args, NodeAffinityArgs).added_affinity or NodeAffinitySpec()
        required = added.required_during_scheduling_ignored_during_execution
        self.added_required = required.node_selector_terms if required is not None else None
        self.added_preferred = added.preferred_during_scheduling_ignored_during_execution
        hard, soft = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
        terms = {f"{hard}.nodeSelectorTerms[{i}]": term for i, term in enumerate(self.added_required or ())}
        terms |= {f"{soft}[{i}].preference": weighed.preference for i, weighed in enumerate(self.added_preferred)}
        for path, term in terms.items():
            problem = validate_node_selector_term(term)
            if problem:
                raise ArgsError(f"addedAffinity.{path}.{problem}")

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
        if self.added_required is not None:
            keys[~any_term_matches(self.added_required, nodes)] = 1
        matched = pod_affinity_matches(info.pod, nodes)
        keys[~matched & (keys == 0)] = 2
        codes = np.where(keys == 0, np.int8(0), np.int8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
        return Verdicts(codes, keys, lambda key: (REASON_ENFORCED if key == 1 else REASON_POD,))

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        preferred = self._preferred(info)
        if not preferred:
            return SKIP
        state.write(_PREFERRED, preferred)
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        preferred = state.get(_PREFERRED)
        scores = np.zeros(nodes.size, dtype=np.int64)
        for term in self._preferred(info) if preferred is None else preferred:
            scores += term.weight * term_matches(term.preference, nodes)
        return scores

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        return default_normalize(scores, reverse=False)

    def _preferred(self, info: PodInfo) -> tuple[PreferredSchedulingTerm, ...]:
        affinity = info.pod.spec.affinity
        own = affinity.node_affinity if affinity is not None else None
        terms = own.preferred_during_scheduling_ignored_during_execution if own is not None else ()
        return (*self.added_preferred, *terms)

    def events_to_register(self) -> Sequence[Registration]:
        def suits(pod: Pod, node: object | None) -> bool:
            if not isinstance(node, Node):
                return False
            added = self.added_required is None or node_selector_matches(self.added_required, node)
            labels = node.metadata.labels
            selected = all(labels.get(k) == v for k, v in pod.spec.node_selector.items())
            terms = required_terms(pod)
            return added and selected and (terms is None or node_selector_matches(terms, node))

        def node_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
            assert isinstance(new, Node)
            return Hint.QUEUE if suits(pod, new) and not suits(pod, old) else Hint.SKIP

        return (Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), node_changed),)


def _named_nodes(terms: Sequence[NodeSelectorTerm]) -> frozenset[str] | None:
    """The nodes that the terms name by metadata.name, or None if some term names none."""
    names: frozenset[str] = frozenset()
    for term in terms:
        named = [
            frozenset(field.values)
            for field in term.match_fields
            if field.key == "metadata.name" and field.operator == "In"
        ]
        if not named:
            return None
        names |= frozenset.intersection(*named)
    return names

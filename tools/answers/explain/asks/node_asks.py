"""What each node lacks for a pod, by the plugin that rejected it first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.plugins.volume_binding.pod_volumes import UNBOUND_IMMEDIATE

from ..decision import Decision, Failure, NodeVerdict
from . import node_restrictions, pod_constraints, resource_shortages, volume_constraints
from .ask import Ask, AskQuestion, Rejected, ask_question, asks_by_reasons

SUCCESS = "Success"
# The verdict about the nodes that the names in matchFields leave out.
OUTSIDE = ["node(s) didn't satisfy plugin(s) [NodeAffinity]"]


def asks_of(
    info: PodInfo, snapshot: Snapshot, decision: Decision | Failure
) -> dict[Ask, NodeVerdict]:
    """Returns the things that the rejected nodes lack, most nodes first, each with the verdict
    about its first node.

    A plugin that this module does not know is quoted by its reasons. Claims that keep the pod
    waiting on all nodes have the verdict of PreFilter.
    """
    if not isinstance(decision, Failure) and decision.prefilter is not None:
        unbound = UNBOUND_IMMEDIATE in decision.prefilter.reasons
        return dict.fromkeys(
            volume_constraints.unbound_asks(info, snapshot) if unbound else (), decision.prefilter
        )
    verdicts = {} if isinstance(decision, Failure) else decision.filter
    question = ask_question(info, snapshot)
    same: dict[int, tuple[NodeVerdict, list[str]]] = {}  # Many nodes share a verdict.
    for node, verdict in verdicts.items():
        group = same.get(id(verdict))
        if group is None:
            group = same[id(verdict)] = verdict, []
        group[1].append(node)
    rejected: dict[str, dict[tuple[str, ...], list[str]]] = defaultdict(dict)
    for verdict, names in same.values():
        if verdict.code != SUCCESS:
            plugin = verdict.plugin or ("NodeAffinity" if verdict.reasons == OUTSIDE else "")
            rejected[plugin].setdefault(tuple(verdict.reasons), []).extend(names)
    asks = [
        ask
        for plugin, by_reasons in rejected.items()
        for ask in _ASKS.get(plugin, _by_reasons)(question, by_reasons)
    ]
    return {ask: verdicts[ask.nodes[0]] for ask in sorted(asks, key=lambda ask: -len(ask.nodes))}


def _by_reasons(_: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    yield from asks_by_reasons(rejected)


_ASKS: Mapping[str, Callable[[AskQuestion, Rejected], Iterator[Ask]]] = {
    "NodeResourcesFit": resource_shortages.asks,
    "NodeUnschedulable": node_restrictions.cordon_asks,
    "NodeName": node_restrictions.name_asks,
    "TaintToleration": node_restrictions.taint_asks,
    "NodeAffinity": node_restrictions.label_asks,
    "InterPodAffinity": pod_constraints.affinity_asks,
    "PodTopologySpread": pod_constraints.spread_asks,
    "NodePorts": pod_constraints.port_asks,
    "VolumeBinding": volume_constraints.binding_asks,
    "VolumeZone": volume_constraints.zone_asks,
    "NodeVolumeLimits": volume_constraints.limit_asks,
    "VolumeRestrictions": volume_constraints.restriction_asks,
    "NodeDeclaredFeatures": node_restrictions.feature_asks,
}

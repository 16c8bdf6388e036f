"""What each node lacks for a pod, by the plugin that rejected it first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from berth.actors.scheduling.kube.core import Namespace
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.plugins.volume_binding.pod_volumes import UNBOUND_IMMEDIATE

from ..decision import Decision, Failure, Verdict
from . import nodes, pods, resources, volumes
from .ask import Ask, Question, Rejected, asks_by_reasons

SUCCESS = "Success"
# The verdict about the nodes that the names in matchFields leave out.
OUTSIDE = ["node(s) didn't satisfy plugin(s) [NodeAffinity]"]


def asks_of(info: PodInfo, snapshot: Snapshot, decision: Decision | Failure) -> dict[Ask, Verdict]:
    """Returns the things that the rejected nodes lack, each with the verdict about its first node.

    The things that most nodes lack come first. For plugins that are not known here, their reasons
    are used. Claims that keep the pod waiting on all nodes have the verdict of PreFilter.
    """
    if not isinstance(decision, Failure) and decision.prefilter is not None:
        unbound = UNBOUND_IMMEDIATE in decision.prefilter.reasons
        return dict.fromkeys(
            volumes.unbound_asks(info, snapshot) if unbound else (), decision.prefilter
        )
    verdicts = {} if isinstance(decision, Failure) else decision.filter
    columns = snapshot.columns
    every = zip(
        columns.row_of, map(columns.infos.__getitem__, columns.row_of.values()), strict=True
    )
    infos: dict[str, NodeInfo] = {name: info for name, info in every if info is not None}
    namespaces = {n.metadata.name: n.metadata.labels for n in snapshot.objects.every(Namespace)}
    question = Question(info, snapshot, infos, namespaces)
    same: dict[int, tuple[Verdict, list[str]]] = {}  # Many nodes share a verdict.
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


def _by_reasons(_: Question, rejected: Rejected) -> Iterator[Ask]:
    yield from asks_by_reasons(rejected)


_ASKS: Mapping[str, Callable[[Question, Rejected], Iterator[Ask]]] = {
    "NodeResourcesFit": resources.asks,
    "NodeUnschedulable": nodes.cordon_asks,
    "NodeName": nodes.name_asks,
    "TaintToleration": nodes.taint_asks,
    "NodeAffinity": nodes.label_asks,
    "InterPodAffinity": pods.affinity_asks,
    "PodTopologySpread": pods.spread_asks,
    "NodePorts": pods.port_asks,
    "VolumeBinding": volumes.binding_asks,
    "VolumeZone": volumes.zone_asks,
    "NodeVolumeLimits": volumes.limit_asks,
    "VolumeRestrictions": volumes.restriction_asks,
    "NodeDeclaredFeatures": nodes.feature_asks,
}

"""What each node lacks for a pod, by the plugin that rejected it first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from berth.actors.scheduling.kube.core import Namespace
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot

from ..decision import Decision, Failure, Verdict
from . import nodes, pods, resources
from .ask import Ask, Question, grouped

_ASKS = {
    "NodeResourcesFit": resources.asks,
    "NodeUnschedulable": nodes.cordon_asks,
    "NodeName": nodes.name_asks,
    "TaintToleration": nodes.taint_asks,
    "NodeAffinity": nodes.label_asks,
    "InterPodAffinity": pods.affinity_asks,
    "PodTopologySpread": pods.spread_asks,
    "NodePorts": pods.port_asks,
}
SUCCESS = "Success"
# The verdict about the nodes that the names in matchFields leave out.
OUTSIDE = ["node(s) didn't satisfy plugin(s) [NodeAffinity]"]


def asks_of(info: PodInfo, snapshot: Snapshot, decision: Decision | Failure) -> dict[Ask, Verdict]:
    """Returns what the rejected nodes lack, those of most nodes first, each with the verdict about
    its first node. Plugins that are not known here speak for themselves, by their reasons.
    """
    verdicts = {} if isinstance(decision, Failure) else decision.filter
    rows, infos = snapshot.columns.row_of, dict[str, NodeInfo]()
    for name, row in rows.items():
        node_info = snapshot.columns.infos[row]
        if node_info is not None:
            infos[name] = node_info
    namespaces = {n.metadata.name: n.metadata.labels for n in snapshot.objects.every(Namespace)}
    question = Question(info, infos, namespaces)
    reasons: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for node, verdict in verdicts.items():
        if verdict.code != SUCCESS:
            plugin = verdict.plugin or ("NodeAffinity" if verdict.reasons == OUTSIDE else "")
            reasons[plugin][node] = verdict.reasons
    asks = [
        ask
        for plugin, by_node in reasons.items()
        for ask in (_ASKS[plugin](question, by_node) if plugin in _ASKS else _by_reasons(by_node))
    ]
    return {ask: verdicts[ask.nodes[0]] for ask in sorted(asks, key=lambda ask: -len(ask.nodes))}


def _by_reasons(reasons: Mapping[str, list[str]]) -> list[Ask]:
    groups = grouped((node, "; ".join(of)) for node, of in reasons.items())
    return [Ask(names, text, text) for text, names in groups.items()]

"""Compares a placement with berth's own decision about the pod."""

from __future__ import annotations

import enum

import msgspec

from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.sampling import sample_size
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot

from ..explain.decision import Decision, Failure, NodeVerdict, decide

MOST_PLUGINS = 4
# The plugins that reject nodes where a pod's volumes or devices, once chosen, cannot be used.
HOLDERS = frozenset(
    ("DynamicResources", "NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone")
)


class Agreement(enum.StrEnum):
    """How a placement compares with berth's decision.

    `same` and `tie`: the node is the best one, or one of several. `order`: the node is the best one
    if changes of the same moment are counted in another order. `held`: the volumes or devices that
    the pod has by now left no other node. `sampled`: the node fits, and the scheduler in charge may
    not have looked at the better ones, because it ends its search when it has found enough.
    """

    SAME = "same"
    TIE = "tie"
    ORDER = "order"
    HELD = "held"
    SAMPLED = "sampled"
    DIFFERENT = "different"


class Comparison(msgspec.Struct, frozen=True):
    """An agreement, and its reason unless it is `same`."""

    agreement: Agreement
    reason: str = ""


def judge(profile: Profile, info: PodInfo, snapshot: Snapshot, node: str) -> Comparison:
    """Compares the placement of a pod on a node with berth's decision about the pod. The snapshot
    does not contain the pod.

    All nodes are looked at.
    """
    decision = decide(profile, info, snapshot)
    if isinstance(decision, Failure):
        return Comparison(Agreement.DIFFERENT, f"berth's attempt fails: {decision.error}")
    if node in decision.hosts:
        if len(decision.total) == 1 and _is_held(decision):
            return Comparison(Agreement.HELD, "its volumes or devices fit no other node")
        ties = len(decision.hosts)
        if ties > 1:
            return Comparison(Agreement.TIE, f"{ties} nodes are equally good")
        return Comparison(Agreement.SAME)
    if node in decision.total:
        reason = _preference(decision, node)
        enough = sample_size(profile.percentage_of_nodes_to_score or 0, len(snapshot))
        if len(decision.total) > enough:
            return Comparison(Agreement.SAMPLED, f"{reason}, if all nodes are looked at")
        return Comparison(Agreement.DIFFERENT, reason)
    return Comparison(Agreement.DIFFERENT, _rejection(decision, node))


def _is_held(decision: Decision) -> bool:
    return any(verdict.plugin in HOLDERS for verdict in decision.filter.values())


def _preference(decision: Decision, node: str) -> str:
    """Returns which node berth prefers, and the plugins whose scores differ most."""
    best = decision.hosts[0]
    differences = {
        plugin: (scores[best], scores[node])
        for plugin, scores in decision.score.items()
        if best in scores and scores[best] != scores[node]
    }
    largest = sorted(
        differences, key=lambda plugin: -abs(differences[plugin][0] - differences[plugin][1])
    )
    words = [f"{plugin} {differences[plugin][0]} to {differences[plugin][1]}" for plugin in largest]
    more = ", ..." if len(words) > MOST_PLUGINS else ""
    totals = f"{decision.total.get(best, 0)} to {decision.total[node]}"
    parts = f": {', '.join(words[:MOST_PLUGINS])}{more}" if words else ""
    return f"berth prefers {best} by {totals}{parts}"


def _rejection(decision: Decision, node: str) -> str:
    """Returns why berth would not place the pod on a node."""
    if decision.prefilter is not None:
        return f"berth places it nowhere: {_words(decision.prefilter)}"
    verdict = decision.filter.get(node)
    if verdict is None:
        return f"berth does not know the node {node}"
    if verdict.plugin:
        return f"berth rejects {node}: {_words(verdict)}"
    # It fits, and is not scored: the pod is nominated to another node.
    return f"berth places it on {', '.join(decision.hosts)}, for which it is nominated"


def _words(verdict: NodeVerdict) -> str:
    return f"{verdict.plugin}: {'; '.join(verdict.reasons)}"

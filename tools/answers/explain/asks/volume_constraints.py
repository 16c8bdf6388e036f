"""Nodes that the pod may not use because of its volumes, and claims that keep it waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.plugins.node_volume_limits.plugin import NodeVolumeLimits
from berth.actors.scheduling.plugins.volume_binding.plugin import VolumeBinding
from berth.actors.scheduling.plugins.volume_restrictions import VolumeRestrictions
from berth.actors.scheduling.plugins.volume_zone import VolumeZone

from ..volume_words import Demand, demands
from .ask import Ask, AskQuestion, Rejected, asks_by_reasons, nodes_by_lack, nodes_of


def unbound_asks(info: PodInfo, snapshot: Snapshot) -> Iterator[Ask]:
    """Yields the claims without a volume that keep the pod waiting on all nodes."""
    for demand in demands(info, snapshot, {VolumeBinding.name}):
        if demand.left_out is None:
            text = f"{demand.volume} ({demand.state}): {demand.meaning}"
            yield Ask((), text, text)


def binding_asks(question: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    yield from _asks(question, rejected, VolumeBinding.name, _left_out)


def zone_asks(question: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    yield from _asks(question, rejected, VolumeZone.name, _left_out)


def restriction_asks(question: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    yield from _asks(question, rejected, VolumeRestrictions.name, _left_out)


def limit_asks(question: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    """Yields an ask for each driver that can attach no more volumes to some nodes."""
    yield from _asks(question, rejected, NodeVolumeLimits.name, _without_room)


def _left_out(demand: Demand, nodes: tuple[str, ...]) -> Ask:
    lack = f"left out by {demand.volume}, as {demand.meaning}"
    return Ask(nodes, f"is {lack}", f"are {lack}")


def _without_room(demand: Demand, nodes: tuple[str, ...]) -> Ask:
    lack = f"room for {demand.volume}: {demand.state}, {demand.meaning}"
    return Ask(nodes, f"lacks {lack}", f"lack {lack}")


def _asks(
    question: AskQuestion,
    rejected: Rejected,
    plugin: str,
    worded: Callable[[Demand, tuple[str, ...]], Ask],
) -> Iterator[Ask]:
    """Yields, for each node, the first demand of a volume that rules it out; for other nodes the
    plugin's reasons.
    """
    demand_of: dict[str, Demand] = {}
    for demand in demands(question.info, question.snapshot, {plugin}):
        for node in nodes_of(rejected) if demand.left_out is None else demand.left_out:
            demand_of.setdefault(node, demand)
    known = [(node, demand_of[node]) for node in nodes_of(rejected) if node in demand_of]
    for demand, nodes in nodes_by_lack(known).items():
        yield worded(demand, nodes)
    yield from asks_by_reasons(
        {
            reasons: others
            for reasons, nodes in rejected.items()
            if (others := [node for node in nodes if node not in demand_of])
        }
    )

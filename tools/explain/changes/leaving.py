"""Wait until pods have left that are leaving already, or that the pod preempts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..words import listed
from .change import Change, Who
from .edit import deletion_of
from .way import Way
from .world import World

MOST_LEAVING = 500


def worded_pods(keys: Iterable[str]) -> str:
    """Words pods that leave."""
    return listed(sorted(keys))


def changes(world: World) -> Iterator[Change]:
    ending = {
        key: info.name
        for info in world.node_infos()
        for key, pod in info.pods.items()
        if pod.pod.metadata.deletion_timestamp is not None
    }
    if ending and len(ending) <= MOST_LEAVING:
        with world.changed([deletion_of(key) for key in ending]):
            nodes = world.nodes()
        there = [key for key, node in ending.items() if nodes and node == nodes[0]] or list(ending)
        if nodes:
            edits = tuple(map(deletion_of, there))
            which, left = (
                ("which is", "has left") if len(there) == 1 else ("which are", "have left")
            )
            sentence = f"Wait until {worded_pods(there)}, {which} being deleted, {left}"
            yield Change("termination", Who.NOBODY, 0.0, sentence, edits)
            return
    nomination = world.preempted
    if nomination is not None and nomination.victims:
        keys = [victim.key for victim in nomination.victims]
        sentence = f"Wait for the preemption of {worded_pods(keys)} on {nomination.node}"
        yield Change("preemption", Who.NOBODY, 0.1, sentence, tuple(map(deletion_of, keys)))


WAY = Way(changes)

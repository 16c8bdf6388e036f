"""Suggestions to wait for pods that are being deleted, or that the pod preempts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..words import listed
from .change import ProposedChange, Who
from .edit import deletion_of
from .kind_of_change import Way
from .world import World

MOST_LEAVING = 500


def pod_list(keys: Iterable[str]) -> str:
    """Returns the names of pods that leave, in words."""
    return listed(sorted(keys))


def changes(world: World) -> Iterator[ProposedChange]:
    ending = {
        key: info.name
        for info in world.node_infos()
        for key, pod in info.pods.items()
        if pod.pod.metadata.deletion_timestamp is not None
    }
    nodes: list[str] = []
    if ending and len(ending) <= MOST_LEAVING:
        with world.changed([deletion_of(key) for key in ending]):
            nodes = world.nodes()
    if nodes:
        keys = [key for key, node in ending.items() if node == nodes[0]] or list(ending)
        are, have = ("is", "has") if len(keys) == 1 else ("are", "have")
        sentence = f"Wait until {pod_list(keys)}, which {are} being deleted, {have} left"
        yield ProposedChange(
            "termination", Who.NOBODY, 0.0, sentence, tuple(map(deletion_of, keys))
        )
    elif world.preempted is not None and world.preempted.victims:
        keys = [victim.key for victim in world.preempted.victims]
        sentence = f"Wait for the preemption of {pod_list(keys)} on {world.preempted.node}"
        yield ProposedChange("preemption", Who.NOBODY, 0.1, sentence, tuple(map(deletion_of, keys)))


WAY = Way(changes)

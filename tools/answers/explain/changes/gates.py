"""Suggestions to wait until the scheduling gates are removed."""

from __future__ import annotations

from collections.abc import Iterator

from ..words import listed
from .change import ProposedChange, Who
from .edit import Edit, patch_of, without
from .kind_of_change import Way
from .world import World


def openings(world: World) -> Iterator[Edit]:
    if world.pod["spec"].get("schedulingGates"):
        yield patch_of(world.pod, without(world.pod, "spec", "schedulingGates"))


def changes(world: World) -> Iterator[ProposedChange]:
    gates = [gate["name"] for gate in world.pod["spec"].get("schedulingGates") or ()]
    for edit in openings(world):
        what = "gate is" if len(gates) == 1 else "gates are"
        sentence = f"Wait until the scheduling {what} removed ({listed(gates)})"
        yield ProposedChange("gate", Who.NOBODY, 0.0, sentence, (edit,))


WAY = Way(changes, openings)

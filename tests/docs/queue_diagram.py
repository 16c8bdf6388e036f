"""The diagram of the queue on docs/architecture.md, drawn from the queue's table of transitions."""

from __future__ import annotations

from berth.actors.messages.queue import Place
from berth.actors.queue.places import TRANSITIONS, Trigger

KIND = "stateDiagram-v2"


def drawn() -> str:
    """Returns a mermaid block: the places, and an arrow for all moves from one to another."""
    lines = [f'    state "{place}" as {_name(place)}' for place in Place if " " in place]
    for start in Place:
        for target in Place:
            labels = [each for each in Trigger if (start, each, target) in TRANSITIONS]
            if labels:
                lines.append(f"    {_name(start)} --> {_name(target)}: {', '.join(labels)}")
    return "\n".join([KIND, *lines, ""])


def _name(place: Place) -> str:
    return "[*]" if place is Place.OUTSIDE else place.replace(" ", "_")

"""Complete FailedScheduling messages of the default profile."""

from __future__ import annotations

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


def no_room(nodes: int, reasons: str, *, preemption: str = NOT_HELPFUL) -> str:
    """Returns the message for `nodes` nodes of which none is available and none can be helped by
    preemption.
    """
    head = f"0/{nodes} nodes are available:"
    why = f" {reasons}." if reasons else ""
    return f"{head}{why} no new claims to deallocate, preemption: {head} {nodes} {preemption}."

"""FailedScheduling messages in full, as the default profile words them."""

from __future__ import annotations

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


def no_room(nodes: int, reasons: str, *, preemption: str = NOT_HELPFUL) -> str:
    """Why none of so many nodes is available, and why preemption helps on none of them."""
    head = f"0/{nodes} nodes are available:"
    why = f" {reasons}." if reasons else ""
    return f"{head}{why} no new claims to deallocate, preemption: {head} {nodes} {preemption}."

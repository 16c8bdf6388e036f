"""The messages to the binding actor, and its answers."""

from __future__ import annotations

import msgspec

from ..scheduling.decision.profile import Profile
from ..scheduling.framework.cycle_state import CycleState
from .order import Order, ReplyTo
from .queue import QueuedPod


class Placement(msgspec.Struct, frozen=True):
    """A pod that the scheduling cycle placed: assumed in the cache, reserved, not yet bound.

    `profile` is the profile whose plugins reserved resources for the pod; it stays the same even if
    the profiles are swapped. `cycle` has the plugins' data for this attempt. `waits` are the
    seconds that each Permit plugin that returned WAIT grants, by its name. `started` is when the
    attempt began, in monotonic seconds. The decision looked at `evaluated` nodes, of which
    `feasible` were compared.
    """

    pod: QueuedPod
    node: str
    profile: Profile
    cycle: CycleState
    waits: dict[str, float]
    started: float
    evaluated: int = 0
    feasible: int = 0


class BindPlaced(msgspec.Struct, frozen=True):
    """Run the binding cycle of a placement.

    `accepted` is answered once the pod is among the waiting pods, if it waits, and there is room
    for another binding.
    """

    placement: Placement
    accepted: ReplyTo[None]


class RejectWaiting(msgspec.Struct, frozen=True):
    """The pod of this uid is gone: reject it if it waits on Permit."""

    uid: str


class StopBinding(Order[bool], frozen=True):
    """Stop the binding cycle of a pod that waits on Permit or is in PreBind, so that it is tried
    again.

    The answer is False if the pod has no binding cycle, or if it can no longer be stopped.
    """

    uid: str
    plugin: str
    reason: str


class WaitingPodDump(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that waits on Permit, for people. `waits_for` are the seconds left, by plugin."""

    key: str
    uid: str
    node: str
    waits_for: dict[str, float]


BindingMessage = BindPlaced | RejectWaiting | StopBinding

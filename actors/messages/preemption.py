"""The messages to the preemption actor."""

from __future__ import annotations

import msgspec

from ..scheduling.framework.post_filter import Deletion, Patch
from ..scheduling.model.pod_info import PodInfo
from .order import ReplyTo


class Preempt(msgspec.Struct, frozen=True):
    """Make room on a node for a preemptor. The victims have to go, and the displaced pods lose
    their nomination.

    The order is carried out only while the preemptor is held by this `hold`. It follows from the
    preemptor's attempt of this number.
    """

    preemptor: PodInfo
    node: str
    hold: int
    victims: tuple[PodInfo, ...]
    displaced: tuple[PodInfo, ...] = ()
    attempt: int = 0


class SendPatches(msgspec.Struct, frozen=True):
    """Send the changes of PostFilter plugins for a pod, one after the other. A refusal ends it."""

    pod: PodInfo
    patches: tuple[Patch | Deletion, ...]


class PreemptNow(msgspec.Struct, frozen=True):
    """Make room while the scheduling cycle waits. The preemptor is in flight and not held. The
    reply is the reason why a victim could not be evicted, "" if all were.
    """

    reply: ReplyTo[str]
    order: Preempt


PreemptionMessage = Preempt | PreemptNow | SendPatches

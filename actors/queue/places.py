"""The places of a pending pod and every move between them, as a table.

A pod that is deleted, bound or not known yet is outside. A hold for a preemption is not a place: a
held pod that something would wake is gated by DefaultPreemption until its preemption has ended.
docs/architecture.md draws its diagram of the queue from this table. Pure.
"""

from __future__ import annotations

import enum

from ..messages.queue import Place


class Trigger(enum.StrEnum):
    """The triggers of moves."""

    ADDED = "added"
    POPPED = "popped"
    FAILED = "attempt failed"
    EVENT = "event"  # a cluster event, or an update of the pod, that a hint function accepted
    BACKOFF_COMPLETE = "backoff complete"
    TIMEOUT = "unschedulable timeout"
    ACTIVATED = "activated"
    DEFERRED = "deferred"
    PREEMPTION_ENDED = "preemption ended"
    PROFILES_CHANGED = "profiles changed"
    REMOVED = "deleted or bound"


# Looking up a member of an enum in its class is slow.
OUTSIDE, ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, IN_FLIGHT = Place
(
    ADDED,
    POPPED,
    FAILED,
    EVENT,
    BACKOFF_COMPLETE,
    TIMEOUT,
    ACTIVATED,
    DEFERRED,
    PREEMPTION_ENDED,
    PROFILES_CHANGED,
    REMOVED,
) = Trigger

Transition = tuple[Place, Trigger, Place]

# (from, trigger, to). Where there are several targets, the queue chooses the first that
# applies: unschedulable if no event during the attempt may help the pod, gated if a
# PreEnqueue plugin rejects the pod or if the pod is held, backoff while the penalty lasts, active.
# From backoff to gated only if pods are not taken out of backoff early.
TRANSITIONS: frozenset[Transition] = frozenset(
    (place, trigger, target)
    for place, trigger, targets in (
        (OUTSIDE, ADDED, (ACTIVE, GATED)),
        (ACTIVE, POPPED, (IN_FLIGHT,)),
        (BACKOFF, POPPED, (IN_FLIGHT,)),
        (ACTIVE, DEFERRED, (BACKOFF,)),
        (BACKOFF, DEFERRED, (BACKOFF,)),
        (IN_FLIGHT, FAILED, (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED)),
        (BACKOFF, BACKOFF_COMPLETE, (ACTIVE, GATED)),
        (UNSCHEDULABLE, EVENT, (ACTIVE, BACKOFF, GATED)),
        (UNSCHEDULABLE, TIMEOUT, (ACTIVE, BACKOFF, GATED)),
        (BACKOFF, PREEMPTION_ENDED, (ACTIVE, GATED)),
        (UNSCHEDULABLE, PREEMPTION_ENDED, (ACTIVE, GATED)),
        (GATED, EVENT, (ACTIVE, BACKOFF)),
        (GATED, TIMEOUT, (ACTIVE, BACKOFF)),
        (GATED, PREEMPTION_ENDED, (ACTIVE, BACKOFF)),
        (BACKOFF, ACTIVATED, (ACTIVE, GATED)),
        (UNSCHEDULABLE, ACTIVATED, (ACTIVE, BACKOFF, GATED)),
        (GATED, ACTIVATED, (ACTIVE, BACKOFF)),
        (ACTIVE, PROFILES_CHANGED, (GATED,)),
        (BACKOFF, PROFILES_CHANGED, (GATED,)),
        (UNSCHEDULABLE, PROFILES_CHANGED, (ACTIVE, BACKOFF, GATED)),
        (GATED, PROFILES_CHANGED, (ACTIVE, BACKOFF)),
        (ACTIVE, REMOVED, (OUTSIDE,)),
        (BACKOFF, REMOVED, (OUTSIDE,)),
        (UNSCHEDULABLE, REMOVED, (OUTSIDE,)),
        (GATED, REMOVED, (OUTSIDE,)),
        (IN_FLIGHT, REMOVED, (OUTSIDE,)),
    )
    for target in targets
)

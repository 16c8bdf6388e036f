"""How long a leader may write after it has renewed its lease."""

from __future__ import annotations


def tenure_seconds(lease_duration: float, renew_deadline: float, retry_period: float) -> float:
    """Returns the seconds from a renewal of the lease to its loss, unless another one succeeds.

    The leader pauses for the retry period, and then tries until the renew deadline. If others may
    take the lease by then, the pause counts towards the deadline. The lease holds whole seconds,
    without the fraction.
    """
    seconds = int(lease_duration)
    whole = retry_period + renew_deadline
    return whole if whole < seconds else min(renew_deadline, seconds)

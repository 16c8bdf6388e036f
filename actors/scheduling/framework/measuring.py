"""Measuring: what the decision and the plugins report of an attempt, and to whom.

The library has no clock. Callers that measure an attempt pass a Record, which stays in the
attempt's CycleState; UNMEASURED is for all others. In-tree plugins count with `handle.measures`.

A record is a list of marks, because it is written many times for each pod: what begins or ends,
and when, as two numbers. An interval lasts from a mark that begins something to the next mark. If
that one begins something too, the interval ended with success; otherwise it says how it ended, with
the number of a Code. Between two marks of an interval nothing else may run: an extension point that
waits notes both at its end.

    marks += (FILTER, now())
    ...
    marks += (SUCCEEDED, now())
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, MutableSequence
from typing import Protocol

from .status import SUCCESS, Code

# How an interval ends, besides the numbers of the codes: it does not count.
SUCCEEDED = int(SUCCESS.code)
FAILED = int(Code.ERROR)
DISCARDED = 7
# What begins. The first is a PreFilter that found answers kept from other pods; the second is the
# search for such answers if there are none, before PreFilter.
(
    RECALL,
    NO_RECALL,
    PRE_ENQUEUE,
    PRE_FILTER,
    FILTER,
    POST_FILTER,
    PRE_SCORE,
    SCORE,
    RESERVE,
    UNRESERVE,
    PERMIT,
    PRE_BIND_PRE_FLIGHT,
    PRE_BIND,
    BIND,
    POST_BIND,
) = range(DISCARDED + 1, DISCARDED + 16)
# The extension points, as kube-scheduler's metrics name them.
POINTS = {
    RECALL: "PreFilter",
    PRE_ENQUEUE: "PreEnqueue",
    PRE_FILTER: "PreFilter",
    FILTER: "Filter",
    POST_FILTER: "PostFilter",
    PRE_SCORE: "PreScore",
    SCORE: "Score",
    RESERVE: "Reserve",
    UNRESERVE: "Unreserve",
    PERMIT: "Permit",
    PRE_BIND_PRE_FLIGHT: "PreBindPreFlight",
    PRE_BIND: "PreBind",
    BIND: "Bind",
    POST_BIND: "PostBind",
}


class Record(Protocol):
    """The measurements of an attempt. If it is `detailed`, plugins are timed one by one, as
    kube-scheduler does for one attempt in ten.
    """

    @property
    def detailed(self) -> bool: ...

    @property
    def marks(self) -> MutableSequence[float]: ...

    @property
    def idle(self) -> MutableSequence[int]:
        """The extension points that had nothing to do; they count, and take no time."""
        ...

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def ran(self, plugin: str, point: str, code: Code, started: float) -> None:
        """Note that a plugin, asked at the time `started`, has answered."""
        ...

    def kept(self, started: float) -> None:
        """Note that answers about the pod were put away for others, from the time `started` on."""
        ...

    def not_kept(self) -> None:
        """Note that the answers about the pod depend on more than what others share with it."""
        ...

    def dropped(self) -> None:
        """Note that answers kept from other pods could not be used: the decision begins anew."""
        ...

    def end(self, result: str, node: str = "") -> None:
        """Note that the attempt has ended: scheduled, unschedulable or error."""
        ...


class Unmeasured:
    """Measures nothing."""

    detailed = False

    def __init__(self) -> None:
        self.marks: MutableSequence[float] = deque(maxlen=0)
        self.idle: MutableSequence[int] = deque(maxlen=0)

    def now(self) -> float:
        return 0.0

    def ran(self, plugin: str, point: str, code: Code, started: float) -> None:
        pass

    def kept(self, started: float) -> None:
        pass

    def not_kept(self) -> None:
        pass

    def dropped(self) -> None:
        pass

    def end(self, result: str, node: str = "") -> None:
        pass


UNMEASURED = Unmeasured()


class PluginMeasures(Protocol):
    """The counts of in-tree plugins, under kube-scheduler's names."""

    def preemption_attempted(self) -> None:
        """Count a search for victims."""
        ...

    def claim_created(self, *, success: bool) -> None:
        """Count a request to create a ResourceClaim for extended resources."""
        ...

    def volumes_failed(self, operation: str) -> None:
        """Count an error with a pod's volumes in `predicate`, `assume` or `bind`."""
        ...

    def devices_bound(
        self,
        profile: str,
        drivers: Iterable[str],
        conditional: Iterable[str],
        outcome: str,
        seconds: float,
    ) -> None:
        """Count a wait for binding conditions. `drivers` has the driver of each allocated device,
        `conditional` that of each device with conditions. `outcome` is `success`, `failure`,
        `timeout` or `error`.
        """
        ...


class NoMeasures:
    """Counts nothing."""

    def preemption_attempted(self) -> None:
        pass

    def claim_created(self, *, success: bool) -> None:
        pass

    def volumes_failed(self, operation: str) -> None:
        pass

    def devices_bound(
        self,
        profile: str,
        drivers: Iterable[str],
        conditional: Iterable[str],
        outcome: str,
        seconds: float,
    ) -> None:
        pass


NO_MEASURES = NoMeasures()

"""Measuring: what the decision and the plugins report of an attempt, and to whom.

The library has no clock. Callers that measure an attempt pass a Record, which stays in the
attempt's CycleState; UNMEASURED is for all others. In-tree plugins count with `handle.measures`.

The runner says where a decision is: an extension point lasts from `enter` to `leave`, or to the
next `enter`, and then it ended with success. Nothing else may be recorded meanwhile: extension
points that wait, or that may cause others to run, are noted when they have ended.

    record.enter(FILTER)
    ...
    record.leave()

    began = record.now()
    ...
    record.took(BIND, began, status.code)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .status import Code

# The extension points. RECALL is a PreFilter whose answers are kept from other pods.
(
    RECALL,
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
) = range(len(Code) + 2, len(Code) + 16)
# As kube-scheduler's metrics name them.
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


class Record:
    """The measurements of an attempt. If it is `detailed`, plugins are timed one by one, as
    kube-scheduler does for one attempt in ten. `now` gives monotonic seconds. This one measures
    nothing.
    """

    detailed = False

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self.now = now

    def enter(self, point: int) -> None:
        """Note that an extension point begins."""

    def leave(self, code: Code = Code.SUCCESS) -> None:
        """Note that the extension point has ended."""

    def took(self, point: int, started: float, code: Code = Code.SUCCESS) -> None:
        """Note that an extension point has ended that began at the time `started`."""

    def idle(self, point: int) -> None:
        """Note that an extension point had nothing to do; it counts, and takes no time."""

    def ran(self, plugin: str, point: str, code: Code, started: float) -> None:
        """Note that a plugin, asked at the time `started`, has answered."""

    def missed(self) -> None:
        """Note that no answers are kept for the pod, which ends RECALL."""

    def kept(self) -> None:
        """Note that answers about the pod were put away for others, since RECALL began."""

    def not_kept(self) -> None:
        """Note that the answers about the pod depend on more than what others share with it."""

    def dropped(self) -> None:
        """Note that answers kept from other pods could not be used: the decision begins anew."""

    def end(self, result: str, node: str = "") -> None:
        """Note that the attempt has ended: scheduled, unschedulable or error."""


UNMEASURED = Record()


class PluginMeasures:
    """The counts of in-tree plugins, under kube-scheduler's names. This one counts nothing."""

    def preemption_attempted(self) -> None:
        """Count a search for victims."""

    def claim_created(self, *, success: bool) -> None:
        """Count a request to create a ResourceClaim for extended resources."""

    def volumes_failed(self, operation: str) -> None:
        """Count an error with a pod's volumes in `predicate`, `assume` or `bind`."""

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


NO_MEASURES = PluginMeasures()

"""Reports of the decision and the plugins on the durations and counts of an attempt.

The library has no clock. Callers that measure an attempt pass a Record, which stays in the
attempt's CycleState; all others pass UNMEASURED. In-tree plugins count with `handle.measures`.

The runner reports its steps: an extension point lasts from `enter` to `leave`, or to the next
`enter`, which means that it ended with success. Nothing else may be recorded meanwhile: extension
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

# The extension points. RECALL is a PreFilter that reuses answers about other pods.
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
# The names in kube-scheduler's metrics.
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
    kube-scheduler does for one attempt in ten. `now` gives monotonic seconds. This base class
    measures nothing.
    """

    detailed = False

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self.now = now

    def enter(self, point: int) -> None:
        """Records that an extension point begins."""

    def leave(self, code: Code = Code.SUCCESS) -> None:
        """Records that the extension point has ended."""

    def took(self, point: int, started: float, code: Code = Code.SUCCESS) -> None:
        """Records the end of an extension point that began at `started`."""

    def idle(self, point: int) -> None:
        """Records that an extension point had nothing to do. It counts, with no time."""

    def ran(self, plugin: str, point: str, code: Code, started: float) -> None:
        """Records that a plugin has answered a call that began at `started`."""

    def missed(self) -> None:
        """Records that no answers can be reused for the pod. This ends RECALL."""

    def kept(self, *, success: bool) -> None:
        """Records that answers about the pod were stored for others since RECALL began, or cannot
        be stored.
        """

    def dropped(self) -> None:
        """Records that stored answers could not be used, so that the decision begins anew."""

    def end(self, result: str, node: str = "") -> None:
        """Records the end of the attempt: scheduled, unschedulable or error."""


UNMEASURED = Record()


class PluginMeasures:
    """The counts of in-tree plugins, named as in kube-scheduler. This base class counts nothing."""

    def preemption_attempted(self) -> None:
        """Counts a search for victims."""

    def claim_created(self, *, success: bool) -> None:
        """Counts a request to create a ResourceClaim for extended resources."""

    def volumes_failed(self, operation: str) -> None:
        """Counts an error with a pod's volumes in `predicate`, `assume` or `bind`."""

    def devices_bound(
        self,
        profile: str,
        drivers: Iterable[str],
        conditional: Iterable[str],
        outcome: str,
        seconds: float,
    ) -> None:
        """Counts a wait for binding conditions.

        `drivers` has the driver of each allocated device, `conditional` the driver of each device
        with conditions. `outcome` is `success`, `failure`, `timeout` or `error`.
        """


NO_MEASURES = PluginMeasures()

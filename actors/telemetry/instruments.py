"""Instruments: the measurements of actors, decision and plugins, like those of kube-scheduler.

Only the main thread writes them. The sizes of queue and cache are read along with the metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import anyio
from anyio.abc import TaskStatus

from berth.config.feature_gates import DEFAULTS

from ..messages.cache import CacheStatistics
from ..messages.queue import QueuedPod, QueueMeasures
from ..runtime.clock import Clock
from ..scheduling.framework.measuring import PluginMeasures, Record
from ..scheduling.framework.status import Code
from ..scheduling.model.pod_info import PodInfo
from .families import Families
from .measures import Counter, Family, Gauge, Registry
from .records import MOST_MARKS, PointTimes
from .tracing import Tracing

Observe = Callable[[float], None]
L = TypeVar("L", bound=tuple[str, ...])
ELECTION = "kube-scheduler"  # kube-scheduler's name for its election, whatever its lease
MOST_ATTEMPTS = 15  # with a label of their own
# kube-scheduler counts gated pods in the queue of unschedulable ones.
_QUEUES = {"gated": "unschedulable"}
_POD = "pod"  # berth schedules no groups
# The labels of a claim that the scheduler makes.
_OF_A_POD = {"admin_access": "false", "owner_api_group": "", "owner_api_kind": "Pod"}


# True for the attempts of a hundred that are recorded in detail: ten, at irregular distances, as a
# workload may repeat itself after every ten pods.
_DETAILED = tuple(number * 37 % 100 < 10 for number in range(100))
SETTLE_SECONDS = 1.0
IDLE_SETTLE_SECONDS = 5.0  # while there are few observations
FEW = 1_000


class Instruments(PluginMeasures):
    """The instruments of the scheduler.

    `now` is in monotonic seconds. `bindings` is the number of binding cycles in progress. Without
    `tracing`, no attempt is traced.
    """

    def __init__(
        self,
        registry: Registry,
        now: Callable[[], float],
        gates: Mapping[str, bool] = DEFAULTS,
        tracing: Tracing | None = None,
    ) -> None:
        self.registry = registry
        self._tracing = tracing
        self.now = now
        self._families = families = Families(registry, gates)
        self._times: dict[str, PointTimes] = {}
        self._ends: dict[tuple[str, str], tuple[Counter, Observe]] = {}
        self._slis: dict[int, Observe] = {}
        self._attempts = 0
        self._counted: dict[tuple[str, ...], int] = {}  # numbers that counters already include
        self._algorithm = families.algorithm_duration.child().observe
        self._pod_attempts = families.pod_attempts.child().observe
        self.bindings = families.goroutines.child("binding")
        for operation in ("Filter", "Score", "InterPodAffinity"):
            families.goroutines.child(operation)  # The decision does not run in tasks of its own.
        families.leads.child(ELECTION)

    async def run(
        self, clock: Clock, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Counts observations from time to time, until cancelled."""
        task_status.started()
        number = 0
        while True:
            await clock.sleep(IDLE_SETTLE_SECONDS if number < FEW else SETTLE_SECONDS)
            number = self.settle()

    def settle(self) -> int:
        """Counts the observations so far; returns how many of them were made by histograms."""
        for times in self._times.values():
            times.settle()
        return self.registry.settle()

    # ------------------------------------------------------------------------------------- attempts

    def _times_of(self, profile: str) -> PointTimes:
        times = self._times.get(profile)
        if times is None:
            times = self._times[profile] = PointTimes(self._families, profile, self.now)
        return times

    def gate(self, profile: str) -> Record:
        """Returns the record of all PreEnqueue calls of a profile."""
        return self._times_of(profile).gate

    def attempt(self, info: PodInfo, profile: str, started: float) -> Record:
        """Returns the record of a new attempt."""
        times = self._times.get(profile) or self._times_of(profile)
        number = self._attempts
        self._attempts = number + 1
        times.gate.detailed = detailed = _DETAILED[number % 100]
        if len(times.marks) > MOST_MARKS:
            times.settle()
        if self._tracing is not None:
            traced = self._tracing.begin(info, profile, started, times, sampled=detailed)
            if traced is not None:
                return traced
        return times.detailed if detailed else times.plain

    def decided(self, started: float, began: float, ended: float) -> None:
        """Records the duration of the algorithm, which began at `began`, with the snapshot."""
        self._algorithm(ended - started)

    def attempt_ended(self, profile: str, result: str, seconds: float) -> None:
        ends = self._ends.get((profile, result))
        if ends is None:
            counter = self._families.attempts.child(result, profile)
            duration = self._families.attempt_duration.child(result, profile)
            ends = self._ends[profile, result] = (counter, duration.observe)
        ends[0].value += 1
        ends[1](seconds)

    def scheduled(self, queued: QueuedPod, now: float) -> None:
        """Records that the pod is bound."""
        attempts = queued.attempts
        self._pod_attempts(attempts)
        if queued.first_attempt_at is not None:
            sli = self._slis.get(attempts)
            if sli is None:
                label = str(attempts) if attempts < MOST_ATTEMPTS else f"{MOST_ATTEMPTS}+"
                sli = self._slis[attempts] = self._families.sli_duration.child(label).observe
            sli(now - queued.first_attempt_at)
        if queued.flushed:
            self._families.after_flush.child().inc()

    def waited(self, code: Code, since: float) -> None:
        """Records that a pod has waited on Permit."""
        self._families.permit_wait.child(code.label).observe(self.now() - since)

    # ------------------------------------------------------------------------------------ the queue

    def handling_of(self, event: str) -> Observe:
        """Returns a function that takes the seconds in which the queue handled an event of this
        name.
        """
        return self._families.event_handling.child(event).observe

    def hinting_of(self, plugin: str, event: str, hint: str) -> Observe:
        """Returns a function that takes the seconds of a plugin's hint function."""
        return self._families.hint_duration.child(plugin, event, hint).observe

    # ----------------------------------------------------------------------------------- preemption

    def victims_chosen(self, number: int) -> None:
        self._families.preemption_victims.child().observe(number)

    def preempted(self, *, success: bool, since: float) -> None:
        """Records the end of a preemption."""
        result = "success" if success else "error"
        self._families.preemption_duration.child(result).observe(self.now() - since)
        self._families.preemptions.child(result).inc()

    # ---------------------------------------------------------------------------------- leadership

    def leads(self, leads: bool) -> None:
        """Records whether this process holds the lease."""
        self._families.leads.child(ELECTION).set(leads)

    def renewed_slowly(self) -> None:
        """Records a renewal that had to read the lease first."""
        self._families.slow_renewals.child(ELECTION).inc()

    # -------------------------------------------------------------------------------------- plugins

    def preemption_attempted(self) -> None:
        self._families.preemption_attempts.child().inc()

    def claim_created(self, *, success: bool) -> None:
        """Records a claim that was created, or refused, for the extended resources of a pod."""
        family = self._families.claim_creates
        said = _OF_A_POD | {"status": "success" if success else "failure"}
        family.child(*(said[label] for label in family.labels)).inc()

    def volumes_failed(self, operation: str) -> None:
        self._families.volume_failures.child(operation).inc()

    def devices_bound(
        self,
        profile: str,
        drivers: Iterable[str],
        conditional: Iterable[str],
        outcome: str,
        seconds: float,
    ) -> None:
        for driver in drivers:
            self._families.device_wait.child(profile, driver, outcome).observe(seconds)
        for driver in conditional:
            self._families.device_allocations.child(profile, driver, outcome).inc()

    # ------------------------------------------------------------------ counted when they are read

    def count(
        self,
        queue: QueueMeasures,
        cache: CacheStatistics,
        evaluations: Mapping[str, Mapping[tuple[str, str], int]],
    ) -> None:
        """Takes over numbers that are counted elsewhere. `evaluations` are the numbers of nodes or
        pods that plugins decided on, by profile and by extension point and plugin.
        """
        self.settle()
        families, pending = self._families, queue.statistics
        for name in ("active", "backoff", "unschedulable", "gated"):
            number = getattr(pending, name)
            families.pending_pods.child(name).set(number)
            families.queued_entities.child(name, _POD).set(number)
        families.cache_size.child("nodes").set(cache.nodes)
        families.cache_size.child("pods").set(cache.pods)
        families.cache_size.child("assumed_pods").set(cache.assumed_pods)
        _set_all(families.inflight_events, {(e,): n for e, n in queue.in_flight_events.items()})
        _set_all(families.unschedulable_pods, queue.rejected)
        incoming = {(_QUEUES.get(q, q), e, q): n for (q, e), n in queue.incoming.items()}
        for (name, event, source), number in incoming.items():
            self._raise_counter(families.incoming_pods, (name, event), source, number)
            self._raise_counter(families.incoming_entities, (name, event, _POD), source, number)
        for profile, numbers in evaluations.items():
            for (point, plugin), number in numbers.items():
                self._raise_counter(
                    families.plugin_evaluations, (plugin, point, profile), "", number
                )

    def _raise_counter(
        self, family: Family[Counter], labels: tuple[str, ...], source: str, number: int
    ) -> None:
        """Raises a counter to a number that is counted in one of several sources. A source whose
        number fell has started anew, as profiles do with a new configuration.
        """
        key = (family.name, source, *labels)
        counted = self._counted.get(key, 0)
        family.child(*labels).inc(number - counted if number >= counted else number)
        self._counted[key] = number


def _set_all(family: Family[Gauge], numbers: Mapping[L, int]) -> None:
    """Sets all children of a family; those without a number to 0."""
    for _, child in family.children():
        child.set(0)
    for labels, number in numbers.items():
        family.child(*labels).inc(number)

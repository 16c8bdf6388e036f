"""Instruments: what the actors, the decision and the plugins measure, as kube-scheduler does.

All of it is written by the main thread, but for the state of the leader election. The sizes of the
queue and the cache are asked for when the metrics are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from berth.actors.instruments.families import Families
from berth.actors.instruments.records import AttemptRecord, GateRecord, ProfileChildren, is_detailed
from berth.actors.messages import CacheStatistics, QueuedPod, QueueMeasures
from berth.actors.runtime.measures import Counter, Family, Gauge, Histogram, Registry
from berth.actors.scheduling.framework.measuring import Record
from berth.actors.scheduling.framework.status import Code
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.config.feature_gates import DEFAULTS

L = TypeVar("L", bound=tuple[str, ...])
ELECTION = "kube-scheduler"  # kube-scheduler's name for its election, whatever its lease
MOST_ATTEMPTS = 15  # with a label of their own
BINDING = "binding"
# kube-scheduler counts gated pods in the queue of unschedulable ones.
_QUEUES = {"gated": "unschedulable"}


class Instruments:
    """`now` is in monotonic seconds."""

    def __init__(
        self,
        registry: Registry,
        now: Callable[[], float],
        gates: Mapping[str, bool] = DEFAULTS,
    ) -> None:
        self.registry = registry
        self.now = now
        self._families = families = Families(registry, gates)
        self._children: dict[str, ProfileChildren] = {}
        self._ends: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._events: dict[str, Histogram] = {}
        self._slis: dict[int, Histogram] = {}
        self._attempts = 0
        self._known: dict[tuple[str, ...], int] = {}  # what counters have taken in so far
        self._algorithm = families.algorithm_duration.child()
        self._pod_attempts = families.pod_attempts.child()
        self._binding = families.goroutines.child(BINDING)
        for operation in ("Filter", "Score", "InterPodAffinity"):
            families.goroutines.child(operation)  # The decision is no task of its own.
        families.leads.child(ELECTION)

    # ------------------------------------------------------------------------------------- attempts

    def attempt(self, info: PodInfo, profile: str, started: float) -> Record:
        """The record of a new attempt; one in ten is detailed."""
        number = self._attempts
        self._attempts = number + 1
        children = self._children.get(profile) or self._of(profile)
        return AttemptRecord(children, self.now, detailed=is_detailed(number))

    def _of(self, profile: str) -> ProfileChildren:
        self._children[profile] = children = ProfileChildren(self._families, profile)
        return children

    def gate(self, profile: str) -> Record:
        """The record of all PreEnqueue calls of a profile."""
        return GateRecord(self._of(profile), self.now)

    def decided(self, started: float, asked: float) -> None:
        """The algorithm ends now; it had the snapshot at the time `asked`."""
        self._algorithm.observe(self.now() - started)

    def attempt_ended(self, profile: str, result: str, started: float) -> None:
        ends = self._ends.get((profile, result))
        if ends is None:
            ends = (
                self._families.attempts.child(result, profile),
                self._families.attempt_duration.child(result, profile),
            )
            self._ends[profile, result] = ends
        ends[0].value += 1
        ends[1].observe(self.now() - started)

    def scheduled(self, queued: QueuedPod) -> None:
        """The pod is bound."""
        attempts = queued.attempts
        self._pod_attempts.observe(attempts)
        if queued.first_attempt_at is not None:
            sli = self._slis.get(attempts)
            if sli is None:
                label = str(attempts) if attempts < MOST_ATTEMPTS else f"{MOST_ATTEMPTS}+"
                sli = self._slis[attempts] = self._families.sli_duration.child(label)
            sli.observe(self.now() - queued.first_attempt_at)
        if queued.flushed:
            self._families.after_flush.child().inc()

    # -------------------------------------------------------------------------- the binding cycle

    def binding_begins(self) -> None:
        self._binding.value += 1

    def binding_ended(self) -> None:
        self._binding.value -= 1

    def waited(self, code: Code, since: float) -> None:
        """A pod has waited on Permit."""
        self._families.permit_wait.child(code.label).observe(self.now() - since)

    # ------------------------------------------------------------------------------------ the queue

    def handled(self, event: str, since: float) -> None:
        """The queue has taken in an event."""
        found = self._events.get(event)
        if found is None:
            found = self._events[event] = self._families.event_handling.child(event)
        found.observe(self.now() - since)

    def hinted(self, plugin: str, event: str, hint: str, since: float) -> None:
        """A plugin's hint function has answered."""
        self._families.hint_duration.child(plugin, event, hint).observe(self.now() - since)

    # ----------------------------------------------------------------------------------- preemption

    def victims_chosen(self, number: int) -> None:
        self._families.preemption_victims.child().observe(number)

    def preempted(self, *, success: bool, since: float) -> None:
        """A preemption has ended."""
        result = "success" if success else "error"
        self._families.preemption_duration.child(result).observe(self.now() - since)
        self._families.preemptions.child(result).inc()

    # ---------------------------------------------------------------------------------- leadership

    def leads(self, leads: bool) -> None:
        """May be called by the election's thread."""
        self._families.leads.child(ELECTION).set(leads)

    # -------------------------------------------------------------------------------------- plugins

    def preemption_attempted(self) -> None:
        self._families.preemption_attempts.child().inc()

    def claim_created(self, *, success: bool) -> None:
        self._families.claim_creates.child("success" if success else "failure").inc()

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
        """Set what is counted elsewhere. `evaluations` are the numbers of nodes or pods that
        plugins were asked about, by profile and by extension point and plugin.
        """
        families, pending = self._families, queue.statistics
        for name in ("active", "backoff", "unschedulable", "gated"):
            families.pending_pods.child(name).set(getattr(pending, name))
        families.cache_size.child("nodes").set(cache.nodes)
        families.cache_size.child("pods").set(cache.pods)
        families.cache_size.child("assumed_pods").set(cache.assumed_pods)
        _set_all(families.inflight_events, {(e,): n for e, n in queue.in_flight_events.items()})
        _set_all(families.unschedulable_pods, queue.rejected)
        incoming = {(_QUEUES.get(q, q), e, q): n for (q, e), n in queue.incoming.items()}
        for (name, event, source), number in incoming.items():
            self._grow(families.incoming_pods, (name, event), source, number)
        for profile, numbers in evaluations.items():
            for (point, plugin), number in numbers.items():
                self._grow(families.plugin_evaluations, (plugin, point, profile), "", number)

    def _grow(
        self, family: Family[Counter], labels: tuple[str, ...], source: str, number: int
    ) -> None:
        """Bring a counter up to a number that was counted elsewhere, in one of several sources."""
        key = (family.name, source, *labels)
        family.child(*labels).inc(number - self._known.get(key, 0))
        self._known[key] = number


def _set_all(family: Family[Gauge], numbers: Mapping[L, int]) -> None:
    """Set all children of a family, to 0 where there is no number."""
    for _, child in family.children():
        child.set(0)
    for labels, number in numbers.items():
        family.child(*labels).inc(number)

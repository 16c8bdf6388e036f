"""Plays a scenario: schedulers, API server, controllers, kubelets and clients in one event loop, in
virtual time and with one source of chance. The same scenario gives the same writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import msgspec
from anyio.abc import TaskGroup

from berth.actors.client.rest import ApiError
from berth.config.feature_gates import with_defaults
from berth.config.options import Options
from berth.config.versions import emulated

from ...kubernetes.api.store import StoreEvent
from ...kubernetes.api.types.resources import Kind
from ..cluster import Cluster
from ..configuration import configuration_of
from ..parts import Parts
from ..virtual_time import LoopClock, StandStillError, VirtualLoop, run_virtually
from .properties import Properties, Violation
from .scenario import Scenario, ScenarioStep
from .situations import Situations

Document = dict[str, Any]
CALM_SECONDS = 90.0  # without faults, before the end; less than the five minutes of a flush
# What is deleted at the end, one kind after the other, and the time that it takes at most.
EMPTIED = (
    "PodDisruptionBudget", "Deployment", "StatefulSet", "ReplicaSet", "Job", "Pod",
    "PersistentVolumeClaim", "ResourceClaim", "Node",
)  # fmt: skip
EMPTY_SECONDS = 35.0  # longer than pods need to end
HEARD_SECONDS = 2.0  # for schedulers to hear of what is deleted
MOST_TURNS = 100_000  # of the loop without any time passing; stories need a few hundred
ELECTION = {"leaderElect": True, "leaseDuration": "15s", "renewDeadline": "10s"}


class Follower(Protocol):
    """Whoever follows a story: `note` hears of the writes, `add` of all else."""

    def note(self, kind: Kind, event: StoreEvent) -> None: ...

    def add(self, lane: str, about: str, text: str) -> None: ...


Follow = Callable[[Callable[[], float]], Follower]


class Story(msgspec.Struct, frozen=True):
    """What came of a scenario. `digest` is a hash of all writes and their times; equal digests mean
    equal stories. `seconds` is its length with its end, in virtual time. `met` counts the faults by
    what they do, and `situations` what happened.
    """

    digest: str
    writes: int
    bound: int
    seconds: float
    met: dict[str, int]
    situations: dict[str, int]
    violations: tuple[Violation, ...]

    @property
    def faults(self) -> int:
        """The number of faults that were met."""
        return sum(self.met.values())

    @property
    def broken(self) -> frozenset[str]:
        """The names of the properties that do not hold."""
        return frozenset(violation.property for violation in self.violations)


class _Digest:
    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock
        self._hash = hashlib.sha256()
        self.writes = 0

    def note(self, kind: Kind, event: StoreEvent) -> None:
        self.writes += 1
        self._hash.update(b"%f %s " % (self._clock.now(), event.type.encode()))
        if event.renews:
            self._hash.update("/".join(event.renews).encode())
        else:
            self._hash.update(event.after.raw)

    @property
    def text(self) -> str:
        return self._hash.hexdigest()


class _Simulation:
    def __init__(self, scenario: Scenario, follow: Follow | None) -> None:
        self._scenario = scenario
        self._clock = LoopClock()
        self.follow = follow(self._clock.now) if follow is not None else None
        self.digest = _Digest(self._clock)
        self.properties = Properties(self._clock.now)
        self.situations = Situations()
        self._locks: dict[str, str] = {}  # the kind of each scheduler's lock, by its host
        release = emulated(scenario.version)
        self._options = Options(feature_gates=with_defaults({}, release), version=release)
        self.cluster = _Cluster(self, scenario)

    async def play(self) -> Story:
        scenario = self._scenario
        async with self.cluster:
            for number in range(scenario.schedulers):
                await self._start_scheduler(number)
            for step in sorted(scenario.steps, key=lambda step: step.at):
                await self._clock.sleep(step.at - self._clock.now())
                await self._do(step)
            await self._clock.sleep(scenario.seconds - self._clock.now())
            self.cluster.faults.calm = True
            await self._clock.sleep(CALM_SECONDS)
            self.properties.check_end(self.cluster.store, scenario.config, scenario.version)
            await self._check_memory()
        return self.story(self._clock.now())

    def story(self, at: float, *more: Violation) -> Story:
        """Returns the story up to a second, with more violations than those of the writes."""
        bound = sum(bool(life.nodes) for life in self.cluster.history.lives.values())
        return Story(
            self.digest.text,
            self.digest.writes,
            bound,
            at,
            self._met(),
            dict(self.situations.seen),
            (*self.properties.found, *more),
        )

    def _met(self) -> dict[str, int]:
        """Returns how often each fault was met; refusals by their codes."""
        faults = self.cluster.faults
        met = {does: number for does, number in faults.met.items() if does != "refuse"}
        return met | {f"refuse {code}": number for code, number in faults.refused.items()}

    async def _check_memory(self) -> None:
        """Deletes everything, and looks what the schedulers still hold."""
        for kind in EMPTIED:
            for stored in self.cluster.all(kind):
                metadata = stored["metadata"]
                with suppress(ApiError):
                    await self.cluster.delete(
                        kind, metadata["name"], metadata.get("namespace", "default")
                    )
            ends = self._clock.now() + EMPTY_SECONDS
            while self.cluster.all(kind) and self._clock.now() < ends:
                await self._clock.sleep(1.0)
        await self._clock.sleep(HEARD_SECONDS)
        for scheduler in self.cluster.parts.schedulers:
            self.properties.check_memory(scheduler.host, await scheduler.held())

    async def _start_scheduler(self, number: int) -> None:
        lock, host = self._scenario.lock_of(number), f"host-{number}"
        self._locks[host] = lock
        elects = {"leaderElection": {**ELECTION, "resourceLock": lock}} if lock else {}
        config = {**elects, **self._scenario.config}
        configuration = configuration_of(config, self._options.feature_gates)
        await self.cluster.parts.start_scheduler(configuration, self._options, host)

    def note_writer(self, host: str) -> None:
        machine = "-".join(host.split("-")[:2])  # a scheduler that is started again has a suffix
        self.properties.writes(host, self._locks[machine])

    async def _do(self, step: ScenarioStep) -> None:
        """Does a step. What the API server refuses has come too late, and is left out."""
        cluster = self.cluster
        try:
            match step.verb:
                case "create":
                    await cluster.add(step.body)
                case "delete":
                    await cluster.delete(step.kind, step.name)
                case "patch":
                    await cluster.patch(step.kind, step.name, step.body)
                case "evict":
                    await self._evict_one_of(step.name)
                case "bind":
                    await self._bind_elsewhere(step.name, step.node)
                case "restart":
                    for scheduler in cluster.parts.schedulers[step.number :][:1]:
                        scheduler.end()
                case "compact":
                    cluster.store.compact()
        except ApiError as refused:
            self.situations.seen[f"{step.verb} refused with {refused.code}"] += 1

    async def _evict_one_of(self, workload: str) -> None:
        running = (pod for pod in self.cluster.pod(workload) if pod["spec"].get("nodeName"))
        pod = next(running, None)
        if pod is not None:
            await self.cluster.evict(pod["metadata"]["name"])

    async def _bind_elsewhere(self, name: str, node: str) -> None:
        for pod in self.cluster.pod(name):
            metadata = pod["metadata"]
            if metadata["name"] == name and not pod["spec"].get("nodeName"):
                self.properties.binds_elsewhere(node)
                await self.cluster.access.bind("default", name, metadata["uid"], node)


class _Cluster(Cluster):
    """A cluster whose schedulers the simulation starts, and whose parts tell it what they do."""

    def __init__(self, simulation: _Simulation, scenario: Scenario) -> None:
        self._simulation = simulation
        followed = () if simulation.follow is None else (simulation.follow.note,)
        super().__init__(
            version=scenario.version,
            scheduler=False,
            seed=scenario.seed,
            faults=scenario.faults,
            observers=(
                simulation.digest.note,
                simulation.properties.note,
                simulation.situations.note,
                *followed,
            ),
        )

    def _parts_in(self, group: TaskGroup) -> Parts:
        simulation, follow = self._simulation, self._simulation.follow
        return Parts(
            self.store,
            self._faults,
            self._clock,
            self._seed,
            group,
            simulation.note_writer,
            simulation.properties.binds_elsewhere,
            None if follow is None else follow.add,
        )


def play(scenario: Scenario, follow: Follow | None = None) -> Story:
    """Plays a scenario in an event loop of its own. Raises ConfigError and what a part raises.

    `follow` makes a follower of the story from its clock.
    """

    simulation = _Simulation(scenario, follow)
    try:
        return run_virtually(simulation.play, partial(VirtualLoop, 0.0, MOST_TURNS))
    except StandStillError as still:
        return simulation.story(still.at, Violation(still.at, "time stands still", str(still)))

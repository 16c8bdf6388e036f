"""The programs of a cluster in one event loop: controllers, kubelets, drivers and schedulers, each
behind the faults that are in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from anyio.abc import TaskGroup

from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.decision.observer import DecisionObserver
from berth.config.options import Options
from berth.config.types import KubeSchedulerConfiguration

from ..cluster.apiserver.store_faults import StoreFaults
from ..cluster.controllers.controller_manager import Plans, run_controllers
from ..cluster.controllers.embedded_access import EmbeddedAccess
from ..cluster.drivers.device_driver import Offer, PoolPublisher
from ..cluster.faults.faults_in_force import Faults
from ..cluster.faults.vocabulary import FAULTS, Fault, FaultPlace, Met
from ..cluster.kubelets.housekeeping import Setup
from ..cluster.kubelets.kubelets import run_kubelets
from ..cluster.kubelets.metrics_server import KubeletMetrics
from ..kubernetes.api.requests.field_managers import CONTROLLERS, KUBELET
from ..kubernetes.api.store import Store
from .configuration import Plugins, refuse_extenders, with_plugins
from .faulty_access import FaultyAccess, Program, Tell
from .faulty_plugin import FaultyPlugin
from .machine import Machine
from .scheduler import HOST, KeptScheduler
from .virtual_time import LoopClock

SCHEDULER = "kube-scheduler"
OF_PLUGINS = {does for does, kind in FAULTS.items() if kind.met is Met.POINT}


class Parts:
    """What runs beside an API server. `faults` lie between it and them. The methods that start a
    part may be called once `run` runs.

    `wrote` is called with the host of a scheduler before each of its writes, and `binds_elsewhere`
    with the node of a binding for which no scheduler of the cluster answers. `tell` is that of each
    Program.
    """

    def __init__(
        self,
        store: Store,
        faults: Iterable[Fault],
        clock: Clock,
        seed: int,
        group: TaskGroup,
        wrote: Callable[[str], None] = lambda _: None,
        binds_elsewhere: Callable[[str], None] = lambda _: None,
        tell: Tell | None = None,
    ) -> None:
        """Raises FaultError for faults that cannot be used."""
        faults = tuple(faults)
        self.has_plugin = any(fault.does in OF_PLUGINS for fault in faults)
        place = FaultPlace.SIMULATION if self.has_plugin else FaultPlace.CLUSTER
        self.faults = Faults(place, clock.now, Random(seed))
        self.schedulers: list[KeptScheduler] = []
        self._store, self._access = store, EmbeddedAccess(store)
        self._kubelets = Setup(version=store.release.version)
        self.metrics: KubeletMetrics | None = None  # of the kubelets, once they are started
        self._clock, self._rng, self._group = clock, Random(seed), group
        self._wrote, self._binds_elsewhere, self._tell = wrote, binds_elsewhere, tell
        self.store_faults = StoreFaults(
            store, self.faults, clock.now, Random(seed), binds_elsewhere
        )
        self.faults.add(*faults)
        self.store_faults.when("kill", self._kill)
        self.store_faults.when("stop", self._stop)
        group.start_soon(self.store_faults.run)

    async def start_kubelets(self) -> Callable[[str], bool]:
        """Returns a function that tells of a pod, by its uid, whether a kubelet acts on it at a
        known time.
        """
        self.metrics = KubeletMetrics(self._clock, self._kubelets.scenario)
        self._access = EmbeddedAccess(self._store, kubelets=self.metrics)
        is_due: Callable[[str], bool] = await self._group.start(
            run_kubelets, self._access_of(KUBELET), self._clock, self._rng, None, self._kubelets
        )
        return is_due

    async def start_controllers(self) -> Plans:
        """Returns a function that tells what the controllers work on."""
        access = self._access_of(CONTROLLERS)
        plans: Plans = await self._group.start(run_controllers, access, self._clock, self._rng)
        return plans

    async def start_drivers(self, offer: Offer) -> PoolPublisher:
        """Starts drivers of devices that publish what is offered."""
        publisher = PoolPublisher(self._access_of(KUBELET), self._clock, self._rng, offer)
        await self._group.start(publisher.run)
        return publisher

    async def start_scheduler(
        self,
        configuration: KubeSchedulerConfiguration,
        options: Options,
        host: str = HOST,
        plugins: Plugins = (),
        observer: DecisionObserver | None = None,
    ) -> None:
        """Starts one more scheduler, with these plugins beside those of packages, and one who sees
        each decision; several must elect a leader. Raises what is wrong with the configuration.
        """
        if isinstance(self._clock, LoopClock):
            refuse_extenders(configuration)
        if self.has_plugin:
            configuration = with_plugins(configuration, [FaultyPlugin], {})
            plugins = (*plugins, FaultyPlugin)
        kept = KeptScheduler(
            configuration,
            options,
            self._access,
            self._scheduler_on,
            self._rng,
            host,
            plugins,
            observer,
        )
        self.schedulers.append(kept)
        if configuration.leader_election.leader_elect:
            self._group.start_soon(kept.run)  # it starts once it leads
        else:
            await self._group.start(kept.run)

    def _access_of(self, name: str) -> FaultyAccess:
        return FaultyAccess(self._access.named(name), self._program(name))

    def _program(self, name: str, wrote: Callable[[], None] = lambda: None) -> Program:
        machine = Machine(self._clock)
        return Program(
            name, self.store_faults, machine, self._group, wrote, self._binds_elsewhere, self._tell
        )

    def _scheduler_on(self, host: str) -> Program:
        return self._program(SCHEDULER, lambda: self._wrote(host))

    async def _kill(self, fault: Fault) -> None:
        for scheduler in self.schedulers[fault.number :][:1]:
            scheduler.kill(fault.seconds)

    async def _stop(self, fault: Fault) -> None:
        for scheduler in self.schedulers[fault.number :][:1]:
            scheduler.stop(fault.seconds)

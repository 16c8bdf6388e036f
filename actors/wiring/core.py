"""From the queue to a binding: the actors that decide and write, their states and their profiles.

Informers feed them, and the recorder takes what they have for users; neither is part of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Set
from random import Random

import anyio
import msgspec

from berth.config.options import Options
from berth.config.types import KubeSchedulerConfiguration

from ..binding.actor import BindingActor
from ..binding.state import PodsInBinding
from ..cache.actor import CacheActor
from ..cache.state import CacheState
from ..client.access import Calls
from ..client.extender.calls import Extenders
from ..configuration.plugin_packages import registry_with
from ..cycle.actor import CycleActor
from ..informer.actor import SLICE
from ..informer.routing import is_pending
from ..mailboxes import Mailboxes
from ..messages.queue import PendingPodAdded, UseProfiles
from ..preemption.actor import PreemptionActor
from ..queue.actor import QueueActor
from ..queue.state import QueueRules, QueueState
from ..runtime.clock import Clock
from ..runtime.supervisor import Child
from ..scheduling.decision.profile import Profile
from ..scheduling.decision.registry import build_profiles
from ..scheduling.decision.scheduler import Scheduler
from ..scheduling.framework.interface import ApiHandle, Handle, Objects
from ..scheduling.framework.measuring import NO_MEASURES, UNMEASURED, PluginMeasures, Record
from ..scheduling.kube.core import Pod
from ..telemetry.instruments import Instruments
from .reloader import Swapped, effective

DEFAULT_OPTIONS = Options()

DEFAULT_OPTIONS = Options()


class SchedulerHandle:
    """The handle that plugins are given."""

    def __init__(
        self,
        api: ApiHandle,
        objects: Objects,
        waiting: PodsInBinding,
        feature_gates: Mapping[str, bool],
        clock: Clock,
        measures: PluginMeasures = NO_MEASURES,
    ) -> None:
        self.wall = clock.wall
        self.api = api
        self.objects = objects
        self.waiting = waiting
        self.feature_gates = feature_gates
        self.measures = measures


def profiles_of(
    configuration: KubeSchedulerConfiguration,
    handle: Handle,
    gate_of: Callable[[str], Record] = lambda _: UNMEASURED,
) -> dict[str, Profile]:
    """The profiles by scheduler name; `gate_of` gives a profile's record of PreEnqueue. Raises
    RegistryError with every field that is wrong.
    """
    registry = registry_with(handle.feature_gates)
    profiles = tuple(effective(configuration).values())
    whole = msgspec.structs.replace(configuration, profiles=profiles)
    return build_profiles(whole, registry, handle, gate_of)


class Core:
    """The actors that take a pod from the queue to its binding, and their mailboxes and states.

    The informers feed it, and the recorder takes what it has for users; neither is part of it.
    """

    def __init__(
        self,
        configuration: KubeSchedulerConfiguration,
        profiles: dict[str, Profile],
        mailboxes: Mailboxes,
        in_binding: PodsInBinding,
        clock: Clock,
        instruments: Instruments,
        options: Options = DEFAULT_OPTIONS,
    ) -> None:
        self.mailboxes = mailboxes
        self.in_binding = in_binding
        self.instruments = instruments
        self.queue = QueueState(_queue_rules(configuration, profiles, instruments, options))
        self.cache = CacheState()
        self.configuration = configuration
        self.feature_gates = options.feature_gates
        self.profiles = profiles
        self.clock = clock

    def owners(self) -> tuple[Child, ...]:
        """The actors that own the state of the cluster."""
        queue = QueueActor(self.mailboxes, self.queue, self.clock, self.instruments)
        return (
            Child("cache", CacheActor(self.mailboxes, self.cache).run),
            Child("queue", queue.run),
        )

    def gated(
        self,
        calls: Calls,
        api: ApiHandle,
        extenders: Extenders,
        scheduler: Scheduler,
        rng: Random,
    ) -> tuple[Child, ...]:
        """The actors that decide and write, which only a leader may do."""
        mailboxes, clock, profiles = self.mailboxes, self.clock, self.profiles
        instruments = self.instruments
        preemption = PreemptionActor(
            mailboxes, calls, api, clock, rng, self.configuration.parallelism, instruments
        )
        binding = BindingActor(
            mailboxes,
            extenders,
            api,
            clock,
            self.in_binding,
            instruments,
            nominates=self.feature_gates["NominatedNodeNameForExpectation"],
        )
        cycle = CycleActor(
            mailboxes,
            profiles,
            scheduler,
            extenders,
            clock,
            instruments,
            preempts_aside=self.feature_gates["SchedulerAsyncPreemption"],
        )
        return (
            Child("preemption", preemption.run),
            Child("binding", binding.run, stop_deadline=10.0),
            Child("cycle", cycle.run),
        )

    async def swap(
        self,
        configuration: KubeSchedulerConfiguration,
        build: Callable[[KubeSchedulerConfiguration], dict[str, Profile]],
        follow: Callable[[Collection[Profile]], Awaitable[None]],
        pods: Callable[[], Mapping[str, Pod]],
    ) -> Swapped:
        """Go on with the profiles of another configuration. Raises RegistryError and changes
        nothing if they cannot be made.

        `build` makes the profiles, `follow` returns once what they look up is known, and `pods` are
        those of the informer. A profile that is configured as before stays the same object.
        """
        built = build(configuration)
        before, after = effective(self.configuration), effective(configuration)
        profiles = {
            name: self.profiles[name] if before.get(name) == after[name] else profile
            for name, profile in built.items()
        }
        await follow(profiles.values())
        # From here to `tell`, nothing waits: informers, cycle and queue change in the same turn.
        gone = frozenset(self.profiles.keys() - profiles.keys())
        added = frozenset(profiles.keys() - self.profiles.keys())
        changed = frozenset(n for n, one in self.profiles.items() if profiles.get(n) is not one)
        self.profiles.clear()
        self.profiles.update(profiles)
        self.configuration = configuration
        rules = _new_rules(configuration, profiles)
        self.mailboxes.queue.tell(msgspec.structs.replace(rules, changed=changed - gone, gone=gone))
        if added:
            await self._take_in(added, pods)
        return Swapped(changed - gone, gone, added)

    async def _take_in(self, schedulers: Set[str], pods: Callable[[], Mapping[str, Pod]]) -> None:
        """Send the queue the pending pods of these scheduler names, of which it knows nothing.

        The informers send it those that change from now on, so between two slices none is missed.
        """
        for number, key in enumerate(tuple(pods()), 1):
            pod = pods().get(key)
            if pod is not None and pod.spec.scheduler_name in schedulers and is_pending(pod):
                self.mailboxes.queue.tell(PendingPodAdded(pod))
            if number % SLICE == 0:
                await anyio.lowlevel.checkpoint()


def _new_rules(
    configuration: KubeSchedulerConfiguration, profiles: Mapping[str, Profile]
) -> UseProfiles:
    """What the queue has to know of profiles; all of them sort alike."""
    first = next(iter(profiles.values()))
    return UseProfiles(
        first.sort_key,
        lambda pod: profiles[pod.spec.scheduler_name].pre_enqueue(pod),
        {name: profile.hints() for name, profile in profiles.items()},
        configuration.pod_initial_backoff_seconds,
        configuration.pod_max_backoff_seconds,
    )


def _queue_rules(
    configuration: KubeSchedulerConfiguration,
    profiles: Mapping[str, Profile],
    instruments: Instruments,
    options: Options,
) -> QueueRules:
    rules = _new_rules(configuration, dict(profiles))
    return QueueRules(
        rules.sort_key,
        rules.pre_enqueue,
        rules.hints,
        rules.initial_backoff,
        rules.max_backoff,
        options.max_unschedulable,
        options.feature_gates["SchedulerPopFromBackoffQ"],
        instruments,
    )

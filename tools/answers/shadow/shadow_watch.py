"""Follows a cluster for the shadow by lists and watches. It has no right to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TypeVar

import anyio
from anyio.abc import TaskStatus

from berth.actors.client.access import remote
from berth.actors.client.extender.calls import manages_resource
from berth.actors.client.read_only import ReadOnlyClient
from berth.actors.client.rest import Connection
from berth.actors.informer.listers import Listers
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.cache import CacheMessage
from berth.actors.messages.queue import QueueMessage
from berth.actors.runtime.actor import Actor
from berth.actors.runtime.clock import Clock
from berth.actors.runtime.mailbox import Mailbox
from berth.actors.runtime.supervisor import Child, Supervisor
from berth.actors.scheduling.kube.core import Pod
from berth.actors.wiring.informers import Informers
from berth.actors.wiring.plugin_lives import PluginLives
from berth.actors.wiring.profiles import plugins_of, profiles_of
from berth.config.types import KubeSchedulerConfiguration

from ..explain.plugin_handle import ReadOnlyHandle
from .shadow_state import MOMENT, Placement, ShadowState

M = TypeVar("M")

LOOK_SECONDS = 0.25
# After each placement: the time in which news of all kinds is read, so that none falls behind the
# pods while many are judged.
READ_SECONDS = 0.005
UNLIMITED = 0.0


class Watching:
    """The informers of a shadow, and its state. `tell` gets each placement. Raises RegistryError
    if the configuration cannot be used.
    """

    def __init__(
        self,
        configuration: KubeSchedulerConfiguration,
        gates: Mapping[str, bool],
        clock: Clock,
        rng: Random,
        tell: Callable[[Placement], None],
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._tell = tell
        self._gates = gates
        self._mailboxes = Mailboxes()
        self._informers: Informers | None = None
        self._listers = Listers(self._mailboxes, clock)
        self._profiles = profiles_of(configuration, ReadOnlyHandle(gates, self._listers, clock))

        def extended(pod: Pod) -> bool:
            return any(manages_resource(extender, pod) for extender in configuration.extenders)

        self.state = ShadowState(
            self._profiles, extended, nominates_gated=gates["GatedNominations"]
        )

    async def run(
        self, connection: Connection, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Follows the cluster until cancelled; started means that every kind is listed."""
        clock, rng = self._clock, self._rng
        async with remote(connection, clock, rng, UNLIMITED, 1, sender=ReadOnlyClient) as access:
            self._informers = informers = Informers(
                access, self._profiles, self._mailboxes, self._listers, self._gates, clock, rng
            )
            children = (
                Child("cache's messages", _Feed(self._mailboxes.cache, self._take).run),
                Child("queue's messages", _Feed(self._mailboxes.queue, self._take).run),
                informers.children(),
                Child("plugins", PluginLives(lambda: plugins_of(self._profiles), clock, rng).run),
                Child("judging", self._judge),
            )
            await Supervisor(children, clock, rng).run(task_status=task_status)

    def problems(self) -> list[str]:
        """Returns the reasons of the API server for not listing a kind."""
        return [] if self._informers is None else self._informers.problems()

    def _take(self, message: CacheMessage | QueueMessage) -> None:
        self.state.take(message, self._clock.now())

    async def _judge(self, *, task_status: TaskStatus[None]) -> None:
        self.state.begin()
        task_status.started()
        while True:
            for placement in self.state.due(self._clock.now()):
                self._tell(placement)
                await self._clock.sleep(READ_SECONDS)
            await self._clock.sleep(LOOK_SECONDS)

    async def finish(self) -> None:
        """Waits until all pods that are bound by now have been judged."""
        await self._clock.sleep(MOMENT + 2 * LOOK_SECONDS)


class _Feed(Actor[M]):
    """The actor of a mailbox, which hands its messages to the shadow's state."""

    def __init__(self, mailbox: Mailbox[M], take: Callable[[M], None]) -> None:
        super().__init__(mailbox)
        self._take = take

    def handle(self, message: M) -> None:
        self._take(message)

"""The swap: replaces the profiles by those of another configuration while pods are being scheduled.

Only the fields in LIVE are taken into use; the others wait for a restart.
"""

from __future__ import annotations

from collections.abc import Set

import anyio
import msgspec

from berth.config.types import KubeSchedulerConfiguration

from ..client.objects import ApiObjects
from ..informer.actor import SLICE
from ..informer.routing import is_pending
from ..mailboxes import Mailboxes
from ..messages.queue import PendingPodAdded, UseProfiles
from .informers import Informers, looked_up
from .plugin_lives import PluginLives
from .profiles import ProfilesInUse, plugins_of, rules_of

# The fields that are swapped with the profiles.
LIVE = (
    "profiles",
    "percentage_of_nodes_to_score",
    "pod_initial_backoff_seconds",
    "pod_max_backoff_seconds",
)


class SwapResult(msgspec.Struct, frozen=True):
    """The result of a swap: the configuration in use, and the scheduler names whose profiles were
    changed, removed and added. `until_restart` are the fields that differ and need a restart.
    """

    configuration: KubeSchedulerConfiguration
    changed: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    until_restart: tuple[str, ...] = ()


class Swap:
    """The swap of the profiles for those of another configuration."""

    def __init__(
        self,
        profiles: ProfilesInUse,
        informers: Informers,
        api: ApiObjects,
        mailboxes: Mailboxes,
        lives: PluginLives,
    ) -> None:
        self._profiles = profiles
        self._lives = lives
        self._informers = informers
        self._api = api
        self._queue = mailboxes.queue
        self._turn = anyio.Lock()

    async def go_on_with(self, written: KubeSchedulerConfiguration) -> SwapResult:
        """Replaces the profiles with the profiles of this configuration.

        If they cannot be made, raises RegistryError and changes nothing.
        """
        async with self._turn:
            return await self._go_on_with(written)

    async def go_on_with_other_classes(self) -> SwapResult:
        """Replaces the profiles whose plugins have other classes now. Raises RegistryError."""
        async with self._turn:
            return await self._go_on_with(self._profiles.configuration)

    async def _go_on_with(self, written: KubeSchedulerConfiguration) -> SwapResult:
        in_use = self._profiles
        configuration, until_restart = with_live_fields(in_use.configuration, written)
        profiles = in_use.make(configuration)
        self._api.add_kinds(looked_up(profiles.values()))
        await self._informers.follow(profiles.values())
        await self._lives.start(plugins_of(profiles))
        # From here to `tell`, nothing waits: informers, cycle and queue change in the same turn.
        before = dict(in_use.by_name)
        in_use.replace(configuration, profiles)
        swapped = SwapResult(
            configuration,
            frozenset(n for n in before.keys() & profiles if before[n] is not profiles[n]),
            frozenset(before.keys() - profiles.keys()),
            frozenset(profiles.keys() - before.keys()),
            until_restart,
        )
        rules = msgspec.structs.asdict(rules_of(configuration, profiles))
        self._queue.tell(UseProfiles(**rules, changed=swapped.changed, gone=swapped.gone))
        if swapped.added:
            await self._send_pending(swapped.added)
        await self._lives.keep(plugins_of(profiles))
        return swapped

    async def _send_pending(self, schedulers: Set[str]) -> None:
        """Sends the queue the pending pods of these scheduler names, which it does not know yet.

        The informers send it those that change from now on, so between two slices none is missed.
        """
        objects = self._informers.pods.objects
        for number, key in enumerate(tuple(objects()), 1):
            pod = objects().get(key)
            if pod is not None and pod.spec.scheduler_name in schedulers and is_pending(pod):
                self._queue.tell(PendingPodAdded(pod))
            if number % SLICE == 0:
                await anyio.lowlevel.checkpoint()


def with_live_fields(
    running: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration
) -> tuple[KubeSchedulerConfiguration, tuple[str, ...]]:
    """Returns the running configuration with the swappable fields of the new one, and the names of
    the other fields that differ.
    """
    live = {name: getattr(new, name) for name in LIVE}
    kept = tuple(
        field.encode_name
        for field in msgspec.structs.fields(running)
        if field.name not in live and getattr(running, field.name) != getattr(new, field.name)
    )
    return msgspec.structs.replace(running, **live), kept

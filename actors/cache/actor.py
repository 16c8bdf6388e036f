"""The cache actor: feeds the cache's state with messages, and lends out the snapshot.

The snapshot shares its NodeInfos and objects with the state. A decision may take as long as its
extenders take, so messages that arrive while the snapshot is lent are held back until it is
returned. When much has changed, as after a list, the snapshot is brought up to date in several
turns before it is lent; messages that arrive meanwhile are handled. While nobody takes a snapshot,
because no pod is pending or another scheduler is the leader, it is brought up to date now and then,
so that it does not hold the pods that were deleted.
"""

from __future__ import annotations

from typing import assert_never

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from ..mailboxes import Mailboxes
from ..messages.binding import RejectWaiting
from ..messages.cache import CacheMessage, CountCached, ReturnSnapshot, TakeSnapshot
from ..messages.comparison import Healed
from ..messages.order import Answer
from ..messages.queue import ClusterChanged
from ..runtime.actor import Actor
from ..scheduling.framework.events import ASSIGNED_POD_DELETE
from ..scheduling.framework.logger import get_logger
from .state import CacheState, Effect, Lend, OrderRefused, PodVanished, SnapshotRepaired

log = get_logger(__name__)

# Nodes that are brought up to date in one turn: about ten milliseconds if all their pods are new.
SLICE = 128
SECONDS = 5.0  # between two looks at whether the snapshot holds what is gone


class CacheActor(Actor[CacheMessage]):
    """The actor of the cache. When an assumed pod vanishes, it tells the binding actor and the
    queue, as only the cache knows that the pod was assumed.
    """

    def __init__(self, mailboxes: Mailboxes, state: CacheState) -> None:
        super().__init__(mailboxes.cache)
        self._state = state
        self._queue = mailboxes.queue
        self._binding = mailboxes.binding
        self._lent = False
        self._postponed: TakeSnapshot | None = None  # answered once the snapshot is up to date
        self._held_back: list[CacheMessage] = []
        self._group: TaskGroup | None = None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as group:
            self._group = group
            group.start_soon(self._update_while_idle)
            await super().run(task_status=task_status)

    def handle(self, message: CacheMessage) -> None:
        if isinstance(message, ReturnSnapshot):
            self._lent, self._postponed = False, None
            if self._held_back:
                held_back, self._held_back = self._held_back, []
                for earlier in held_back:
                    self.handle(earlier)  # Held back again if it follows a TakeSnapshot.
            if message.placed is not None:
                self.handle(message.placed)
        elif self._lent and not isinstance(message, CountCached):  # A count changes nothing.
            self._held_back.append(message)
        elif not (isinstance(message, TakeSnapshot) and self._is_postponed(message)):
            for effect in self._state.handle(message):
                self._follow(effect)

    def _is_postponed(self, order: TakeSnapshot) -> bool:
        """True if the order is answered later: after another order, or when the snapshot is nearly
        up to date.
        """
        if self._postponed is not None:
            self._held_back.append(order)
        elif self._state.behind > SLICE:
            assert self._group is not None
            self._postponed = order
            self._group.start_soon(self._catch_up, order)
        else:
            return False
        return True

    async def _update_while_idle(self) -> None:
        """Updates the snapshot in slices while it is not lent, so that it holds no deleted pods.
        What changes meanwhile waits for the next time.
        """
        while True:
            await anyio.sleep(SECONDS)
            for _ in range(0, self._state.behind, SLICE):
                if self._lent or self._postponed is not None:
                    break
                self._state.catch_up(SLICE)
                await anyio.lowlevel.checkpoint()

    async def _catch_up(self, order: TakeSnapshot) -> None:
        """Brings the snapshot nearly up to date, then handles the order again. Returns early if
        nobody waits for the snapshot any more.
        """
        for _ in range(self._state.behind // SLICE):
            self._state.catch_up(SLICE)
            await anyio.lowlevel.checkpoint()
            if self._postponed is not order:
                return
        self._postponed = None
        self.handle(order)

    def _follow(self, effect: Effect) -> None:
        match effect:
            case Lend():
                self._lent = True
                effect.order.reply.set(effect.snapshot)
            case Answer():
                effect.give()
            case Healed(difference):
                log.error("healed", **msgspec.structs.asdict(difference))
            case PodVanished(pod, node):
                uid = pod.metadata.uid
                self._binding.tell(RejectWaiting(uid))
                gone = msgspec.structs.replace(
                    pod, spec=msgspec.structs.replace(pod.spec, node_name=node)
                )
                self._queue.tell(ClusterChanged(ASSIGNED_POD_DELETE, gone, None, except_uid=uid))
            case SnapshotRepaired(rows, nodes):
                log.error("the snapshot was inconsistent and is built anew", rows=rows, nodes=nodes)
            case OrderRefused(name, problem):
                log.warning("refused", key=name, problem=problem)
            case _:
                assert_never(effect)

"""A glance at a running scheduler: its queue, its bindings, its leadership and its health."""

from __future__ import annotations

from functools import partial

import msgspec

from ..binding.state import PodsInBinding
from ..client.tenure import Tenure
from ..mailboxes import Mailboxes
from ..messages.queue import DumpQueued, ListQueued, MeasureQueue, QueuedPodDump
from ..process.heartbeat import Heartbeat
from ..runtime.ask import ask
from ..telemetry.problems import LoggedProblem, latest_problems
from .informers import Informers
from .reloader import Reloader

MOST_SHOWN = 200


class Rejections(msgspec.Struct, frozen=True):
    """The number of pods that wait because of a plugin."""

    plugin: str
    pods: int


class QueuedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of the queue. `plugins` rejected it, or hold it back. `waits_on` is the node that was
    chosen for it, if it waits for their permission; "" otherwise.
    """

    key: str
    place: str
    attempts: int
    priority: int
    backoff_left: float
    plugins: tuple[str, ...]
    waits_on: str = ""


class Glance(msgspec.Struct, frozen=True, rename="camel"):
    """The number of pods by place, the first of them, and the state of the scheduler.

    `in_flight` pods are being decided or bound; of these, `on_permit` wait for a plugin's
    permission, and `in_pre_bind` for their volumes and devices. `problems` are those of the
    informers; `logged` are the latest warnings and errors of the log, oldest first; `outdated` says
    why the configuration file is not in use, "" if it is.
    """

    active: int
    backoff: int
    parked: int
    gated: int
    in_flight: int
    on_permit: int
    in_pre_bind: int
    rejections: tuple[Rejections, ...]
    pods: tuple[QueuedPod, ...]
    leads: bool
    problems: tuple[str, ...]
    still_seconds: float
    logged: tuple[LoggedProblem, ...] = ()
    outdated: str = ""


class Lookout:
    """The place from which glances at the scheduler are taken, in its event loop."""

    def __init__(
        self,
        mailboxes: Mailboxes,
        in_binding: PodsInBinding,
        informers: Informers,
        tenure: Tenure,
        heartbeat: Heartbeat,
        reloads: Reloader,
    ) -> None:
        self._queue = mailboxes.queue
        self._in_binding = in_binding
        self._informers = informers
        self._tenure = tenure
        self._heartbeat = heartbeat
        self._reloads = reloads

    async def glance(self) -> Glance:
        """Returns the present glance. Raises MailboxClosedError once the scheduler has ended."""
        measures = await ask(self._queue, MeasureQueue)
        keys = (await ask(self._queue, ListQueued))[:MOST_SHOWN]
        dumped = await ask(self._queue, partial(DumpQueued, keys=keys))
        counts, binding = measures.statistics, self._in_binding.statistics()
        rejected: dict[str, int] = {}
        for (plugin, _), number in measures.rejected.items():
            rejected[plugin] = rejected.get(plugin, 0) + number
        most_first = sorted(rejected.items(), key=lambda item: (-item[1], item[0]))
        return Glance(
            counts.active,
            counts.backoff,
            counts.unschedulable,
            counts.gated,
            counts.in_flight,
            binding.waiting,
            binding.in_pre_bind,
            tuple(Rejections(plugin, number) for plugin, number in most_first if number),
            tuple(map(self._queued, dumped)),
            self._tenure.permits(),
            tuple(self._informers.problems()),
            self._heartbeat.still_for(),
            latest_problems.lines(),
            self._reloads.problem,
        )

    def _queued(self, pod: QueuedPodDump) -> QueuedPod:
        plugins = {*pod.rejected_by, *pod.pending, pod.gated_by} - {""}
        waiting = self._in_binding.get(pod.uid)
        if waiting is not None:
            plugins = set(waiting.plugins)
        return QueuedPod(
            pod.key,
            pod.place,
            pod.attempts,
            pod.priority,
            pod.backoff_left,
            tuple(sorted(plugins)),
            "" if waiting is None else waiting.node,
        )

"""A glance at a running scheduler: the state of its queue, its bindings, its leadership and its
health.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from berth.config.options import Options

from ..attempt.flight_file import FlightFile
from ..attempt.flights import FlightRecorder
from ..binding.state import PodsInBinding
from ..cache.debugger import CacheDebugger
from ..client.tenure import Tenure
from ..mailboxes import Mailboxes
from ..messages.queue import DumpQueued, ListQueued, MeasureQueue, QueuedPodDump
from ..process.heartbeat import Heartbeat
from ..runtime.ask import ask
from ..runtime.clock import Clock
from ..telemetry.instruments import Instruments
from ..telemetry.problems import LoggedProblem, latest_problems
from .breaker_reports import BreakerReports
from .informers import Informers
from .profiles import ProfilesInUse

MOST_SHOWN = 200


class Rejections(msgspec.Struct, frozen=True):
    """The number of pods that wait for a plugin."""

    plugin: str
    pods: int


class QueuedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of the queue. `plugins` rejected it, or hold it back. `waits_on` is the node chosen for
    it, if the plugins' permission is missing; otherwise "".
    """

    key: str
    place: str
    attempts: int
    priority: int
    backoff_left: float
    plugins: tuple[str, ...]
    waits_on: str = ""


class Glance(msgspec.Struct, frozen=True, rename="camel"):
    """The pods by place with the first of each, and the state of the scheduler.

    `in_flight` pods are being decided or bound; of these, `on_permit` wait for a plugin's
    permission, and `in_pre_bind` for their volumes and devices. `problems` are those of the
    informers; `logged` are the latest warnings and errors of the log, oldest first; `outdated` says
    why the configuration file or the file of a plugin is not in use, "" if they are.
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


class Parts(msgspec.Struct, frozen=True):
    """The parts of the scheduler about which its pages report. `outdated` returns why a file is not
    in use, "" if all are.
    """

    options: Options
    mailboxes: Mailboxes
    instruments: Instruments
    profiles: ProfilesInUse
    informers: Informers
    in_binding: PodsInBinding
    debugger: CacheDebugger
    tenure: Tenure
    heartbeat: Heartbeat
    outdated: Callable[[], str]
    flights: FlightRecorder | None
    flight_file: FlightFile | None
    clock: Clock
    breakers: BreakerReports


class Lookout:
    """The maker of glances, which works in the scheduler's event loop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def glance(self) -> Glance:
        """Returns the present glance. Raises MailboxClosedError once the scheduler has ended."""
        parts, queue = self._parts, self._parts.mailboxes.queue
        measures = await ask(queue, MeasureQueue)
        keys = (await ask(queue, ListQueued))[:MOST_SHOWN]
        dumped = await ask(queue, partial(DumpQueued, keys=keys))
        counts, binding = measures.statistics, parts.in_binding.statistics()
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
            parts.tenure.permits(),
            tuple(parts.informers.problems()),
            parts.heartbeat.still_for(),
            latest_problems.lines(),
            parts.outdated(),
        )

    def _queued(self, pod: QueuedPodDump) -> QueuedPod:
        plugins = {*pod.rejected_by, *pod.pending, pod.gated_by} - {""}
        waiting = self._parts.in_binding.get(pod.uid)
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

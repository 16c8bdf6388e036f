"""The scheduler's handle of plugins, and what a plugin sends through it.

A plugin calls it at any time, from a hook or a task of its own, in the scheduler's event loop. What
is for an actor goes to its mailbox.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from ..binding.state import PodsInBinding
from ..client.tenure import Tenure
from ..mailboxes import Mailboxes
from ..messages.queue import Activate
from ..messages.recorder import EventType, RecordEvent
from ..scheduling.framework.handle import ApiHandle, Handle, Objects, OwnMetrics
from ..scheduling.framework.handle_values import checked_note, key_of, uid_of
from ..scheduling.framework.logger import Logger, get_logger
from ..scheduling.framework.measuring import PluginMeasures
from ..scheduling.kube.core import Pod, reference_to
from ..scheduling.kube.kinds import WatchedKind
from ..scheduling.kube.meta import HasMetadata, ObjectReference
from ..scheduling.model.pod_info import PodInfo
from ..telemetry.plugin_metrics import PluginMetrics

REPORTER = "berth"  # of events that are about no pod


class Outlets(msgspec.Struct, frozen=True, eq=False):
    """Where the handles of all plugins send what they are given. `kind_of` returns the kind of a
    type of objects, if it is known.
    """

    mailboxes: Mailboxes
    tenure: Tenure
    metrics: PluginMetrics
    kind_of: Callable[[type[HasMetadata]], WatchedKind | None]


class SchedulerHandle(msgspec.Struct, frozen=True, eq=False):
    """The handle of a plugin; of in-tree plugins, which have no `plugin`, it is one for all."""

    api: ApiHandle
    objects: Objects
    waiting: PodsInBinding
    feature_gates: Mapping[str, bool]
    now: Callable[[], float]
    wall: Callable[[], datetime]
    measures: PluginMeasures
    outlets: Outlets
    plugin: str = ""
    log: Logger = get_logger(__name__)

    def for_plugin(self, name: str, module: str) -> Handle:
        """Returns the handle of a plugin, whose lines in the log are those of `module`."""
        return msgspec.structs.replace(self, plugin=name, log=get_logger(module).bind(plugin=name))

    @property
    def metrics(self) -> OwnMetrics:
        return self.outlets.metrics.of(self.plugin)

    def event(
        self,
        about: PodInfo | HasMetadata,
        reason: str,
        note: str,
        *,
        warning: bool = False,
        action: str = "Scheduling",
    ) -> None:
        note = checked_note(reason, action, note)
        regarding, sender = self._regarding(about)
        kind = EventType.WARNING if warning else EventType.NORMAL
        event = RecordEvent(regarding, kind, reason, action, note, sender)
        if self.outlets.tenure.permits():
            self.outlets.mailboxes.recorder.tell(event)

    def _regarding(self, about: PodInfo | HasMetadata) -> tuple[ObjectReference, str]:
        """Returns the reference to an object, and who reports the event."""
        item = about.pod if isinstance(about, PodInfo) else about
        if isinstance(item, Pod):
            return reference_to(item), item.spec.scheduler_name
        kind = self.outlets.kind_of(type(item))
        if kind is None:
            raise TypeError(f"expected an object of a kind that plugins look up, got {item!r:.80}")
        at = item.metadata
        place = kind.api_version, kind.kind, at.namespace, at.name, at.uid, at.resource_version
        return ObjectReference(*place), REPORTER

    def activate(self, *pods: PodInfo | Pod | str) -> None:
        keys = tuple(sorted({key_of(pod) for pod in pods}))
        if keys:
            self.outlets.metrics.activated(self.plugin, len(keys))
            self.outlets.mailboxes.queue.tell(Activate(keys, (self.plugin,)))

    def allow(self, pod: PodInfo | Pod) -> bool:
        return self.waiting.allow(uid_of(pod), self.plugin)

    def reject(self, pod: PodInfo | Pod, reason: str) -> bool:
        return self.waiting.reject(uid_of(pod), self.plugin, reason)

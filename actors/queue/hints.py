"""Who asked for which event, and whether an event is worth another attempt for one pod.

Plugins register events once, so which of them an event concerns is looked up once for each kind of
event and kept. The hint functions are asked for each pod. Mirrors kube-scheduler's queueing hint
map and isPodWorthRequeuing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from berth.actors.messages import ClusterChanged
from berth.actors.queue.entry import Entry
from berth.actors.scheduling.framework.events import (
    Action,
    ClusterEvent,
    Hint,
    Registration,
    Resource,
)
from berth.actors.scheduling.kube.core import Pod

# A scheduler name and a plugin of its profile.
Rejector = tuple[str, str]


class Worth(msgspec.Struct, frozen=True):
    """The pod is worth another attempt. `plugin` is whose hint said so, "" if nobody had to be
    asked.

    `immediately`: a plugin that the pod was pending for said so; the pod does not back off.
    """

    event: str
    plugin: str = ""
    immediately: bool = False


class HintTable:
    """`hints` gives, by scheduler name and plugin, the events that the plugin registered for."""

    def __init__(self, hints: Mapping[str, Mapping[str, Sequence[Registration]]]) -> None:
        self._table: dict[Rejector, Sequence[Registration]] = {
            (scheduler, plugin): _with_taints(registrations)
            for scheduler, plugins in hints.items()
            for plugin, registrations in plugins.items()
        }
        self._concerned: dict[ClusterEvent, dict[Rejector, tuple[Registration, ...]]] = {}
        self._asked: tuple[ClusterEvent | None, dict[Rejector, tuple[Registration, ...]]] = (
            None,
            {},
        )

    def knows(self, rejector: Rejector) -> bool:
        """False for a plugin that never said what it waits for: every event may help whom it
        rejected.
        """
        return rejector in self._table

    def concerned(self, event: ClusterEvent) -> Mapping[Rejector, tuple[Registration, ...]]:
        """The plugins that registered for the event, with what they registered."""
        if event is self._asked[0]:
            return self._asked[1]  # The next of many pods, for one and the same event.
        found = self._concerned.get(event)
        if found is None:
            found = {}
            for rejector, registrations in self._table.items():
                matching = tuple(r for r in registrations if r.event.matches(event))
                if matching:
                    found[rejector] = matching
            self._concerned[event] = found
        self._asked = (event, found)
        return found

    def judge(self, entry: Entry, change: ClusterChanged) -> Worth | None:
        """Whether the event may help the pod, by the plugins that rejected it; None if it does
        not.
        """
        event = change.event
        rejectors = entry.rejectors
        if event.resource is Resource.WILDCARD:
            # With an object it is meant for that pod alone.
            return (
                None if change.new is not None and not _is(entry, change.new) else Worth(str(event))
            )
        if event.resource is Resource.UNSCHEDULED_POD and not _is(entry, change.new):
            return None
        if change.except_uid and change.except_uid == entry.info.uid:
            return None
        if not rejectors:
            return Worth(str(event))
        concerned = self.concerned(event)
        pod = entry.info.pod
        # Pending plugins first, because their word spares the pod its backoff; sorted, because a
        # set has no order.
        in_order = (
            rejectors
            if len(rejectors) == 1
            else sorted(rejectors, key=lambda name: (name not in entry.pending, name))
        )
        for plugin in in_order:
            rejector = (pod.spec.scheduler_name, plugin)
            if rejector not in self._table:
                return Worth(str(event), plugin, plugin in entry.pending)
            for registration in concerned.get(rejector, ()):
                if (
                    registration.hint is None
                    or registration.hint(pod, change.old, change.new) is Hint.QUEUE
                ):
                    return Worth(str(event), plugin, plugin in entry.pending)
        return None


def _with_taints(registrations: Sequence[Registration]) -> Sequence[Registration]:
    """Who waits for new nodes, and not for taints, is queued by any change of a node's taints.

    kube-scheduler adds this registration when it builds its hint map; without it the reasons that
    users read would be older than kube-scheduler's.
    """
    of_nodes = [r.event.action for r in registrations if r.event.resource is Resource.NODE]
    if any(action & Action.UPDATE_NODE_TAINT for action in of_nodes):
        return registrations
    return (
        (*registrations, _RETAINTED)
        if any(action & Action.ADD for action in of_nodes)
        else registrations
    )


_RETAINTED = Registration(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT))


def _is(entry: Entry, item: object | None) -> bool:
    return isinstance(item, Pod) and item.metadata.uid == entry.info.uid

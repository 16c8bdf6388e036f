"""The registrations of plugins for events, and the judgement whether an event makes a pod worth
another attempt.

Plugins register once, so the plugins that an event concerns are looked up once for each kind of
event. The hint functions are called for each pod. Mirrors kube-scheduler's queueing hint map and
isPodWorthRequeuing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Protocol

import msgspec

from ..messages.queue import ClusterChanged
from ..scheduling.framework.events import ALWAYS, Action, ClusterEvent, Hint, Registration, Resource
from ..scheduling.kube.core import Pod
from .entry import Entry
from .turns import Shares

MOST_AT_ONCE = 0.1  # seconds of hints about one change; everything else waits meanwhile
# With each function the plugin and the event, as Entry.skips names them.
_Durations = dict[tuple[str, bool], tuple[Callable[[float], None], str]]
# A scheduler name and a plugin of its profile.
Rejector = tuple[str, str]


class Worth(msgspec.Struct, frozen=True):
    """A verdict: this event makes a pod worth another attempt.

    `plugin` is the plugin whose hint function accepted the event, "" if none was called.
    `immediately` is true if the pod does not back off, as when a pending plugin accepted the event.
    """

    event: str
    plugin: str = ""
    immediately: bool = False


class HintTimes(Protocol):
    """A recorder of the time that each hint function takes."""

    @property
    def now(self) -> Callable[[], float]:
        """Returns monotonic seconds."""
        ...

    def hinting_of(self, plugin: str, event: str, hint: str) -> Callable[[float], None]:
        """Returns a function that takes the seconds until a plugin gave this hint for an event."""
        ...


class NoHintTimes:
    """A recorder of hint times that records nothing."""

    def now(self) -> float:
        return 0.0

    def hinting_of(self, plugin: str, event: str, hint: str) -> Callable[[float], None]:
        return lambda _: None


UNTIMED = NoHintTimes()


class HintTable:
    """The registrations of plugins. `hints` are keyed by scheduler name, then by plugin."""

    def __init__(
        self,
        hints: Mapping[str, Mapping[str, Sequence[Registration]]],
        times: HintTimes = UNTIMED,
    ) -> None:
        self._times = times
        self._now = times.now
        self._shares = Shares()
        self._since = inf  # when the change came about which many pods are judged
        # By the event, then by the plugin and its hint.
        self._durations: dict[ClusterEvent, _Durations] = {}
        self.use(hints)

    def use(self, hints: Mapping[str, Mapping[str, Sequence[Registration]]]) -> None:
        """Replaces the registrations by those of other plugins."""
        self._table: dict[Rejector, Sequence[Registration]] = {
            (scheduler, plugin): _with_taints(registrations)
            for scheduler, plugins in hints.items()
            for plugin, registrations in plugins.items()
        }
        self._concerned: dict[ClusterEvent, dict[Rejector, tuple[Registration, ...]]] = {}
        # The event that was looked up last, with its plugins and durations: many pods in a row are
        # judged for one event.
        self._event: ClusterEvent | None = None
        self._of_event: dict[Rejector, tuple[Registration, ...]] = {}
        self._durations_of_event: _Durations = {}

    def knows(self, rejector: Rejector) -> bool:
        """True if the plugin registered for events. If not, any event may help its pods."""
        return rejector in self._table

    def concerned(self, event: ClusterEvent) -> Mapping[Rejector, tuple[Registration, ...]]:
        """Returns the plugins that registered for the event, with these registrations."""
        if event is self._event:
            return self._of_event
        registered = self._concerned.get(event)
        if registered is None:
            registered = {}
            for rejector, registrations in self._table.items():
                matching = tuple(r for r in registrations if r.event.matches(event))
                if matching:
                    registered[rejector] = matching
            self._concerned[event] = registered
        self._event, self._of_event = event, registered
        self._durations_of_event = self._durations.setdefault(event, {})
        return registered

    def keys_of(self, rejector: Rejector, pod: Pod) -> set[str]:
        """Returns the keys by which a plugin's registrations find a pod."""
        keys: set[str] = set()
        for registration in self._table.get(rejector, ()):
            if registration.concerns is not None:
                keys.update(registration.concerns.of_pod(pod))
        return keys

    def keys_of_change(self, rejector: Rejector, change: ClusterChanged) -> set[str] | None:
        """Returns the keys of a plugin's pods that a change concerns; None for all."""
        keys = {ALWAYS}
        for registration in self.concerned(change.event).get(rejector, ()):
            if registration.concerns is None:
                return None
            more = registration.concerns.of_change(change.old, change.new)
            if more is None:
                return None
            keys.update(more)
        return keys

    def begin(self) -> None:
        """Records that a change has come. Many pods may be judged for it until `end`."""
        self._since = self._now()

    def end(self) -> None:
        self._since = inf

    def judge(self, entry: Entry, change: ClusterChanged) -> Worth | None:
        """Asks the plugins that rejected the pod. Returns None if the event does not help it."""
        event = change.event
        rejectors = entry.rejectors
        if event.resource is Resource.WILDCARD:
            # An event with an object is for that pod alone.
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
        scheduler, large = entry.scheduler, entry.info.template.is_large
        # Pending plugins come first, because after their answer the pod does not back off. The rest
        # is sorted, because a set has no order.
        in_order = (
            rejectors
            if len(rejectors) == 1
            else sorted(rejectors, key=lambda name: (name not in entry.pending, name))
        )
        for plugin in in_order:
            rejector = (scheduler, plugin)
            if rejector not in self._table:
                return Worth(str(event), plugin, plugin in entry.pending)
            for registration in concerned.get(rejector, ()):
                # A hint about a large pod may cost more than putting it aside again.
                if large or self._helps(plugin, registration, entry, change):
                    at_once = plugin in entry.pending and not entry.deferred_until
                    return Worth(str(event), plugin, at_once)
        return None

    def _helps(
        self, plugin: str, registration: Registration, entry: Entry, change: ClusterChanged
    ) -> bool:
        """True if the hint function accepts the event. Also True, without a call, if the hints
        about the namespace's pods or about this change have taken too long: the pod is then
        deferred.
        """
        since, pod = self._now(), entry.info.pod
        until = self._shares.waits_until(entry.namespace, since)
        if until > since or since - self._since > MOST_AT_ONCE:
            entry.deferred_until = max(until, since)
            return True
        helps = (
            registration.hint is None
            or registration.hint(pod, change.old, change.new) is Hint.QUEUE
        )
        timed = self._durations_of_event.get((plugin, helps))
        if timed is None:
            event, label = str(change.event), "Queue" if helps else "QueueSkip"
            timed = self._times.hinting_of(plugin, event, label), f"{plugin}: {event}"
            self._durations_of_event[plugin, helps] = timed
        observe, name = timed
        if not helps:  # Written without a call, because events are judged for many pods.
            skips = entry.skips
            skips[name] = skips[name] + 1 if name in skips else 1
        now = self._now()
        observe(now - since)
        self._shares.charge(entry.namespace, now - since, now)
        return helps


def _with_taints(registrations: Sequence[Registration]) -> Sequence[Registration]:
    """Adds changes of taints for a plugin that registered for new nodes but not for taints.

    kube-scheduler adds this registration when it builds its hint map. Without it a pod would be
    tried less often, and users would see older reasons than with kube-scheduler.
    """
    of_nodes = [r.event.action for r in registrations if r.event.resource is Resource.NODE]
    adds = any(action & Action.ADD for action in of_nodes)
    retaints = any(action & Action.UPDATE_NODE_TAINT for action in of_nodes)
    return (*registrations, _RETAINTED) if adds and not retaints else registrations


_RETAINTED = Registration(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT))


def _is(entry: Entry, item: object | None) -> bool:
    return isinstance(item, Pod) and item.metadata.uid == entry.info.uid

"""The messages to the queue, and its answers."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ..scheduling.framework.events import ClusterEvent, Registration
from ..scheduling.framework.status import Status
from ..scheduling.kube.core import Pod
from ..scheduling.model.pod_info import PodInfo
from .comparison import Difference
from .order import Order

NO_PLUGINS: frozenset[str] = frozenset()


class QueuedPod(msgspec.Struct, frozen=True):
    """A pod that the queue hands out. `attempts` includes this one; times are monotonic seconds.

    `enqueued_at` is when the pod came, or when its last attempt failed; `first_attempt_at` is when
    it was first ready for an attempt. `flushed` is true if no event woke the pod for this attempt,
    but the limit for the time that a pod is parked.
    """

    info: PodInfo
    attempts: int
    enqueued_at: float
    first_attempt_at: float | None = None
    flushed: bool = False


class Place(enum.StrEnum):
    """The place of a pending pod. The four queues have their names in kube-scheduler's metric
    pending_pods.
    """

    OUTSIDE = "outside"
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


class StoryStep(msgspec.Struct, frozen=True, gc=False):
    """A pod came to one of the four queues `at` a time in monotonic seconds.

    `event` is the reason, as kube-scheduler's metrics name it. `cause` is the cluster event that
    came while the pod was in flight, if that is the reason. `plugin` is the plugin whose hint
    function accepted the event, or the plugin that gated the pod, with its reasons as `message`.
    """

    at: float
    queue: Place
    event: str
    plugin: str = ""
    cause: str = ""
    message: str = ""


class PendingPodAdded(msgspec.Struct, frozen=True):
    """A pod without a node was added."""

    pod: Pod


class PendingPodUpdated(msgspec.Struct, frozen=True):
    """A pod without a node changed."""

    old: Pod
    new: Pod


class PodNoLongerPending(msgspec.Struct, frozen=True):
    """A pod without a node was deleted, or was given a node."""

    pod: Pod


class ClusterChanged(msgspec.Struct, frozen=True):
    """An event happened that may help parked pods; `old` and `new` are its objects.

    `max_priority`: the event helps only pods of at most this priority. An ended nomination blocked
    only such pods. `except_uid`: the event does not help the pod of this uid. It is set for the
    room that the pod itself gives up when its binding fails.
    """

    event: ClusterEvent
    old: object | None = None
    new: object | None = None
    max_priority: int | None = None
    except_uid: str = ""


class NextPod(Order[QueuedPod], frozen=True):
    """Hand out the next pod as soon as there is one. It stays in flight until bound, deleted or
    failed.
    """


class PauseNamespace(msgspec.Struct, frozen=True):
    """Hand out no pod of this namespace until ResumeNamespace: many of its bindings are being
    written.
    """

    namespace: str


class ResumeNamespace(msgspec.Struct, frozen=True):
    """Hand out pods of this namespace again."""

    namespace: str


class Failure(msgspec.Struct, frozen=True):
    """The consequences of a failed attempt.

    `reason` and `message` belong to the condition; the message is also the note of the event.
    `unschedulable` are the plugins that rejected the pod, `pending` the plugins that wait for
    something to happen: the pod is parked for them. If there are none, it backs off as after an
    error. `nominated_node` is the node of the nomination from now on, "" for none, None to keep the
    present one. `hold` is the number of the preemption that makes room for the pod, 0 if there is
    none: the pod is not tried again before the PreemptionEnded with that number. `had_node`: a node
    was chosen, and a plugin rejected the pod there.
    """

    reason: str
    message: str
    unschedulable: frozenset[str] = NO_PLUGINS
    pending: frozenset[str] = NO_PLUGINS
    nominated_node: str | None = ""
    hold: int = 0
    had_node: bool = False

    @property
    def is_error(self) -> bool:
        return self.reason == "SchedulerError"


class AttemptFailed(msgspec.Struct, frozen=True):
    """The attempt for a pod in flight failed: park the pod or let it back off."""

    pod: QueuedPod
    failure: Failure


class PreemptionEnded(msgspec.Struct, frozen=True):
    """The API server was asked to evict all victims of a preemption; `failed` if it refused one.

    It ends the hold with this number, not a later hold of the same preemptor.
    """

    key: str
    uid: str
    hold: int
    failed: bool = False


class IsHeld(Order[bool], frozen=True):
    """Asks whether the pod of this key and uid is in the queue and held by the hold of this
    number.
    """

    key: str
    uid: str
    hold: int


class Displace(msgspec.Struct, frozen=True):
    """A preemptor takes the node that this pod of lower priority was nominated to. The pod loses
    its nomination.
    """

    info: PodInfo
    node: str


class Done(msgspec.Struct, frozen=True):
    """The attempt at the pod of this uid no longer needs later events."""

    uid: str


class Activate(msgspec.Struct, frozen=True):
    """Move these pods (namespace/name) to the active queue if they are parked or in backoff.

    `plugins` may have asked for it, in the attempt at the pod `at`.
    """

    keys: tuple[str, ...]
    plugins: tuple[str, ...] = ()
    at: str = ""


class ShowStory(Order[tuple[StoryStep, ...]], frozen=True):
    """Asks for the latest moves of the pod of this key (namespace/name); perhaps none."""

    key: str


class QueuedPodDump(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of the queue, for people to read; `backoff_left` is in seconds.

    `rejected_by` are the plugins that rejected the last attempt, `pending` those that wait for
    something to happen. `gate_message` has the reasons of `gated_by`. `skipped` tells how often
    each of their hints skipped each event since the last attempt, by "plugin: event".
    `activated_by` names who activates the pod again and again without progress, so that its backoff
    is not skipped any more; "" if nobody does.
    """

    key: str
    uid: str
    place: Place
    priority: int
    attempts: int
    backoff_left: float
    rejected_by: tuple[str, ...]
    pending: tuple[str, ...]
    gated_by: str
    held: bool
    story: tuple[StoryStep, ...]
    skipped: Mapping[str, int] = {}
    gate_message: str = ""
    activated_by: str = ""


class QueueStatistics(msgspec.Struct, frozen=True):
    """The pods by queue (kube-scheduler's metric pending_pods), the pods in flight, how many
    differences were healed since the start, and how many parked pods are forgotten: they would fit.
    `activations_in_vain` counts, by plugin, the activations of pods that were activated too often
    without progress.
    """

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int
    healed: int
    forgotten: int
    activations_in_vain: Mapping[str, int] = {}


class CountQueued(Order[QueueStatistics], frozen=True):
    """Asks for the number of pods in each place of the queue."""


class QueueMeasures(msgspec.Struct, frozen=True):
    """The counts of the queue for kube-scheduler's metrics.

    `incoming` tells how many pods came to each queue by each event. `in_flight_events` tells how
    many events, by name, are kept for pods in flight, and how many such pods there are, as
    PodPopped. `rejected` tells how many pods a plugin has rejected, by plugin and profile, until
    they are handed out again.
    """

    statistics: QueueStatistics
    incoming: Mapping[tuple[str, str], int]
    in_flight_events: Mapping[str, int]
    rejected: Mapping[tuple[str, str], int]


class MeasureQueue(Order[QueueMeasures], frozen=True):
    """Asks for the counts for kube-scheduler's metrics."""


class ListQueued(Order[tuple[str, ...]], frozen=True):
    """Asks for the keys of all pods of the queue, including those in flight."""


class DumpQueued(Order[tuple[QueuedPodDump, ...]], frozen=True):
    """Asks for dumps of the pods of these keys that are in the queue."""

    keys: tuple[str, ...]


class ParkedPod(msgspec.Struct, frozen=True):
    """A parked pod and the number of its attempts; it waits for the plugins in `rejected_by`. If it
    was examined before, it would have fitted on `node`.
    """

    info: PodInfo
    attempts: int
    rejected_by: frozenset[str]
    node: str = ""


class NextParked(Order[ParkedPod | None], frozen=True):
    """Asks for the parked pod to examine next: would it fit now? None if no pod is due."""


class Examined(msgspec.Struct, frozen=True):
    """A parked pod was examined. It would now fit on this node; "" if it fits on none."""

    pod: ParkedPod
    node: str


class ComparePending(Order[tuple[Difference, ...]], frozen=True):
    """Compare the queue with our pending pods as the informers know them, for these keys. None
    stands for a pod that is deleted or bound. With `heal`, remove each difference.
    """

    pods: Mapping[str, Pod | None]
    heal: bool


class ProfileRules(msgspec.Struct, frozen=True):
    """The functions of plugins, and the backoff in seconds, that the profiles define.

    `hints` are the events that each plugin registered for, by scheduler name and plugin. A pod that
    was rejected by a plugin without an entry wakes on any event.
    """

    sort_key: Callable[[PodInfo, float], tuple[Any, ...]]
    pre_enqueue: Callable[[Pod], Status]
    hints: Mapping[str, Mapping[str, Sequence[Registration]]]
    initial_backoff: float = 1.0
    max_backoff: float = 10.0


class UseProfiles(ProfileRules, frozen=True):
    """The profiles were swapped. Pods of `changed` scheduler names are tried again, and pods of
    `gone` ones are no longer ours.
    """

    changed: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


class KindKnown(msgspec.Struct, frozen=True):
    """The objects of one more kind are known: looking them up does not fail any more."""


class PluginAskedAgain(msgspec.Struct, frozen=True):
    """A plugin that was switched off is asked again: PreEnqueue does not fail for that any more."""


class FlushBackoff(msgspec.Struct, frozen=True):
    """A second has passed: move the pods whose backoff is over to the active queue."""


class FlushUnschedulable(msgspec.Struct, frozen=True):
    """Thirty seconds have passed: move the pods that were parked for too long."""


QueueMessage = (
    PendingPodAdded
    | PendingPodUpdated
    | PodNoLongerPending
    | ClusterChanged
    | NextPod
    | PauseNamespace
    | ResumeNamespace
    | AttemptFailed
    | Done
    | PreemptionEnded
    | IsHeld
    | Displace
    | Activate
    | ShowStory
    | CountQueued
    | MeasureQueue
    | ListQueued
    | DumpQueued
    | NextParked
    | Examined
    | ComparePending
    | UseProfiles
    | KindKnown
    | PluginAskedAgain
    | FlushBackoff
    | FlushUnschedulable
)

"""Every message that crosses a mailbox, one union per mailbox.

Facts are in the past tense (PendingPodAdded), orders in the imperative (Assume). A message is
frozen; what it carries is either frozen too or handed over with it. An order that wants an answer
carries a `reply`, set exactly once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.events import ClusterEvent, Registration
from berth.actors.scheduling.framework.post_filter import Deletion, Patch
from berth.actors.scheduling.framework.status import Status
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.meta import HasMetadata, ObjectReference
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot

T_contra = TypeVar("T_contra", contravariant=True)
T = TypeVar("T")


class ReplyTo(Protocol[T_contra]):
    """The place where the answer to an order goes; berth.actors.runtime implements it."""

    def set(self, value: T_contra) -> None: ...


class Order(msgspec.Struct, Generic[T], frozen=True):
    """An order that wants an answer of type T."""

    reply: ReplyTo[T]


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """The answer of a state to an order; the actor gives it."""

    order: Order[T]
    value: T

    def give(self) -> None:
        self.order.reply.set(self.value)


class Difference(msgspec.Struct, frozen=True, order=True):
    """A difference from the API server: `what` is missed, redundant or stale.

    `kind` is Node or Pod for the cache, PendingPod for the queue.
    """

    what: str
    kind: str
    key: str


class UnreadableObject(msgspec.Struct, frozen=True, order=True):
    """An object at the API server that cannot be read, and the `problem`. The uid is "" if it
    cannot be read either.
    """

    kind: str
    key: str
    uid: str
    problem: str


# -------------------------------------------------------------------------------------------- queue


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
    function accepted the event, or the plugin that gated the pod.
    """

    at: float
    queue: Place
    event: str
    plugin: str = ""
    cause: str = ""


class PendingPodAdded(msgspec.Struct, frozen=True):
    """A pod without a node was added."""

    pod: Pod


class PendingPodUpdated(msgspec.Struct, frozen=True):
    """A pod without a node changed."""

    old: Pod
    new: Pod


class PendingPodDeleted(msgspec.Struct, frozen=True):
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
    """Hand out the next pod as soon as there is one. It is in flight until it is bound, deleted, or
    fails.
    """


class AttemptFailed(msgspec.Struct, frozen=True):
    """The attempt for a pod in flight failed: park the pod or let it back off.

    `unschedulable` are the plugins that rejected it, `pending` those that wait for something to
    happen. If there are none, the attempt ended with an error. `nominated_node` is the node that
    the pod is nominated to from now on: "" for none, None for the one in its status. A `hold` above
    0 means that room is being made for the pod: it is not tried again before the PreemptionEnded
    with that number.
    """

    pod: QueuedPod
    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    nominated_node: str | None = None
    hold: int = 0


class PreemptionEnded(msgspec.Struct, frozen=True):
    """All victims of a preemption were asked to go; `failed` if the API server refused one.

    It ends the hold with this number, not a later hold of the same preemptor.
    """

    key: str
    uid: str
    hold: int
    failed: bool = False


class IsHeld(Order[bool], frozen=True):
    """True if the pod of this key and uid is in the queue and held by the hold of this number."""

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
    """The attempt for the pod of this uid no longer needs the events that happen meanwhile."""

    uid: str


class Activate(msgspec.Struct, frozen=True):
    """Move the pods of these keys (namespace/name) to the active queue if they are parked or in
    backoff.
    """

    keys: tuple[str, ...]


class ShowStory(Order[tuple[StoryStep, ...]], frozen=True):
    """The latest moves of the pod of this key (namespace/name); empty if it is not remembered."""

    key: str


class QueuedPodDump(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of the queue, for people to read; `backoff_left` is in seconds.

    `rejected_by` are the plugins that rejected the last attempt, `pending` those that wait for
    something to happen.
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


class QueueStatistics(msgspec.Struct, frozen=True):
    """The pods by queue (kube-scheduler's metric pending_pods), the pods in flight, and how many
    differences were healed since the start.
    """

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int
    healed: int


class CountQueued(Order[QueueStatistics], frozen=True):
    """The number of pods in each place of the queue."""


class QueueMeasures(msgspec.Struct, frozen=True):
    """What the queue counts for kube-scheduler's metrics.

    - `incoming`: how many pods came to each queue by each event
    - `in_flight_events`: how many events, by name, are kept for pods in flight, and how many such
      pods there are, as PodPopped
    - `rejected`: how many pods a plugin has rejected, by plugin and profile, until they are handed
      out again
    """

    statistics: QueueStatistics
    incoming: Mapping[tuple[str, str], int]
    in_flight_events: Mapping[str, int]
    rejected: Mapping[tuple[str, str], int]


class MeasureQueue(Order[QueueMeasures], frozen=True):
    """The counts for kube-scheduler's metrics."""


class ListQueued(Order[tuple[str, ...]], frozen=True):
    """The keys of all pods of the queue, including those in flight."""


class DumpQueued(Order[tuple[QueuedPodDump, ...]], frozen=True):
    """The pods of these keys that are in the queue."""

    keys: tuple[str, ...]


class ComparePending(Order[tuple[Difference, ...]], frozen=True):
    """Compare the queue with our pending pods as the informers know them, for these keys. None
    stands for a pod that is deleted or bound. With `heal`, remove each difference.
    """

    pods: Mapping[str, Pod | None]
    heal: bool


class UseProfiles(msgspec.Struct, frozen=True):
    """The profiles were swapped; their functions of plugins, and the backoff in seconds.

    `hints` are the events that each plugin registered for, by scheduler name and plugin. Pods of
    `changed` scheduler names are tried again, and pods of `gone` ones are ours no more.
    """

    sort_key: Callable[[PodInfo, float], tuple[float, ...]]
    pre_enqueue: Callable[[Pod], Status]
    hints: Mapping[str, Mapping[str, Sequence[Registration]]]
    initial_backoff: float
    max_backoff: float
    changed: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


class FlushBackoff(msgspec.Struct, frozen=True):
    """A second has passed: move the pods whose backoff is over to the active queue."""


class FlushUnschedulable(msgspec.Struct, frozen=True):
    """Thirty seconds have passed: move the pods that were parked for too long."""


QueueMessage = (
    PendingPodAdded
    | PendingPodUpdated
    | PendingPodDeleted
    | ClusterChanged
    | NextPod
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
    | ComparePending
    | UseProfiles
    | FlushBackoff
    | FlushUnschedulable
)

# -------------------------------------------------------------------------------------------- cache


class AssignedPodAdded(msgspec.Struct, frozen=True):
    """A pod with a node was added, or a pod was bound, by us or by another scheduler."""

    pod: Pod


class AssignedPodUpdated(msgspec.Struct, frozen=True):
    old: Pod
    new: Pod


class AssignedPodDeleted(msgspec.Struct, frozen=True):
    pod: Pod


class NodeAdded(msgspec.Struct, frozen=True):
    node: Node


class NodeUpdated(msgspec.Struct, frozen=True):
    old: Node
    new: Node


class NodeDeleted(msgspec.Struct, frozen=True):
    node: Node


class AssumedPodDeleted(msgspec.Struct, frozen=True):
    """A pod without a node was or is being deleted: if it is assumed, it will not be bound."""

    pod: Pod


class ObjectPut(msgspec.Struct, frozen=True):
    """An object other than a pod or a node was added or changed; plugins look it up."""

    item: HasMetadata


class ObjectRemoved(msgspec.Struct, frozen=True):
    item: HasMetadata


class AssumeObject(msgspec.Struct, frozen=True):
    """From the next snapshot on, look-ups find this version of an object, until the API server has
    a newer one.
    """

    item: HasMetadata


class RestoreObject(msgspec.Struct, frozen=True):
    """An assumed object of this version will not be written: look-ups find the API server's."""

    item: HasMetadata


class KindListed(msgspec.Struct, frozen=True):
    """All objects of a kind that plugins look up have been sent. Otherwise the `problem` is the
    reason why they cannot be.
    """

    kind: type[HasMetadata]
    problem: str = ""


class Assume(msgspec.Struct, frozen=True):
    """Count the pod on the node from now on, before its binding."""

    info: PodInfo
    node: str


class Forget(msgspec.Struct, frozen=True):
    """An assumed pod will not be bound: stop counting it."""

    info: PodInfo
    node: str


class Nominate(msgspec.Struct, frozen=True):
    """Count a pending pod on this node for pods of its priority or a lower one, until it is placed
    or deleted.
    """

    info: PodInfo
    node: str


class Unnominate(msgspec.Struct, frozen=True):
    """The pod of this key (namespace/name) is no longer nominated. With a uid, only if the pod has
    it.
    """

    key: str
    uid: str = ""


class WhereBound(Order[str], frozen=True):
    """The node of the pod of this key and uid at the API server, "" if it has none there."""

    key: str
    uid: str


class CacheStatistics(msgspec.Struct, frozen=True):
    """The sizes of the cache (kube-scheduler's metric cache_size), and how many differences were
    healed and how many snapshots repaired since the start.
    """

    nodes: int
    pods: int
    assumed_pods: int
    healed: int
    repaired: int


class CountCached(Order[CacheStatistics], frozen=True):
    """The number of nodes and pods in the cache."""


class CachedKeys(msgspec.Struct, frozen=True):
    nodes: tuple[str, ...]
    pods: tuple[str, ...]


class ListCached(Order[CachedKeys], frozen=True):
    """The names of all nodes and the keys of all pods in the cache."""


class Compare(Order[tuple[Difference, ...]], frozen=True):
    """Compare the cache with these nodes and pods as the informers know them. None stands for an
    object that is gone. With `heal`, remove each difference.
    """

    nodes: Mapping[str, Node | None]
    pods: Mapping[str, Pod | None]
    heal: bool


class PodDump(msgspec.Struct, frozen=True):
    key: str
    uid: str
    phase: str
    assumed: bool


class NodeDump(msgspec.Struct, frozen=True):
    """A node of the cache, for people to read; `deleted` if only its pods are left.

    Cpu is in thousandths, every other resource in whole units.
    """

    name: str
    deleted: bool
    requested: dict[str, int]
    allocatable: dict[str, int]
    pods: tuple[PodDump, ...]
    nominated: tuple[str, ...]


class TakeDump(Order[tuple[NodeDump, ...]], frozen=True):
    """The nodes of these names in the cache, with their pods."""

    nodes: tuple[str, ...]


class TakeSnapshot(Order[Snapshot], frozen=True):
    """Bring the snapshot up to date and lend it. Nothing in it changes until ReturnSnapshot."""


class ReturnSnapshot(msgspec.Struct, frozen=True):
    """The decision is made; the snapshot is no longer read. `placed` is the order that follows."""

    placed: Assume | None = None


CacheMessage = (
    AssignedPodAdded
    | AssignedPodUpdated
    | AssignedPodDeleted
    | NodeAdded
    | NodeUpdated
    | NodeDeleted
    | AssumedPodDeleted
    | ObjectPut
    | ObjectRemoved
    | AssumeObject
    | RestoreObject
    | KindListed
    | Assume
    | Forget
    | Nominate
    | Unnominate
    | WhereBound
    | CountCached
    | ListCached
    | Compare
    | TakeDump
    | TakeSnapshot
    | ReturnSnapshot
)

# ------------------------------------------------------------------------------------------ binding


class Placement(msgspec.Struct, frozen=True):
    """A pod that the scheduling cycle placed: assumed in the cache, reserved, not yet bound.

    `profile` is that of the attempt, whose plugins reserved for the pod; it stays the same even if
    the profiles are swapped. `cycle` has the plugins' data for this attempt. `waits` are the
    seconds that each Permit plugin that returned WAIT grants, by its name. `started` is when the
    attempt began, in monotonic seconds. The decision looked at `evaluated` nodes, of which
    `feasible` were compared.
    """

    pod: QueuedPod
    node: str
    profile: Profile
    cycle: CycleState
    waits: dict[str, float]
    started: float
    evaluated: int = 0
    feasible: int = 0


class BindPlaced(msgspec.Struct, frozen=True):
    """Run the binding cycle of a placement.

    `taken` is answered once the pod is among the waiting pods, if it waits, and there is room for
    another binding.
    """

    placement: Placement
    taken: ReplyTo[None]


class RejectWaiting(msgspec.Struct, frozen=True):
    """The pod of this uid is gone: reject it if it waits on Permit."""

    uid: str


class StopBinding(Order[bool], frozen=True):
    """Stop the binding cycle of a pod that waits on Permit or is in PreBind, so that it is tried
    again. False if there is none, or if it can no longer be stopped.
    """

    uid: str
    plugin: str
    reason: str


class WaitingPodDump(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that waits on Permit, for people. `waits_for` are the seconds left, by plugin."""

    key: str
    uid: str
    node: str
    waits_for: dict[str, float]


BindingMessage = BindPlaced | RejectWaiting | StopBinding

# ----------------------------------------------------------------------------------------- recorder


class EventType(enum.StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


class RecordEvent(msgspec.Struct, frozen=True):
    """Write an event about an object, unless that would hold up something else.

    `related` is another object that takes part, such as the preemptor of a victim.
    """

    regarding: ObjectReference
    type: EventType
    reason: str
    action: str
    note: str
    reporting_controller: str
    related: ObjectReference | None = None


class SetUnschedulable(msgspec.Struct, frozen=True):
    """Write the condition PodScheduled=False with this reason and message to the pod's status.

    `nominated_node` is written with it: "" clears the nomination, None leaves it unchanged.
    """

    pod: Pod
    reason: str
    message: str
    nominated_node: str | None = None


class SetNominatedNode(msgspec.Struct, frozen=True):
    """Write the nomination to the pod's status; "" clears it."""

    pod: Pod
    nominated_node: str


class FinishSeries(msgspec.Struct, frozen=True):
    """Six minutes have passed: end each series without an addition and write its last count."""


class RefreshSeries(msgspec.Struct, frozen=True):
    """Half an hour has passed: write every series, so that it does not expire."""


RecorderMessage = RecordEvent | SetUnschedulable | SetNominatedNode | FinishSeries | RefreshSeries

# --------------------------------------------------------------------------------------- preemption


class Preempt(msgspec.Struct, frozen=True):
    """Make room on a node for a preemptor: the victims have to go, and the displaced pods lose
    their nomination.

    It is carried out only while the preemptor is held by this `hold`.
    """

    preemptor: PodInfo
    node: str
    hold: int
    victims: tuple[PodInfo, ...]
    displaced: tuple[PodInfo, ...] = ()


class SendPatches(msgspec.Struct, frozen=True):
    """Send what PostFilter plugins want to change for a pod, one after the other. A refusal ends
    it.
    """

    pod: PodInfo
    patches: tuple[Patch | Deletion, ...]


class PreemptNow(msgspec.Struct, frozen=True):
    """Make room while the scheduling cycle waits. The preemptor is in flight and not held. The
    reply is the reason why a victim could not be evicted, "" if all were.
    """

    reply: ReplyTo[str]
    order: Preempt


PreemptionMessage = Preempt | PreemptNow | SendPatches

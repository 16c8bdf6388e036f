"""The cluster as the scheduler in charge saw it, and the placements to judge in it. Pure.

A pod is judged when it is bound, or when its node is announced, in the state before. The order of
bindings is not the order of decisions: a pod that is bound a little later may have been placed
before, and a change of the last moment may have come too late for the decision. Therefore every
message waits for a moment before it counts, and those that counted lately can be undone. The watch
of the nodes may be behind the pods', so that a node's change that waits can be counted. A new
object, such as a claim that came with its pod, counts at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count

import msgspec

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    AssignedPodUpdated,
    AssumedPodDeleted,
    CacheMessage,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    Nominate,
    ObjectPut,
    ObjectRemoved,
    Unnominate,
)
from berth.actors.messages.queue import (
    PendingPodAdded,
    PendingPodUpdated,
    PodNoLongerPending,
    QueueMessage,
)
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.framework.changes import node_changes
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import HasMetadata, key
from berth.actors.scheduling.model.pod_info import PodInfo

from .placement_judge import Agreement, Comparison, judge
from .pods_on_their_way import AnnouncedPods, Message

MOMENT = 1.0  # seconds
# How many of the changes, and of the pods, other orders leave out or add.
NUMBERS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64)
NODE_CHANGES = (NodeAdded, NodeUpdated, NodeDeleted)
AGREES = (Agreement.SAME, Agreement.TIE, Agreement.HELD)


class Placement(msgspec.Struct, frozen=True):
    """A pod (namespace/name), the node that the scheduler in charge chose, and how that compares
    with berth's decision.
    """

    pod: str
    node: str
    agreement: Agreement
    reason: str = ""


class _Turn(msgspec.Struct, frozen=True):
    """A pod's position in the order of the queue. A pod whose attempt `failed` has left the
    order.
    """

    priority: int
    number: int
    failed: bool = False

    def may_follow(self, other: _Turn) -> bool:
        """True if a pod may be placed after the other one."""
        mine, others = (self.priority, self.number), (other.priority, other.number)
        return self.failed or other.failed or mine > others


NEVER = _Turn(-(2**31), -1)  # of a pod that was never pending: it comes before all others


class ShadowState:
    """`profiles` are by scheduler name. `extended` returns whether an extender takes part in the
    decisions about a pod; such pods are not judged, and `skipped` counts them. A gated pod that
    comes with a nomination holds its room if the scheduler `nominates_gated`, as since 1.37.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        extended: Callable[[Pod], bool] = lambda _: False,
        moment: float = MOMENT,
        *,
        nominates_gated: bool = False,
    ) -> None:
        self.skipped = 0
        self._profiles = profiles
        self._extended = extended
        self._moment = moment
        self._nominates_gated = nominates_gated
        self._cache = CacheState()
        self._announced = AnnouncedPods()
        self._known: set[tuple[type[HasMetadata], str]] = set()
        self._pending: dict[str, Pod] = {}  # by uid
        self._arrival = count()
        self._turns: dict[str, _Turn] = {}  # by uid, until the binding is no longer undone
        self._waiting: deque[tuple[float, Message]] = deque()
        self._lately: deque[tuple[float, CacheMessage]] = deque()  # those that can be undone
        self._begun = False

    def begin(self) -> None:
        """Judges pods from now on, beginning with the present state."""
        for _, message in self._waiting:
            self._count(message)
        self._waiting.clear()
        self._lately.clear()
        self._begun = True

    def take(self, message: Message, now: float) -> None:
        """Handles a message of the informers. `now` is in monotonic seconds."""
        if isinstance(message, ObjectPut):
            name = type(message.item), key(message.item)
            if name not in self._known:
                self._known.add(name)
                self._cache.handle(message)
                self._lately.append((now, message))
                return
        self._waiting.extend((now, each) for each in self._announced.placed(message))

    def due(self, now: float) -> Iterator[Placement]:
        """Applies the messages that were held back for a moment, and yields the pods that they
        place.
        """
        while self._begun and self._waiting and self._waiting[0][0] <= now - self._moment:
            came, message = self._waiting.popleft()
            while self._lately and self._lately[0][0] < came - self._moment:
                _, past = self._lately.popleft()
                if isinstance(past, AssignedPodAdded):
                    self._turns.pop(past.pod.metadata.uid, None)
            if isinstance(message, AssignedPodAdded) and message.pod.metadata.uid in self._pending:
                placement = self._judged(message.pod, came)
                if placement is not None:
                    yield placement
            self._count(message)
            if not isinstance(message, QueueMessage):
                self._remember(message, came)

    def _remember(self, message: CacheMessage, came: float) -> None:
        """Notes a message that can be undone. The update of a pod that was bound lately becomes a
        part of its binding, that of a new object a part of its creation.
        """
        if isinstance(message, AssignedPodUpdated):
            for number, (at, past) in enumerate(self._lately):
                if isinstance(past, AssignedPodAdded) and past.pod is message.old:
                    self._lately[number] = at, AssignedPodAdded(message.new)
                    return
        if isinstance(message, ObjectPut | ObjectRemoved):
            for number, (at, past) in enumerate(self._lately):
                if isinstance(past, ObjectPut) and _is_same(past.item, message.item):
                    if isinstance(message, ObjectPut):
                        self._lately[number] = at, message
                    else:
                        del self._lately[number]
                    return
        elif _undoing_message(message) is not None:
            self._lately.append((came, message))

    # ------------------------------------------------------------------------------------ the state

    def _count(self, message: Message) -> None:
        match message:
            case PendingPodAdded(pod) | PendingPodUpdated(_, pod):
                self._pending[pod.metadata.uid] = pod
                self._turns[pod.metadata.uid] = self._turn_of(pod)
                node = pod.status.nominated_node_name
                if isinstance(message, PendingPodAdded) and pod.spec.scheduling_gates:
                    node = node if self._nominates_gated else ""
                self._cache.handle(
                    Nominate(PodInfo(pod), node) if node else Unnominate(key(pod), pod.metadata.uid)
                )
            case PodNoLongerPending(pod):
                self._pending.pop(pod.metadata.uid, None)
                self._cache.handle(Unnominate(key(pod), pod.metadata.uid))
            case ObjectRemoved(item):
                self._known.discard((type(item), key(item)))
                self._cache.handle(message)
            case AssumedPodDeleted(pod):  # It will never be bound.
                self._turns.pop(pod.metadata.uid, None)
            case _ if not isinstance(message, QueueMessage):
                self._cache.handle(message)

    def _turn_of(self, pod: Pod) -> _Turn:
        before = self._turns.get(pod.metadata.uid)
        number = next(self._arrival) if before is None else before.number
        return _Turn(-(pod.spec.priority or 0), number, has_failed(pod))

    # -------------------------------------------------------------------------------------- judging

    def _judged(self, bound: Pod, came: float) -> Placement | None:
        pod, node = self._pending[bound.metadata.uid], bound.spec.node_name
        profile = self._profiles.get(pod.spec.scheduler_name)
        if profile is None or self._extended(pod):
            self.skipped += 1
            return None
        info = PodInfo(pod)
        comparison = judge(profile, info, self._cache.snapshot(), node)
        if comparison.agreement not in AGREES:
            for order in self._other_orders(bound, came):
                if judge(profile, info, self._cache.snapshot(), node).agreement in AGREES:
                    comparison = Comparison(Agreement.ORDER, order)
                    break
        return Placement(info.key, node, comparison.agreement, comparison.reason)

    def _other_orders(self, bound: Pod, came: float) -> Iterator[str]:
        """Brings the state into other orders of the same moment, one after another, and yields what
        is different in each. The state is restored at the end, also if the caller stops before.

        Pods are placed in the order of the queue, so only a pod that comes after this one there may
        have been placed after it, and only one that comes before it, before it. A pod that has
        failed may come at any time. A change of a node may have reached the scheduler in time, and
        the shadow after the binding, as it comes by another watch.
        """
        turn = self._turn_of(self._pending[bound.metadata.uid])
        lately = [each for _, each in reversed(self._lately) if not _ends_announcement(bound, each)]
        bindings = [each for each in lately if isinstance(each, AssignedPodAdded)]
        others = [each for each in lately if not isinstance(each, AssignedPodAdded)]
        to_come = [each for _, each in self._waiting if isinstance(each, AssignedPodAdded)]
        nodes_to_come = [
            each
            for at, each in self._waiting
            if isinstance(each, NODE_CHANGES)
            and at <= came + self._moment
            and _undoing_message(each) is not None
        ]
        later = [each for each in bindings if self._turn(each).may_follow(turn)]
        earlier = [
            each
            for each in to_come
            if each.pod.metadata.uid in self._pending and turn.may_follow(self._turn(each))
        ]
        with self._changed(later, earlier):
            yield "pods that were bound in another order were placed in the queue's"
        for number in _increasing_numbers(len(others)):
            chosen = {id(message) for message in (*later, *others[:number])}
            with self._changed([each for each in lately if id(each) in chosen], earlier):
                yield f"the last {_changes(number)} came after it"
        for number in _increasing_numbers(len(others)) if later or earlier else ():
            with self._changed(others[:number], ()):
                yield f"the last {_changes(number)} came after it"
        for number in _increasing_numbers(len(nodes_to_come)):
            with self._changed((), nodes_to_come[:number]):
                yield f"the next {_changes(number)} came before it"
        for number in _increasing_numbers(len(later) - 1):
            with self._changed(later[:number], ()):
                yield f"{_pods(number)} bound before it came after it"
        for number in _increasing_numbers(len(earlier) - 1):
            with self._changed((), earlier[:number]):
                yield f"{_pods(number)} bound after it came before it"

    def _turn(self, message: AssignedPodAdded) -> _Turn:
        return self._turns.get(message.pod.metadata.uid, NEVER)

    @contextmanager
    def _changed(
        self, without: Sequence[CacheMessage], besides: Sequence[CacheMessage]
    ) -> Iterator[None]:
        """Undoes messages, the last one first, and counts others, until the block ends."""
        for message in without:
            self._undo(message)
        for message in besides:
            self._cache.handle(message)
        try:
            yield
        finally:
            for message in reversed(besides):
                self._undo(message)
            for message in reversed(without):
                self._cache.handle(message)

    def _undo(self, message: CacheMessage) -> None:
        undo = _undoing_message(message)
        assert undo is not None, message
        self._cache.handle(undo)


def _ends_announcement(pod: Pod, message: CacheMessage) -> bool:
    """True if a message takes a pod off the node that was announced for it."""
    return isinstance(message, AssignedPodDeleted) and message.pod.metadata.uid == pod.metadata.uid


def has_failed(pod: Pod) -> bool:
    return any(c.type == "PodScheduled" and c.status == "False" for c in pod.status.conditions)


def _undoing_message(message: CacheMessage) -> CacheMessage | None:
    """Returns the message that undoes this one; None if it changes no pod and no node."""
    match message:
        case AssignedPodAdded(pod):
            return AssignedPodDeleted(pod)
        case AssignedPodDeleted(pod):
            return AssignedPodAdded(pod)
        case AssignedPodUpdated(old, new):
            return AssignedPodUpdated(new, old)
        case NodeAdded(node):
            return NodeDeleted(node)
        case NodeDeleted(node):
            return NodeAdded(node)
        case NodeUpdated(old, new) if node_changes(old, new):
            return NodeUpdated(new, old)
        case ObjectPut(item):  # Only new ones are noted.
            return ObjectRemoved(item)
        case _:
            return None


def _is_same(before: HasMetadata, after: HasMetadata) -> bool:
    return type(before) is type(after) and key(before) == key(after)


def _increasing_numbers(most: int) -> Iterator[int]:
    """Yields the NUMBERS below `most` and then `most`, which is left out if it is larger than all
    of them.
    """
    yield from (number for number in NUMBERS if number < most)
    if 0 < most <= NUMBERS[-1]:
        yield most


def _pods(number: int) -> str:
    return "a pod" if number == 1 else f"{number} pods"


def _changes(number: int) -> str:
    return "change" if number == 1 else f"{number} changes"

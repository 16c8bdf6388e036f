"""The table of places and moves: the queue makes every move of it, and no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from berth.actors.messages.queue import (
    Activate,
    FlushBackoff,
    FlushUnschedulable,
    NextPod,
    PendingPodAdded,
    PodNoLongerPending,
    PreemptionEnded,
    QueuedPod,
    QueueMessage,
    UseProfiles,
)
from berth.actors.queue.activations import MOST_IN_A_ROW
from berth.actors.queue.effects import Effect, HandOut
from berth.actors.queue.places import TRANSITIONS, Transition
from tests.kit.handle import Nowhere
from tests.kit.queue import (
    POD_GONE,
    REGISTERED,
    Harness,
    handle_and_follow,
    in_order,
    make_pod,
    rejected,
)

PODS = frozenset({"Pods"})
OURS = frozenset({"s"})
MAX_UNSCHEDULABLE, BACKOFF = 60.0, 1000.0
EARLY, LATE = 100.0, 5000.0  # during the backoff and after it; both later than MAX_UNSCHEDULABLE


class Watched(Harness):
    """A queue with one pod, ns/p, and the moves that it has made."""

    def __init__(self, *, pop_from_backoff: bool = True) -> None:
        super().__init__(
            initial_backoff=BACKOFF,
            max_backoff=BACKOFF,
            max_unschedulable=MAX_UNSCHEDULABLE,
            pop_from_backoff=pop_from_backoff,
        )
        self.moves: list[Transition] = []
        self.flying: QueuedPod | None = None

    def other_profiles(
        self, changed: frozenset[str] = frozenset(), gone: frozenset[str] = frozenset()
    ) -> UseProfiles:
        hints = {} if gone else {"s": REGISTERED}
        return UseProfiles(in_order, self.gate, hints, BACKOFF, BACKOFF, changed, gone)

    def send(self, message: QueueMessage) -> Sequence[Effect]:
        effects, moves = handle_and_follow(self.state, message, self.now)
        self.state.validate()
        self.moves += moves
        for effect in effects:
            if isinstance(effect, HandOut):
                self.flying = effect.pod
        return effects

    def end(
        self,
        unschedulable: frozenset[str] = frozenset(),
        pending: frozenset[str] = frozenset(),
        hold: int = 0,
    ) -> None:
        """Lets the attempt for the pod in flight fail, if there is one."""
        if self.flying is not None:
            self.send(rejected(self.flying, *unschedulable, pending=pending, hold=hold))
            self.flying = None


def outside(queue: Watched) -> None:
    """Leaves the pod unknown to the queue."""


def active(queue: Watched) -> None:
    queue.send(PendingPodAdded(make_pod("p")))


def in_flight(queue: Watched) -> None:
    active(queue)
    queue.send(NextPod(Nowhere()))


def in_flight_with_an_event(queue: Watched) -> None:
    in_flight(queue)
    queue.send(POD_GONE)


def backoff(queue: Watched) -> None:
    in_flight_with_an_event(queue)
    queue.end(PODS)


def backoff_without_turn(queue: Watched) -> None:
    """The pod is large, and has used its share of the time when the cycle asks for the next one."""
    queue.now = EARLY - 20
    queue.send(PendingPodAdded(make_pod("p", large=True)))
    queue.send(NextPod(Nowhere()))
    queue.send(POD_GONE)
    queue.end(PODS)


def active_without_turn(queue: Watched) -> None:
    backoff_without_turn(queue)
    queue.send(Activate(("ns/p",)))


def unschedulable(queue: Watched) -> None:
    in_flight(queue)
    queue.end(PODS)


def held(queue: Watched) -> None:
    in_flight(queue)
    queue.end(PODS, hold=1)


def activated_in_vain(queue: Watched) -> None:
    queue.now = EARLY
    unschedulable(queue)
    for _ in range(MOST_IN_A_ROW):
        queue.send(Activate(("ns/p",)))
        queue.send(NextPod(Nowhere()))
        queue.end(PODS)


def gated_in_vain(queue: Watched) -> None:
    activated_in_vain(queue)
    queue.shut = True
    queue.send(POD_GONE)


def gated_while_held(queue: Watched) -> None:
    held(queue)
    queue.send(POD_GONE)


def gated_at_first(queue: Watched) -> None:
    queue.shut = True
    active(queue)


def gated_after_a_rejection(queue: Watched) -> None:
    unschedulable(queue)
    queue.shut = True
    queue.send(POD_GONE)


STARTS = (
    outside,
    active,
    in_flight,
    in_flight_with_an_event,
    backoff,
    backoff_without_turn,
    active_without_turn,
    unschedulable,
    held,
    gated_while_held,
    gated_at_first,
    gated_after_a_rejection,
    activated_in_vain,
    gated_in_vain,
)
TRIGGERS: dict[str, Callable[[Watched], object]] = {
    "added": lambda queue: queue.send(PendingPodAdded(make_pod("p"))),
    "asked for": lambda queue: queue.send(NextPod(Nowhere())),
    "rejected": lambda queue: queue.end(PODS),
    "rejected and pending": lambda queue: queue.end(pending=PODS),
    "erred": lambda queue: queue.end(),
    "event": lambda queue: queue.send(POD_GONE),
    "backoff is flushed": lambda queue: queue.send(FlushBackoff()),
    "unschedulable is flushed": lambda queue: queue.send(FlushUnschedulable()),
    "activated": lambda queue: queue.send(Activate(("ns/p",))),
    "room is made": lambda queue: queue.send(PreemptionEnded("ns/p", "p", 1)),
    "no room is made": lambda queue: queue.send(PreemptionEnded("ns/p", "p", 1, failed=True)),
    "deleted": lambda queue: queue.send(PodNoLongerPending(make_pod("p"))),
    "profiles changed": lambda queue: queue.send(queue.other_profiles(changed=OURS)),
    "profile gone": lambda queue: queue.send(queue.other_profiles(gone=OURS)),
}


def test_the_queue_makes_every_move_of_the_table_and_no_other() -> None:
    seen: set[Transition] = set()
    for start, trigger, shut, now, pop in product(
        STARTS, TRIGGERS.values(), (False, True), (EARLY, LATE), (False, True)
    ):
        queue = Watched(pop_from_backoff=pop)
        start(queue)
        queue.now, queue.shut = now, shut
        trigger(queue)
        seen.update(queue.moves)
    assert seen == TRANSITIONS

"""The queue over random histories, compared with a plain model after each step: no pod is lost or
in two places, no wake-up is missed, none happens that no hint function accepted, pods come out in
QueueSort's order, and only moves of the table of places happen.
"""

from __future__ import annotations

from collections import Counter
from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from berth.actors.messages.order import Answer
from berth.actors.messages.queue import (
    Activate,
    ClusterChanged,
    ComparePending,
    Done,
    FlushBackoff,
    FlushUnschedulable,
    ListQueued,
    NextPod,
    PauseNamespace,
    PendingPodAdded,
    PendingPodUpdated,
    PodNoLongerPending,
    QueuedPod,
    QueueMessage,
    ResumeNamespace,
    UseProfiles,
)
from berth.actors.queue.effects import Effect, HandOut, PodMoved
from berth.actors.queue.places import TRANSITIONS
from berth.actors.queue.queues import QueueRules
from berth.actors.queue.state import QueueState
from berth.actors.scheduling.framework.events import WILDCARD
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.plugin import (
    SUCCESS,
    Action,
    ClusterEvent,
    Hint,
    Node,
    Pod,
    PodInfo,
    Registration,
    Resource,
    Service,
    Status,
    unresolvable,
)
from tests.kit import structs
from tests.kit.examples import examples
from tests.kit.handle import Nowhere
from tests.kit.queue import LARGE, handle_and_follow, place_of, rejected
from tests.kit.queue_model import QueueModel

PLACES = ("active", "backoff", "unschedulable", "gated", "in_flight")
NAMES = "abcdef"
PICKS = st.integers(0, 5)
PLUGINS = ["OnGoodNode", "OnPods", "OnOwnLabels", "Never", "OnAll", "Unknown"]
MAX_UNSCHEDULABLE = 300.0
REJECTORS = st.sampled_from([frozenset((plugin,)) for plugin in PLUGINS]) | st.frozensets(
    st.sampled_from(PLUGINS)
)
PENDING = st.sampled_from([frozenset[str]()] * 3 + [frozenset((plugin,)) for plugin in PLUGINS[:3]])


def good_node(_pod: Pod, _old: object | None, new: object | None) -> Hint:
    return Hint.QUEUE if isinstance(new, Node) and new.metadata.name == "good" else Hint.SKIP


def own(pod: Pod, _old: object | None, new: object | None) -> Hint:
    return (
        Hint.QUEUE if isinstance(new, Pod) and new.metadata.uid == pod.metadata.uid else Hint.SKIP
    )


NODES = Action.ADD | Action.UPDATE_NODE_LABEL
GONE = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
HINTS = {
    "OnGoodNode": (Registration(ClusterEvent(Resource.NODE, NODES), good_node),),
    "OnPods": (Registration(ClusterEvent(Resource.POD, Action.DELETE | Action.UPDATE_POD_LABEL)),),
    "OnOwnLabels": (
        Registration(ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL), own),
    ),
    "Never": (Registration(ClusterEvent(Resource.NODE, Action.ALL), lambda *_: Hint.SKIP),),
    "OnAll": (Registration(WILDCARD),),
    "Gates": (Registration(ClusterEvent(Resource.POD, GONE), own),),
    "Door": (Registration(ClusterEvent(Resource.SERVICE, Action.ADD)),),
}


def make_pod(
    name: str, uid: int, priority: int, *, gated: bool, label: str = "", large: bool = False
) -> Pod:
    gates, tolerations = [{"name": "g"}] * gated, LARGE * large
    return structs.pod(
        name,
        priority=priority,
        uid=str(uid),
        labels={"l": label},
        schedulerName="s",
        schedulingGates=gates,
        tolerations=tolerations,
    )


def heal(name: str, pod: Pod | None) -> ComparePending:
    """Returns the comparison that gives the queue the state of a pod that it should have."""
    return ComparePending(Nowhere(), {f"ns/{name}": pod}, heal=True)


def order(info: PodInfo, enqueued_at: float) -> tuple[float, ...]:
    return (-info.priority, enqueued_at)


EVENTS = [
    ClusterChanged(
        ClusterEvent(Resource.NODE, Action.ADD), None, Node(metadata=ObjectMeta(name="good"))
    ),
    ClusterChanged(
        ClusterEvent(Resource.NODE, Action.ADD), None, Node(metadata=ObjectMeta(name="bad"))
    ),
    ClusterChanged(
        ClusterEvent(Resource.NODE, NODES & Action.UPDATE),
        Node(),
        Node(metadata=ObjectMeta(name="good")),
    ),
    ClusterChanged(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), Pod(), None),
    ClusterChanged(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), Pod(), None, 0),
    ClusterChanged(ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_OTHER), Pod(), Pod()),
    ClusterChanged(ClusterEvent(Resource.SERVICE, Action.ADD), None, Service()),
    ClusterChanged(WILDCARD),
]


class QueueHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.doors: set[str] = set()  # names of pods that the plugin Door rejects
        self.queue = QueueState(
            QueueRules(order, self.gate, {"s": HINTS}, max_unschedulable=MAX_UNSCHEDULABLE)
        )
        self.model = QueueModel(self.gate, HINTS, MAX_UNSCHEDULABLE)
        self.uids = count()
        self.flying: dict[str, QueuedPod] = {}  # uid -> the pod that was handed out

    def gate(self, pod: Pod) -> Status:
        if pod.spec.scheduling_gates:
            return unresolvable("gates").by("Gates")
        return unresolvable("shut").by("Door") if pod.metadata.name in self.doors else SUCCESS

    def send(self, *messages: QueueMessage) -> None:
        """Lets the queue handle what the model has handled; both must have done the same."""
        effects: list[Effect] = []
        for message in messages:
            some, transitions = handle_and_follow(self.queue, message, self.model.now)
            effects += some
            assert TRANSITIONS.issuperset(transitions)
        handed_out = [effect.pod for effect in effects if isinstance(effect, HandOut)]
        for queued, row in zip(handed_out, self.model.handed_out, strict=True):
            assert queued.info.pod is row.pod, "another pod, or an old version"
            assert (queued.attempts, queued.enqueued_at) == (row.attempts, row.timestamp)
            self.flying[row.uid] = queued
        moved = [effect for effect in effects if isinstance(effect, PodMoved)]
        moves = [(effect.key.removeprefix("ns/"), effect.step.queue) for effect in moved]
        assert Counter(moves) == Counter(self.model.happened)
        self.model.handed_out.clear()
        self.model.happened.clear()

    def pod(self, name: str) -> Pod | None:
        row = self.model.row(name)
        return None if row is None else row.pod

    @initialize(
        tried=st.lists(st.tuples(st.integers(0, 2), REJECTORS, PENDING), min_size=2, max_size=5)
    )
    def some_have_been_tried(self, tried: list[tuple[int, frozenset[str], frozenset[str]]]) -> None:
        for name, (priority, unschedulable, pending) in zip(NAMES, tried, strict=False):
            self.add(name, priority, gated=False)
            self.try_one(unschedulable, pending)

    def add(
        self,
        name: str,
        priority: int,
        *,
        gated: bool,
        healed: bool = False,
        large: bool = False,
    ) -> None:
        pod = make_pod(name, next(self.uids), priority, gated=gated, large=large)
        self.model.add(pod)
        self.send(heal(name, pod) if healed else PendingPodAdded(pod))

    def some(self, pick: int) -> Pod:
        """Returns one of the pods."""
        return self.model.rows[pick % len(self.model.rows)].pod

    @precondition(lambda self: len(self.model.rows) < len(NAMES))
    @rule(
        priority=st.integers(0, 2),
        gated=st.booleans(),
        healed=st.booleans(),
        large=st.sampled_from([False, False, True]),
    )
    def added(self, priority: int, gated: bool, healed: bool, large: bool) -> None:
        """A pod is added, by a message or by healing a missed one; so it is with deleted and
        recreated pods.
        """
        taken = {row.name for row in self.model.rows}
        self.add(
            next(name for name in NAMES if name not in taken),
            priority,
            gated=gated,
            healed=healed,
            large=large,
        )

    @precondition(lambda self: self.model.rows)
    @rule(
        pick=PICKS,
        priority=st.integers(0, 2),
        label=st.sampled_from(["", "x"]),
        stays_gated=st.booleans(),
    )
    def updated(self, pick: int, priority: int, label: str, stays_gated: bool) -> None:
        old = self.some(pick)
        gated = stays_gated and bool(old.spec.scheduling_gates)
        large = bool(old.spec.tolerations)
        uid = int(old.metadata.uid)
        new = make_pod(old.metadata.name, uid, priority, gated=gated, label=label, large=large)
        self.model.update(old, new)
        self.send(PendingPodUpdated(old, new))

    @precondition(lambda self: self.model.rows)
    @rule(pick=PICKS, how=st.sampled_from(["update", "two messages", "healed"]))
    def recreated(self, pick: int, how: str) -> None:
        old = self.some(pick)
        self.flying.pop(old.metadata.uid, None)
        new = make_pod(old.metadata.name, next(self.uids), 0, gated=False)
        self.model.update(old, new)
        match how:
            case "update":
                self.send(PendingPodUpdated(old, new))
            case "healed":
                self.send(heal(new.metadata.name, new))
            case _:
                self.send(PodNoLongerPending(old), PendingPodAdded(new))

    @precondition(lambda self: len(self.model.rows) > 2)
    @rule(pick=PICKS, healed=st.booleans())
    def deleted(self, pick: int, healed: bool) -> None:
        pod = self.some(pick)
        self.flying.pop(pod.metadata.uid, None)
        self.model.delete(pod)
        self.send(heal(pod.metadata.name, None) if healed else PodNoLongerPending(pod))

    # An order that waits takes the next pod at once. So there is at most one, or no pod would ever
    # be active.
    @precondition(lambda self: not self.model.open_questions)
    @rule()
    def asked_for_one(self) -> None:
        self.model.ask()
        self.send(NextPod(Nowhere()))

    @rule(paused=st.booleans())
    def paused_or_resumed(self, paused: bool) -> None:
        self.model.pause(paused=paused)
        self.send(PauseNamespace("ns") if paused else ResumeNamespace("ns"))

    def fail(
        self,
        uid: str,
        unschedulable: frozenset[str],
        pending: frozenset[str],
        *,
        error: bool = False,
    ) -> None:
        queued = self.flying.pop(uid)
        self.model.fail(uid, unschedulable, pending, error=error)
        if error:
            unschedulable = pending = frozenset()
        self.send(rejected(queued, *unschedulable, pending=pending))

    def try_one(self, unschedulable: frozenset[str], pending: frozenset[str]) -> None:
        before = set(self.flying)
        self.asked_for_one()
        for uid in sorted(set(self.flying) - before):
            self.fail(uid, unschedulable, pending)

    @precondition(lambda self: not self.model.open_questions)
    @rule(unschedulable=REJECTORS, pending=PENDING)
    def tried_and_rejected(self, unschedulable: frozenset[str], pending: frozenset[str]) -> None:
        self.try_one(unschedulable, pending)

    @precondition(lambda self: self.flying)
    @rule(pick=PICKS, unschedulable=REJECTORS, pending=PENDING)
    def rejected(self, pick: int, unschedulable: frozenset[str], pending: frozenset[str]) -> None:
        self.fail(self.some_flying(pick), unschedulable, pending)

    def some_flying(self, pick: int) -> str:
        return sorted(self.flying)[pick % len(self.flying)]

    @precondition(lambda self: self.flying)
    @rule(pick=PICKS, plugins=st.sampled_from([frozenset[str](), frozenset(("Never",))]))
    def erred(self, pick: int, plugins: frozenset[str]) -> None:
        self.fail(self.some_flying(pick), plugins, frozenset(), error=True)

    @precondition(lambda self: self.flying)
    @rule(pick=PICKS, unschedulable=REJECTORS)
    def rejected_after_done(self, pick: int, unschedulable: frozenset[str]) -> None:
        uid = self.some_flying(pick)
        self.model.done(uid)
        self.send(Done(uid))
        self.fail(uid, unschedulable, frozenset())

    @precondition(lambda self: self.flying)
    @rule(pick=PICKS)
    def bound(self, pick: int) -> None:
        uid = self.some_flying(pick)
        pod = self.model.flying(uid).pod
        del self.flying[uid]
        self.model.delete(pod)
        self.send(Done(uid), PodNoLongerPending(pod))

    @rule(changes=st.lists(st.sampled_from(EVENTS), min_size=1, max_size=2))
    def happened(self, changes: list[ClusterChanged]) -> None:
        for change in changes:
            self.model.change(change)
            self.send(change)

    @precondition(lambda self: self.model.rows)
    @rule(pick=PICKS)
    def activated(self, pick: int) -> None:
        name = self.some(pick).metadata.name
        self.model.activate(name)
        self.send(Activate((f"ns/{name}",)))

    @precondition(lambda self: self.model.rows)
    @rule(pick=PICKS)
    def door_opens_or_shuts(self, pick: int) -> None:
        self.doors ^= {self.some(pick).metadata.name}

    @rule()
    def profiles_of_other_pods_change(self) -> None:
        """The queue sorts and indexes its pods anew, and none of them moves."""
        self.send(UseProfiles(order, self.gate, {"s": HINTS, "t": {}}, 1.0, 10.0, frozenset("t")))

    @rule(seconds=st.sampled_from([0.25, 0.75, 1.0, 2.5, 290.0]))
    def time_passes(self, seconds: float) -> None:
        self.model.now += seconds

    @rule()
    def backoff_is_flushed(self) -> None:
        self.model.flush_backoff()
        self.send(FlushBackoff())

    @rule()
    def unschedulable_is_flushed(self) -> None:
        self.model.flush_unschedulable()
        self.send(FlushUnschedulable())

    @invariant()
    def every_pod_is_where_the_model_has_it(self) -> None:
        self.queue.validate()
        places = {row.name: row.place for row in self.model.rows}
        assert {name: place_of(self.queue, f"ns/{name}") for name in places} == places
        statistics = self.queue.statistics()
        assert sum(getattr(statistics, place) for place in PLACES) == len(places)
        assert statistics.in_flight == len(self.flying)
        incoming: Counter[str] = Counter()
        for (queue, event), number in self.queue.measures().incoming.items():
            incoming[queue] += number if event != "PopFromBackoffQ" else 0
        assert incoming == self.model.moves

    @invariant()
    def a_comparison_finds_nothing(self) -> None:
        pods = {f"ns/{row.name}": row.pod for row in self.model.rows}
        (listed,) = self.queue.handle(ListQueued(Nowhere()), self.model.now)
        assert isinstance(listed, Answer)
        assert isinstance(listed.value, tuple)
        assert {*listed.value} == pods.keys()
        assert len(listed.value) == len(pods)
        order = ComparePending(Nowhere(), pods, heal=True)
        assert self.queue.handle(order, self.model.now) == (Answer(order, ()),)


TestQueue = QueueHistory.TestCase
TestQueue.settings = examples(steps=40)

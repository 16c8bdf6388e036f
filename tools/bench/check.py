"""Checks a running scheduler against `berth explain`: repeats a sample of its decisions.

A running scheduler remembers much: columns, counts, the verdicts of plugins about equal pods.
Before a sampled decision, its input is recorded as the objects that the cache holds (they are
frozen, so references are enough): nodes with their pods, assumed ones included, nominations, and
the other objects that plugins look up. Later a cluster is built from these objects alone, and
tools/answers/explain decides on the pod there, with the same start of the search and the same state
of the random generator.

If the pod was placed, the node and the number of nodes scored must be the same. If it was not, the
message, the plugins that rejected it, the nomination and the victims must be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import Generic, TypeVar, assert_never

import msgspec

from berth.actors.cache.state import (
    CacheState,
)
from berth.actors.messages.cache import (
    Assume,
    NodeAdded,
    Nominate,
    ObjectPut,
)
from berth.actors.scheduling.decision.observer import DecisionObserver
from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure, Outcome, Unfit
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.sampling import Sampling
from berth.actors.scheduling.framework.questions import run_without_extenders
from berth.actors.scheduling.kube.core import (
    Node,
    Pod,
)
from berth.actors.scheduling.kube.devices import InFlightAllocation
from berth.actors.scheduling.kube.kinds import LOOKED_UP
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.wiring.profiles import plugins_of, profiles_of
from berth.config.feature_gates import DEFAULTS
from berth.config.types import KubeSchedulerConfiguration

from ..answers.explain.decision import Decision, steps
from ..answers.explain.plugin_handle import ReadOnlyHandle
from ..answers.explain.tried_lives import TriedLives
from .measure import CheckResult, Difference, Effort, Meter

T = TypeVar("T")
SEED = 0
Report = Callable[[int, int], None]  # called with the number of checked decisions and the total


class RecordedCluster(msgspec.Struct, frozen=True):
    """A recorded cluster. `nodes` are in the order of the node tree.

    The pods of all nodes are one flat list, since recording must be quick while pods wait: the
    first `numbers[0]` of the `pods` are on the first node, and so on.
    """

    nodes: list[Node]
    numbers: list[int]
    pods: list[PodInfo]
    nominated: list[tuple[str, list[PodInfo]]]
    objects: list[HasMetadata]

    def names(self) -> list[str]:
        return [node.metadata.name for node in self.nodes]


class KeptDecision(msgspec.Struct, frozen=True):
    """A decision and its whole input. The search for nodes began at `start`."""

    profile: str
    pod: Pod
    cluster: RecordedCluster
    start: int
    chance: Random
    outcome: Outcome


class Sample(Generic[T]):
    """A random sample of a fixed size. Each item has the same chance to be in it."""

    def __init__(self, size: int, chance: Random) -> None:
        self._size = size
        self._chance = chance
        self._met = 0
        self.kept: list[T] = []

    def place(self) -> int | None:
        """Returns the index at which to keep the next item; None if the sample leaves it out.

        If the sample is full, the item replaces an earlier one.
        """
        self._met += 1
        place = len(self.kept) if len(self.kept) < self._size else self._chance.randrange(self._met)
        return place if place < self._size else None

    def keep(self, place: int, item: T) -> None:
        self.kept[place : place + 1] = [item]


class SampledDecisions(DecisionObserver):
    """A sample of the decisions in each window. `chance` is the scheduler's random generator.

    It leaves out decisions in which an extender takes part.
    """

    def __init__(self, chance: Random, size: int) -> None:
        self._chance = chance
        self._size = size
        self._picking = Random(SEED)
        self._open = False
        self._keep: Callable[[Outcome], None] | None = None
        self.windows: list[Sample[KeptDecision]] = []

    def open(self) -> None:
        self.windows.append(Sample(self._size, self._picking))
        self._open = True

    def close(self) -> None:
        self._open = False

    def deciding(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, start: int, *, extended: bool
    ) -> None:
        self._keep = None
        if not self._open or extended or not len(snapshot):
            return
        window = self.windows[-1]
        place = window.place()
        if place is None:
            return
        cluster, chance = record_cluster(snapshot), Random()
        chance.setstate(self._chance.getstate())

        def keep(outcome: Outcome) -> None:
            kept = KeptDecision(profile.scheduler_name, info.pod, cluster, start, chance, outcome)
            window.keep(place, kept)

        self._keep = keep

    def decided(self, info: PodInfo, outcome: Outcome) -> None:
        if self._keep is not None:
            self._keep(outcome)


class SamplingMeter:
    """A meter that opens and closes the windows of the sample together with its own."""

    def __init__(self, meter: Meter, decisions: SampledDecisions) -> None:
        self._meter = meter
        self._decisions = decisions

    async def start(self) -> None:
        self._decisions.open()
        await self._meter.start()

    async def stop(self) -> Effort:
        self._decisions.close()
        return await self._meter.stop()


def check(
    windows: Sequence[Sample[KeptDecision]],
    configuration: KubeSchedulerConfiguration,
    report: Report,
    gates: Mapping[str, bool] = DEFAULTS,
) -> Iterator[CheckResult]:
    """Repeats the sampled decisions; yields the result of each window."""
    done, every = 0, sum(len(window.kept) for window in windows)
    for window in windows:
        differ = []
        for kept in window.kept:
            problem = difference(kept, configuration, gates)
            if problem:
                differ.append(
                    Difference(f"{kept.pod.metadata.namespace}/{kept.pod.metadata.name}", problem)
                )
            done += 1
            report(done, every)
        yield CheckResult(len(window.kept), len(window.kept) - len(differ), tuple(differ))


def difference(
    kept: KeptDecision, configuration: KubeSchedulerConfiguration, gates: Mapping[str, bool]
) -> str:
    """Returns how the decision differs from explain's; "" if it does not."""
    snapshot, info = rebuild_cluster(kept.cluster), PodInfo(kept.pod)
    profiles = profiles_of(configuration, ReadOnlyHandle(gates))
    profile, lives = profiles[kept.profile], TriedLives(plugins_of(profiles))
    lives.refresh()
    search = Sampling(configuration.percentage_of_nodes_to_score, configuration.extenders)
    search.start = kept.start
    explained = run_without_extenders(
        steps(profile, info, snapshot, extended=False, search=search, chance=kept.chance)
    )
    match explained.decision, explained.outcome, kept.outcome:
        case _, DecisionFailure(expected), DecisionFailure(status):
            return _mismatch("the error", status.message, expected.message)
        case _, Unfit() as expected, Unfit() as unfit:
            return _difference_of_unfit(unfit, expected)
        case Decision() as decision, Choice() as expected, Choice() as chosen:
            return _difference_of_chosen(chosen, expected, decision)
        case _, expected, outcome:
            return _mismatch("the decision", _outcome_words(outcome), _outcome_words(expected))


def record_cluster(snapshot: Snapshot) -> RecordedCluster:
    """Records the cluster with everything that a decision may read."""
    columns, nominations = snapshot.columns, snapshot.nominations
    nodes: list[Node] = []
    numbers: list[int] = []
    pods: list[PodInfo] = []
    for row in columns.order.tolist():
        on = columns.infos[row]
        assert on is not None
        assert on.node is not None
        nodes.append(on.node)
        numbers.append(len(on.pods))
        pods += on.pods.values()
    nominated = [(name, list(nominations.on(name))) for name in nominations.nodes()]
    kinds: list[type[HasMetadata]] = [*(kind.type for kind in LOOKED_UP), InFlightAllocation]
    listed = (kind for kind in kinds if snapshot.objects.is_listed(kind))
    objects = [item for kind in listed for item in snapshot.objects.every(kind)]
    return RecordedCluster(nodes, numbers, pods, nominated, objects)


def rebuild_cluster(cluster: RecordedCluster) -> Snapshot:
    """Returns the cluster rebuilt from its objects, without any values derived before."""
    cache = CacheState()
    for item in cluster.objects:
        cache.handle(ObjectPut(item))
    pods = iter(cluster.pods)
    for node, number in zip(cluster.nodes, cluster.numbers, strict=True):
        cache.handle(NodeAdded(node))
        for info in islice(pods, number):
            cache.handle(Assume(PodInfo(info.pod), node.metadata.name))
    for name, infos in cluster.nominated:
        for info in infos:
            cache.handle(Nominate(PodInfo(info.pod), name))
    snapshot = cache.snapshot()
    snapshot.columns.reorder(cluster.names())
    return snapshot


def _difference_of_chosen(chosen: Choice, expected: Choice, decision: Decision) -> str:
    if chosen.node != expected.node:
        return _difference_of_node(chosen.node, expected.node, decision)
    scored = f"{chosen.feasible} of {chosen.evaluated}"
    return _mismatch(
        "the number of nodes scored", scored, f"{expected.feasible} of {expected.evaluated}"
    )


def _difference_of_node(node: str, best: str, decision: Decision) -> str:
    if best not in decision.best:  # the pod is nominated to this node
        return _mismatch("the node", node, best)
    if node not in decision.total:
        verdict = decision.filter.get(node)
        why = "it is not in the sample"
        if verdict is not None and verdict.plugin:
            why = f"{verdict.plugin}: {verdict}"
        return f"{node} was chosen, which explain does not choose: {why}"
    by_plugin = "; ".join(
        f"{plugin} {scores[node]} and {scores[best]}"
        for plugin, scores in decision.score.items()
        if scores[node] != scores[best]
    )
    chosen = f"{node} was chosen with a score of {decision.total[node]}"
    expected = f"explain chooses {best} with {decision.total[best]}"
    return f"{chosen}; {expected}: {by_plugin or 'a tie'}"


def _difference_of_unfit(unfit: Unfit, expected: Unfit) -> str:
    return (
        _mismatch("the message", unfit.message, expected.message)
        or _mismatch(
            "the list of rejecting plugins", _list(unfit.rejected_by), _list(expected.rejected_by)
        )
        or _mismatch("the list of pending plugins", _list(unfit.pending), _list(expected.pending))
        or _mismatch("the nomination", _nomination(unfit), _nomination(expected))
    )


def _nomination(unfit: Unfit) -> str:
    """Returns the nomination that the pod has after the attempt."""
    result, nomination = unfit.post_filtered, unfit.nomination
    if nomination is not None:
        victims, displaced = _names(nomination.victims), _names(nomination.displaced)
        return f"{nomination.node} (victims: {victims}; displaced: {displaced})"
    return "cleared" if result is None or result.denominate else "kept"


def _names(infos: Sequence[PodInfo]) -> str:
    return _list(info.key for info in infos)


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _mismatch(what: str, actual: str, expected: str) -> str:
    return "" if actual == expected else f"{what} is {actual}; explain's is {expected}"


def _outcome_words(outcome: Outcome) -> str:
    match outcome:
        case Choice(node):
            return f"{node} chosen"
        case Unfit(message):
            return f"no node: {message}"
        case DecisionFailure(status):
            return f"an error: {status.message}"
        case _:
            assert_never(outcome)

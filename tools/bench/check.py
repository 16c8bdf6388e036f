"""Whether a running scheduler decides as `berth explain` does: a sample of its decisions, made once
more from nothing.

A running scheduler remembers: columns, counts, what rules said of pods alike. Before a sampled
decision, all that it rests on is written down as the objects that the cache holds (frozen, so
references are enough): nodes with the pods on them, assumed ones included, promises, and what else
plugins look up. Later a cluster is built from them alone, and tools/explain decides on the pod
there. A pod that was placed must be on a node with the highest score of those that a search node by
node from the scheduler's own start finds; one that was not must have been told the same, because of
the same plugins, and have been promised the same node by the same victims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from itertools import islice
from random import Random
from typing import Generic, TypeVar

import msgspec
from berth.actors.cache.state import CacheState, Lend
from berth.actors.messages import Assume, NodeAdded, Nominate, ObjectPut, TakeSnapshot
from berth.actors.scheduling.decision.algorithm import (
    Chosen,
    Failed,
    Outcome,
    Scheduler,
    Unfit,
    choose_nodes,
    sample_size,
)
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.framework.questions import unasked
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.kinds import LOOKED_UP
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.system import profiles_of
from berth.config.types import Extender, KubeSchedulerConfiguration
from berth.tools.bench.measure import Checked, Difference, Effort, Meter
from berth.tools.explain.decision import Decision, Explained, Failure, Given, steps
from berth.tools.explain.handle import ReadOnlyHandle

T = TypeVar("T")
SEED = 0
MOST_NAMES = 5
Report = Callable[[int, int], None]  # checked so far, and how many there are


class Written(msgspec.Struct, frozen=True):
    """A cluster as it was. `nodes` are in the node tree's order; on one after the other run as many
    of the next `pods` as `numbers` says: flat, because it is written down while pods wait.
    """

    nodes: list[Node]
    numbers: list[int]
    pods: list[PodInfo]
    promised: list[tuple[str, list[PodInfo]]]
    objects: list[HasMetadata]

    def names(self) -> list[str]:
        return [node.metadata.name for node in self.nodes]


class Kept(msgspec.Struct, frozen=True):
    """A decision, and all that it was made from; the search for nodes began at `start`."""

    profile: str
    pod: Pod
    cluster: Written
    start: int
    chance: Random
    outcome: Outcome


class Sample(Generic[T]):
    """So many of all that is met, any of them as likely as any other."""

    def __init__(self, size: int, chance: Random) -> None:
        self._size = size
        self._chance = chance
        self._met = 0
        self.kept: list[T] = []

    def place(self) -> int | None:
        """Where to keep what is met next, an earlier one making way if there are enough; None if
        nowhere.
        """
        self._met += 1
        place = len(self.kept) if len(self.kept) < self._size else self._chance.randrange(self._met)
        return place if place < self._size else None

    def keep(self, place: int, item: T) -> None:
        self.kept[place : place + 1] = [item]


class Witness(Scheduler):
    """A scheduler some decisions of which are kept: a sample in each window. What extenders take
    part in is not.
    """

    def __init__(
        self,
        rng: Random,
        percentage_of_nodes_to_score: int,
        size: int,
        extenders: Sequence[Extender] = (),
    ) -> None:
        super().__init__(rng, percentage_of_nodes_to_score, extenders)
        self._chance_of_all = rng
        self._size = size
        self._sampling = Random(SEED)
        self._open = False
        self.windows: list[Sample[Kept]] = []

    def open(self) -> None:
        self.windows.append(Sample(self._size, self._sampling))
        self._open = True

    def close(self) -> None:
        self._open = False

    def schedule(self, profile: Profile, info: PodInfo, snapshot: Snapshot) -> Outcome:
        place = self.windows[-1].place() if self._open and len(snapshot) else None
        if place is None:
            return super().schedule(profile, info, snapshot)
        cluster, start = written(snapshot), self._start
        chance = Random()
        chance.setstate(self._chance_of_all.getstate())
        outcome = super().schedule(profile, info, snapshot)
        self.windows[-1].keep(
            place, Kept(profile.scheduler_name, info.pod, cluster, start, chance, outcome)
        )
        return outcome


class Sampling:
    """A meter whose windows are the witness's as well."""

    def __init__(self, meter: Meter, witness: Witness) -> None:
        self._meter = meter
        self._witness = witness

    async def start(self) -> None:
        self._witness.open()
        await self._meter.start()

    async def stop(self) -> Effort:
        self._witness.close()
        return await self._meter.stop()


def check(
    windows: Sequence[Sample[Kept]], configuration: KubeSchedulerConfiguration, report: Report
) -> Iterator[Checked]:
    """What each window's decisions come to when they are made again."""
    done, every = 0, sum(len(window.kept) for window in windows)
    for window in windows:
        differ = []
        for kept in window.kept:
            found = difference(kept, configuration)
            if found:
                differ.append(
                    Difference(f"{kept.pod.metadata.namespace}/{kept.pod.metadata.name}", found)
                )
            done += 1
            report(done, every)
        yield Checked(len(window.kept), len(window.kept) - len(differ), tuple(differ))


def difference(kept: Kept, configuration: KubeSchedulerConfiguration) -> str:
    """How the decision differs from the one that explain makes, or ""."""
    snapshot, info = restored(kept.cluster), PodInfo(kept.pod)
    profile = profiles_of(configuration, ReadOnlyHandle())[kept.profile]
    explained = unasked(steps(profile, info, snapshot, extended=False, given=Given(kept.chance)))
    match explained.decision, kept.outcome:
        case Failure(message), Failed(status):
            return _other("the error", status.message, message)
        case Decision(hosts=[]) as decision, Unfit() as unfit:
            return _of_unfit(unfit, decision, explained)
        case Decision(hosts=[_, *_]) as decision, Chosen() as chosen:
            nominated = snapshot.nominations.node_of(info.key)
            if decision.hosts == [nominated]:
                return _other("the node", chosen.node, nominated)
            sample = _sample(kept, decision, profile, configuration)
            if sample < decision.total.keys():
                given = Given(kept.chance, sample)
                again = unasked(
                    steps(profile, info, snapshot, extended=False, given=given)
                ).decision
                assert isinstance(again, Decision)
                decision = again
            return _of_chosen(chosen, decision)
        case decision, outcome:
            return _other("the decision", _short(outcome), _short(decision))


def written(snapshot: Snapshot) -> Written:
    """The cluster with everything in it that a decision may look at."""
    columns, promises = snapshot.columns, snapshot.nominations
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
    promised = [(name, list(promises.on(name))) for name in promises.nodes()]
    listed = (kind.type for kind in LOOKED_UP if snapshot.objects.is_listed(kind.type))
    objects = [item for kind in listed for item in snapshot.objects.every(kind)]
    return Written(nodes, numbers, pods, promised, objects)


def restored(cluster: Written) -> Snapshot:
    """The cluster with nothing derived from before."""
    cache = CacheState()
    for item in cluster.objects:
        cache.handle(ObjectPut(item))
    pods = iter(cluster.pods)
    for node, number in zip(cluster.nodes, cluster.numbers, strict=True):
        cache.handle(NodeAdded(node))
        for info in islice(pods, number):
            cache.handle(Assume(PodInfo(info.pod), node.metadata.name))
    for name, infos in cluster.promised:
        for info in infos:
            cache.handle(Nominate(PodInfo(info.pod), name))
    (lend,) = cache.handle(TakeSnapshot(_Ignored()))
    assert isinstance(lend, Lend)
    lend.snapshot.columns.reorder(cluster.names())
    return lend.snapshot


class _Ignored:
    def set(self, value: Snapshot) -> None:
        """The snapshot is taken from the effect."""


def _sample(
    kept: Kept, decision: Decision, profile: Profile, configuration: KubeSchedulerConfiguration
) -> Set[str]:
    """The nodes that a search one by one, from where the scheduler began, would have found."""
    names = kept.cluster.names()
    if decision.prefilter_nodes is not None:
        left = frozenset(decision.prefilter_nodes)
        names = [name for name in names if name in left]
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = configuration.percentage_of_nodes_to_score
    nobody_chooses = profile.scores_nothing and not choose_nodes(configuration.extenders)
    wanted = 1 if nobody_chooses else sample_size(percentage, len(names))
    start = kept.start % len(names)
    turned = (*names[start:], *names[:start])
    return frozenset(islice((name for name in turned if name in decision.total), wanted))


def _of_chosen(chosen: Chosen, decision: Decision) -> str:
    node, best = chosen.node, decision.best[0]
    if node not in decision.total:
        verdict = decision.filter.get(node)
        why = (
            "it is not in the sample"
            if verdict is None or not verdict.plugin
            else f"{verdict.plugin}: {verdict}"
        )
        return f"{node} was chosen, which explain does not: {why}"
    if chosen.feasible != len(decision.total):
        return _other(
            "the number of nodes to score", str(chosen.feasible), str(len(decision.total))
        )
    if node in decision.best:
        return ""
    by_plugin = "; ".join(
        f"{plugin} {scores[node]} and {scores[best]}"
        for plugin, scores in decision.score.items()
        if scores[node] != scores[best]
    )
    totals = f"{decision.total[node]}, {best} for {decision.total[best]}"
    return f"{node} was chosen for {totals}, which is more: {by_plugin}"


def _of_unfit(unfit: Unfit, decision: Decision, explained: Explained) -> str:
    post_filtered = explained.post_filtered
    nomination = None if post_filtered is None else post_filtered.nomination
    refusals = [v for v in decision.filter.values() if v.plugin]
    if decision.prefilter is not None:
        refusals.append(decision.prefilter)
    plugins = {verdict.plugin for verdict in refusals} - {""}
    pending = {verdict.plugin for verdict in refusals if verdict.code == "Pending"} - {""}
    if (
        decision.prefilter_nodes is not None
    ):  # Who left the other nodes out has no verdict of its own.
        plugins |= unfit.rejected_by
    promised, expected = (
        "nothing"
        if found is None
        else f"{found.node} for {_names(found.victims)}, displacing {_names(found.displaced)}"
        for found in (unfit.nomination, nomination)
    )
    denominated = post_filtered is not None and post_filtered.denominate
    return (
        _other("the message", unfit.message, decision.message or "")
        or _other("who rejected it", _short(sorted(unfit.rejected_by)), _short(sorted(plugins)))
        or _other("who lets it wait", _short(sorted(unfit.pending)), _short(sorted(pending)))
        or _other("the promise", promised, expected)
        or _other("whether a promise is void", str(unfit.denominate), str(denominated))
    )


def _names(infos: Sequence[PodInfo]) -> str:
    return ", ".join(sorted(info.key for info in infos)) or "nobody"


def _other(what: str, found: str, expected: str) -> str:
    return "" if found == expected else f"{what} is {found}; explain's is {expected}"


def _short(value: object) -> str:
    match value:
        case Chosen(node):
            return f"{node} chosen"
        case Unfit(message):
            return f"no node: {message}"
        case Failed(status):
            return f"an error: {status.message}"
        case Failure(message):
            return f"an error: {message}"
        case Decision(hosts=hosts, message=message):
            return (
                f"one of {len(hosts)}: {', '.join(hosts[:MOST_NAMES])}"
                if hosts
                else f"no node: {message}"
            )
        case _:
            return str(value)

"""The check of a plugin: its contracts, on random clusters.

`check_plugin` raises with every contract that the plugin breaks. Each example has a random cluster
and a pending pod, with what the caller gives mixed in, as a plugin reads labels that nobody can
guess. The same seed gives the same examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from random import Random
from typing import Any

import msgspec
import numpy as np

from berth.actors.scheduling.decision.failures import PluginError
from berth.actors.scheduling.decision.outcome import DecisionFailure
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.registry import EXTENSION_POINTS
from berth.actors.scheduling.decision.rules import Rules, rule_hooks
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.changes import node_changes
from berth.actors.scheduling.framework.logger import Fields, Level, output, use_output
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.wiring.plugin_lives import CLOSE, START, TASK
from berth.config.feature_gates import DEFAULTS
from berth.plugin import (
    Action,
    ClusterEvent,
    Code,
    CycleState,
    DependsOn,
    FilterPlugin,
    Hint,
    NodeFilterPlugin,
    NodeScorePlugin,
    Plugin,
    PodInfo,
    PreScorePlugin,
    ReservePlugin,
    Resource,
    ScorePlugin,
    Snapshot,
)

from ...answers.explain.cluster_source import ClusterQuestion
from ...answers.explain.decider import Attempt, Explainer
from ...kubernetes.api.types.defaults import defaulted
from ...kubernetes.api.types.resources import BY_KIND
from ..builders import node, pod
from ..cluster import Cluster, Livelock, NotReachedError
from ..configuration import NO_ARGS, Args, configuration_of, with_plugins
from ..virtual_time import run_virtually
from .definitions import creatable, definitions_of

Document = dict[str, Any]
PODS, NODES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Node"]
MOST_TOLD = 20
SETTLES_WITHIN = "20m"
ZONE = "topology.kubernetes.io/zone"
CREATED = "2026-01-01T00:00:00Z"  # as each object of a cluster has it
_VECTOR = (FilterPlugin, ScorePlugin)
# The contracts, each with the beginnings of the problems with it.
CONTRACTS: Mapping[str, tuple[str, ...]] = {
    "answers are valid": ("an answer ",),
    "answers are the same for the same input": ("the answers ",),
    "a node is judged alone as among all, and in both forms": ("filter ", "passing ", "score "),
    "depends_on is true": ("depends_on ",),
    "unreserve undoes reserve": ("reserve ", "unreserve "),
    "hints wake the pods that would fit": ("no hint ",),
    "nothing of the snapshot is changed": ("the snapshot ",),
    "pods are not tried for ever": ("livelock",),
}


class PluginCheckError(AssertionError):
    """A plugin breaks contracts; `problems` has a sentence for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class _Answers(msgspec.Struct):
    """What a plugin says of a pod: the code of PreFilter with the nodes that it leaves, by node the
    codes of Filter and the raw scores, and whether it skips the pod. The other nodes count as
    rejected.
    """

    pre_filter: int
    names: tuple[str, ...] | None
    codes: dict[str, int]
    scores: dict[str, int]
    skips: bool = False


class _Example(msgspec.Struct):
    """A cluster with a pending pod."""

    nodes: list[Document]
    pods: list[Document]
    pending: Document


def check_plugin(
    kind: type[Plugin],
    args: Mapping[str, Any] | None = None,
    *,
    nodes: Sequence[Document] = (),
    pods: Sequence[Document] = (),
    others: Sequence[Document] = (),
    examples: int = 20,
    seed: int = 1,
) -> None:
    """Raises PluginCheckError with the contracts that a plugin breaks.

    Examples draw from these `nodes` and `pods` besides random ones, and all have the `others`, such
    as objects of a kind that the plugin looks up. Raises RegistryError for a plugin that cannot be
    made.
    """
    problems = list(problems_of(kind, args, nodes, pods, others, examples, seed))
    if problems:
        raise PluginCheckError(problems)


def problems_of(
    kind: type[Plugin],
    args: Mapping[str, Any] | None = None,
    nodes: Sequence[Document] = (),
    pods: Sequence[Document] = (),
    others: Sequence[Document] = (),
    examples: int = 20,
    seed: int = 1,
    advance: Callable[[bool], object] = lambda _: None,
) -> Iterator[str]:
    """Yields the contracts that a plugin breaks, each once. Calls `advance` after each example;
    with False if its pod did not concern the plugin, as PreFilter skipped it.
    """
    check = _Check(kind, {} if args is None else args, nodes, others)
    told: set[str] = set()

    def new(problems: Iterable[str]) -> Iterator[str]:
        for problem in problems:
            what, _, _ = problem.partition(":")
            if what not in told and len(told) < MOST_TOLD:
                told.add(what)
                yield problem

    with _failures_of(kind) as failures:
        for number in range(examples):
            rng = Random(f"{seed}-{number}")
            yield from new(check.example(_drawn(rng, nodes, pods), rng))
            yield from new(failures)
            if len(told) >= MOST_TOLD:
                return
            advance(check.was_concerned)
        if not told:  # Attempts that fail are repeated anyway.
            livelocks = list(check.livelocks(nodes, pods, seed))
            yield from new((*failures, *livelocks))


@contextmanager
def _failures_of(kind: type[Plugin]) -> Iterator[list[str]]:
    """Yields a list of what fails in a plugin, also where a failure ends no attempt. What `start`
    and tasks raise is in the log alone, as what they wait for may not be there.
    """
    failures: list[str] = []
    before = output()

    class Noting:
        def level_of(self, module: str) -> Level:
            return before.level_of(module)

        def tell(self, module: str, level: str, fields: Fields) -> None:
            point = fields.get("point")
            is_of_it = (fields["event"], fields.get("plugin")) == ("plugin failed", kind.name)
            if is_of_it and point not in (START.name, TASK.name, CLOSE.name):
                failures.append(f"an answer is not valid: {point}: {fields['error']}")
            before.tell(module, level, fields)

    use_output(Noting())
    try:
        yield failures
    finally:
        use_output(before)


def contract_of(problem: str) -> str:
    """Returns the contract that a problem breaks."""
    return next(name for name, begins in CONTRACTS.items() if problem.startswith(begins))


def _drawn(rng: Random, nodes: Sequence[Document], pods: Sequence[Document]) -> _Example:
    """Returns a random cluster of one to five nodes, and a pending pod."""

    def of(given: Sequence[Document], made: Document, name: str) -> Document:
        document = deepcopy(rng.choice(given) if given and rng.random() < 0.5 else made)
        metadata = {"creationTimestamp": CREATED, **document.get("metadata", {})}
        document["metadata"] = {**metadata, "name": name, "uid": name}
        return document

    def a_node(number: int) -> Document:
        labels = {ZONE: rng.choice("ab"), "disk": rng.choice(("ssd", "hdd"))}
        cpu, memory = rng.choice((1, 2, 8)), rng.choice(("2Gi", "16Gi"))
        made = node("n", cpu=cpu, memory=memory, labels=labels)
        return of(nodes, made, f"node-{number}")

    def a_pod(name: str) -> Document:
        cpu, memory = rng.choice(("100m", "500m", "2")), rng.choice(("128Mi", "1Gi"))
        made = pod("p", cpu=cpu, memory=memory, labels={"app": rng.choice("xyz")})
        return of(pods, made, name)

    on = [a_node(number) for number in range(rng.randint(1, 5))]
    placed = [a_pod(f"pod-{number}") for number in range(rng.randint(0, 6))]
    for each in placed:
        each["spec"] = {**each["spec"], "nodeName": rng.choice(on)["metadata"]["name"]}
    return _Example(on, placed, a_pod("pending"))


class _Check:
    """The check of one plugin."""

    def __init__(
        self,
        kind: type[Plugin],
        args: Mapping[str, Any],
        nodes: Sequence[Document],
        others: Sequence[Document],
    ) -> None:
        self._kind = kind
        self._given = list(nodes)
        self._args: Args = {kind.name: args} if args else NO_ARGS
        self._others = list(others)
        self.was_concerned = True  # by the last example
        configuration = with_plugins(configuration_of(None, DEFAULTS), [kind], self._args)
        self._explainer = Explainer(configuration, others=[kind])

    def _attempt(self, example: _Example) -> Attempt:
        placed = [defaulted(PODS, each) for each in example.pods]
        objects = [*example.nodes, *placed, *self._others]
        pending = defaulted(PODS, example.pending)
        question = ClusterQuestion(pending, objects, self._explainer.configuration)
        return self._explainer.attempt(question)

    def _plugin(self, profile: Profile) -> Plugin:
        return next(plugin for plugin in profile.plugins if plugin.name == self._kind.name)

    # ---------------------------------------------------------------------------------- one example

    def example(self, example: _Example, rng: Random) -> Iterator[str]:
        attempt = self._attempt(example)
        plugin, info, snapshot = self._plugin(attempt.profile), attempt.info, attempt.snapshot
        before = _digest(snapshot)
        outcome = Scheduler(Random(1)).schedule(attempt.profile, info, snapshot)
        if isinstance(outcome, DecisionFailure):
            yield f"an answer is not valid: {outcome.status.message}"
            return
        try:
            answers = _asked(plugin, info, snapshot)
            self.was_concerned = not answers.skips
            yield from self._same(plugin, info, snapshot, answers)
            yield from _forms(plugin, info, snapshot, answers)
            yield from self._depends(plugin, example, answers, rng)
            yield from self._reserves(plugin, info, snapshot, answers)
            yield from self._hints(attempt.profile, plugin, example, answers)
        except PluginError as failure:
            yield f"an answer is not valid: {failure.status.message}"
        if _digest(snapshot) != before:
            yield "the snapshot was changed: a plugin must copy what it changes"

    def _same(
        self, plugin: Plugin, info: PodInfo, snapshot: Snapshot, answers: _Answers
    ) -> Iterator[str]:
        again = _asked(plugin, info, snapshot)
        if again != answers:
            what = _difference(answers, again)
            yield f"the answers differ for the same input: {what}"

    # ----------------------------------------------------------------------------------- depends_on

    def _depends(
        self, plugin: Plugin, example: _Example, answers: _Answers, rng: Random
    ) -> Iterator[str]:
        """Changes what the answers do not depend on, as declared, and asks again."""
        if not isinstance(plugin, _VECTOR) or plugin.depends_on is DependsOn.CLUSTER:
            return
        if isinstance(plugin, NodeFilterPlugin | NodeScorePlugin):
            return  # It is asked for every pod.
        name = rng.choice(example.nodes)["metadata"]["name"]
        renamed = deepcopy(example)
        renamed.pending["metadata"] |= {"name": "other", "uid": "other"}
        changed = [("the pod's name", renamed, None)]
        more = deepcopy(example)
        for each in more.nodes:
            at = each["metadata"]["name"]
            more.pods.append(pod(f"more-{at}", cpu="100m", node=at, labels={"app": "x"}))
        if plugin.depends_on in (DependsOn.NODE, DependsOn.ALL_NODES):
            changed.append(("the pods on the nodes", more, None))
        if plugin.depends_on in (DependsOn.NODE, DependsOn.NODE_AND_PODS):
            alone = deepcopy(example)
            alone.nodes = [each for each in alone.nodes if each["metadata"]["name"] == name]
            alone.pods = [each for each in alone.pods if each["spec"]["nodeName"] == name]
            changed.append(("other nodes", alone, name))
        for what, cluster, only in changed:
            attempt = self._attempt(cluster)
            other = _asked(self._plugin(attempt.profile), attempt.info, attempt.snapshot)
            for field in ("codes", "scores"):
                mine, theirs = getattr(answers, field), getattr(other, field)
                shared = [each for each in mine if each in theirs and only in (None, each)]
                if any(mine[each] != theirs[each] for each in shared):
                    declared = f"depends_on is {plugin.depends_on.name}"
                    yield f"{declared}, but the {field} depend on {what}: {mine}, then {theirs}"

    # ------------------------------------------------------------------------------ reserve, events

    @staticmethod
    def _reserves(
        plugin: Plugin, info: PodInfo, snapshot: Snapshot, before: _Answers
    ) -> Iterator[str]:
        fitting = [name for name, code in before.codes.items() if code == 0]
        if not isinstance(plugin, ReservePlugin) or not fitting:
            return
        name = fitting[0]
        for with_reserve in (False, True, True):
            state = _prepared(plugin, info, snapshot)[0]
            step = "reserve"
            try:
                if with_reserve:
                    plugin.reserve(state, info, name)
                step = "unreserve" if with_reserve else "unreserve without reserve"
                plugin.unreserve(state, info, name)
            except Exception as raised:  # noqa: BLE001 - whatever it is, it is told
                yield f"{step} raises: {type(raised).__name__}: {raised}"
                return
        after = _asked(plugin, info, snapshot)
        if after != before:
            yield f"unreserve does not undo reserve: {_difference(before, after)}"

    def _hints(
        self, profile: Profile, plugin: Plugin, example: _Example, answers: _Answers
    ) -> Iterator[str]:
        """Looks for a change after which the plugin accepts a node, and that wakes no pod."""
        if any(code == 0 for code in answers.codes.values()) or not example.nodes:
            return
        if type(plugin).events_to_register is Plugin.events_to_register:
            return  # It waits for every event.
        registered = profile.hints().get(plugin.name)
        if registered is None:
            return  # It fails there: then it waits for every event too.
        pending = _typed(defaulted(PODS, example.pending))
        assert isinstance(pending, Pod)
        for what, event, old, new, cluster in _changes(example, self._given):
            attempt = self._attempt(cluster)
            then = _asked(self._plugin(attempt.profile), attempt.info, attempt.snapshot)
            if all(code != 0 for code in then.codes.values()):
                continue
            before = None if old is None else _typed(old)
            after = None if new is None else _typed(new)
            events = [event]
            if isinstance(before, Node) and isinstance(after, Node):
                events = [ClusterEvent(Resource.NODE, each) for each in node_changes(before, after)]
            if not any(
                each.event.matches(happened)
                and (each.hint is None or each.hint(pending, before, after) is Hint.QUEUE)
                for each in registered
                for happened in events
            ):
                yield f"no hint wakes a pod that fits after {what}: {', '.join(map(str, events))}"

    # ------------------------------------------------------------------------------------ livelocks

    def livelocks(
        self, nodes: Sequence[Document], pods: Sequence[Document], seed: int
    ) -> Iterator[str]:
        """Lets a cluster with more pods than room settle."""
        rng = Random(f"{seed}-livelock")
        example = _drawn(rng, nodes, pods)
        pending = []
        for number in range(12):
            each = deepcopy(_drawn(rng, nodes, pods).pending)
            each["metadata"] = {**each["metadata"], "name": f"p-{number}"}
            del each["metadata"]["uid"]
            pending.append(each)
        told: list[str] = []

        async def story() -> None:
            made = [{**each, "metadata": _without_uid(each)} for each in example.nodes]
            others = creatable(self._others)
            defined = definitions_of(self._explainer.kinds, others)
            async with Cluster(
                defined, plugins=[self._kind], args=self._args, kubelets=False
            ) as cluster:
                await cluster.add(made, others, pending)
                try:
                    await cluster.settled(SETTLES_WITHIN)
                except Livelock as livelock:
                    told.append(f"livelock: {str(livelock).splitlines()[0]}")
                except NotReachedError:
                    pass  # Timers of the plugin's own may go on.

        with ThreadPoolExecutor(1) as thread:  # The caller may have an event loop.
            thread.submit(run_virtually, story).result()
        yield from told


# -------------------------------------------------------------------------------- asking the plugin


def _rules_of(plugin: Plugin) -> Rules:
    points = {
        point: [(plugin, 1)]
        for point, kinds in EXTENSION_POINTS.items()
        if isinstance(plugin, kinds)
    }
    return Rules(rule_hooks(points))


def _prepared(
    plugin: Plugin, info: PodInfo, snapshot: Snapshot
) -> tuple[CycleState, Rules, int, tuple[str, ...] | None]:
    """Returns the state after PreFilter, with its code and the nodes that it leaves."""
    state, rules = CycleState(), _rules_of(plugin)
    outcome = rules.pre_filter(state, info, snapshot)
    names = None if outcome.node_names is None else tuple(sorted(outcome.node_names))
    return state, rules, int(outcome.status.code), names


def _asked(plugin: Plugin, info: PodInfo, snapshot: Snapshot) -> _Answers:
    """Returns the answers of a plugin. Raises PluginError."""
    state, rules, code, names = _prepared(plugin, info, snapshot)
    order, columns = snapshot.columns.order, snapshot.columns
    if code != 0:
        return _Answers(code, names, dict.fromkeys((columns.names[row] for row in order), code), {})
    view = snapshot.rows(order)
    codes = rules.filter(state, info, view).codes.tolist()
    by_name = {columns.names[row]: codes[i] for i, row in enumerate(order)}
    if names is not None:
        by_name |= dict.fromkeys(by_name.keys() - names, int(Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
    rows = order[np.array([*by_name.values()]) == 0]
    scores: dict[str, int] = {}
    if len(rows):
        feasible = snapshot.rows(rows)
        rules.pre_score(state, info, feasible)
        rules.score(state, info, feasible)
        for raw in rules.raw_scores(state, info, feasible):
            scores = {columns.names[row]: int(raw.scores[i]) for i, row in enumerate(rows)}
    skips = plugin.name in state.skip_filter and not scores
    return _Answers(code, names, by_name, scores, skips)


def _forms(plugin: Plugin, info: PodInfo, snapshot: Snapshot, answers: _Answers) -> Iterator[str]:
    """Compares the answers about all nodes with those about one node at a time."""
    state, rules, code, names = _prepared(plugin, info, snapshot)
    if code != 0 or plugin.name in state.left_out:
        return
    columns = snapshot.columns
    for row in columns.order.tolist():
        one, name = snapshot.rows(np.array([row])), columns.names[row]
        if names is not None and name not in names:
            continue
        each = state.copy()
        verdict = int(rules.filter(each, info, one).codes[0])
        if verdict != answers.codes[name]:
            told = f"{answers.codes[name]} among all nodes, {verdict} alone"
            yield f"filter differs for one node and for all: {name}: {told}"
        passing = rules.passing(state.copy(), info, one)
        if (passing is None or bool(passing[0])) != (verdict == 0):
            yield f"passing differs from filter: {name}"
        known = columns.infos[row]
        if isinstance(plugin, FilterPlugin) and isinstance(plugin, NodeFilterPlugin) and known:
            scalar = int(plugin.filter_node(state.copy(), info, known).code)
            if scalar != verdict:
                yield f"filter differs from filter_node: {name}: {verdict}, then {scalar}"
        if isinstance(plugin, ScorePlugin) and name in answers.scores:
            yield from _score_forms(plugin, state, info, one, answers.scores[name])


def _score_forms(
    plugin: ScorePlugin, state: CycleState, info: PodInfo, one: Any, score: int
) -> Iterator[str]:
    if isinstance(plugin, PreScorePlugin):
        return  # What it prepared is about all nodes that fit.
    name = one.name(0)
    alone = int(plugin.score(state.copy(), info, one)[0])
    if alone != score:
        yield f"score differs for one node and for all: {name}: {score} among all, {alone} alone"
    known = one.info(0)
    if isinstance(plugin, NodeScorePlugin) and known is not None:
        scalar = plugin.score_node(state.copy(), info, known)
        if scalar != score:
            yield f"score differs from score_node: {name}: {score}, then {scalar}"


def _digest(snapshot: Snapshot) -> bytes:
    """Returns a text of what a plugin may have changed in a snapshot."""
    columns = snapshot.columns
    told = [
        (info.name, dict(info.requested), dict(info.allocatable), sorted(info.pods))
        for info in columns.infos
        if info is not None
    ]
    amounts = [
        columns.allocatable(name).tolist() + columns.requested(name).tolist()
        for name in ("cpu", "memory")
    ]
    return msgspec.json.encode((told, amounts, columns.pods.tolist()))


def _difference(one: _Answers, other: _Answers) -> str:
    for field in one.__struct_fields__:
        mine, theirs = getattr(one, field), getattr(other, field)
        if mine != theirs:
            return f"{field}: {mine}, then {theirs}"
    return ""


Change = tuple[str, ClusterEvent, Document | None, Document | None, _Example]


def _changes(example: _Example, given: Sequence[Document]) -> Iterator[Change]:
    """Yields changes that may help the pending pod: what happens, the event with its object before
    and after, and the cluster then.
    """
    added = ClusterEvent(Resource.NODE, Action.ADD)
    deleted = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
    updated = ClusterEvent(Resource.NODE, Action.UPDATE)
    labels = {
        name: value
        for each in (*example.nodes, *given)
        for name, value in (each["metadata"].get("labels") or {}).items()
    }
    labels |= example.pending["spec"].get("nodeSelector") or {}
    large = node("large", cpu=64, memory="256Gi", labels=labels)
    large["metadata"]["uid"] = "large"
    cluster = deepcopy(example)
    cluster.nodes.append(large)
    yield "a large node is added", added, None, large, cluster
    for number, old in enumerate(example.nodes):
        for what, field in (("allocatable", "status"), ("labels", "metadata"), ("taints", "spec")):
            new = deepcopy(old)
            if field == "status":
                room = large["status"]["allocatable"]
                new["status"] = {**old.get("status", {}), "allocatable": room}
            elif field == "metadata":
                new["metadata"]["labels"] = {**labels, **(old["metadata"].get("labels") or {})}
            else:
                new["spec"] = {}
            if new != old:
                cluster = deepcopy(example)
                cluster.nodes[number] = new
                yield f"the {what} of a node are changed", updated, old, new, cluster
    for number, gone in enumerate(example.pods):
        cluster = deepcopy(example)
        del cluster.pods[number]
        yield "a pod is deleted", deleted, defaulted(PODS, gone), None, cluster


def _typed(document: Document) -> object:
    kind = "Node" if "allocatable" in (document.get("status") or {}) else "Pod"
    return decode({"apiVersion": "v1", "kind": kind, **document})


def _without_uid(document: Document) -> Document:
    return {name: value for name, value in document["metadata"].items() if name != "uid"}

"""A decision in full: the answers of every plugin about every node.

The decision is the scheduling algorithm's own, on the plain candidates; this module prints their
contents. The form is that of the recorded decisions of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from berth.actors.scheduling.decision.algorithm import Search, schedule_pod
from berth.actors.scheduling.decision.evaluation import Evaluation
from berth.actors.scheduling.decision.failed_attempt import Attempt
from berth.actors.scheduling.decision.failures import PluginError
from berth.actors.scheduling.decision.observer import DecisionObserver
from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure, Outcome, Unfit
from berth.actors.scheduling.decision.plain import (
    Plain,
    sum_of_scores,
)
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.rules import PluginScores
from berth.actors.scheduling.decision.sampling import every_node
from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.post_filter import (
    Nomination,
    Rng,
)
from berth.actors.scheduling.framework.questions import (
    EXTENDER,
    FilteredNodes,
    Steps,
    Victims,
    run_without_extenders,
)
from berth.actors.scheduling.framework.status import (
    Status,
    unresolvable,
)
from berth.actors.scheduling.kube.core import NodeSelector
from berth.actors.scheduling.kube.devices import AllocationResult
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import (
    NodeView,
    Snapshot,
)
from berth.actors.scheduling.model.vectors import (
    Ints,
    Rows,
)
from berth.actors.scheduling.plugins.default_preemption.plugin import DefaultPreemption
from berth.actors.scheduling.plugins.default_preemption.victims import Candidate
from berth.actors.scheduling.plugins.dynamic_resources.state import CLAIMS

from .cause import Cause
from .preemption_ranking import PreemptionRanking, preemption_ranking

T = TypeVar("T")


class NodeVerdict(msgspec.Struct, frozen=True):
    """The answer of a plugin about a node; plugin "" and no reasons for a node that passes. In an
    answer for programs, `causes` are the codes of the reasons, in their order; without reasons, one
    of the rejection.
    """

    code: str
    plugin: str
    reasons: list[str]
    causes: list[Cause] | UnsetType = UNSET


class SkippedPlugins(msgspec.Struct, frozen=True):
    """The plugins that asked to be skipped, sorted; None for a phase that did not finish."""

    filter: list[str] | None = None
    score: list[str] | None = None


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """The pods (namespace/name) that would have to leave a node, and the number of budgets that
    their eviction would violate.
    """

    victims: list[str]
    pdb_violations: int


class Preemption(msgspec.Struct, frozen=True, rename="camel"):
    """Every node where preemption would help.

    Any of the `alternatives` may be nominated, since they cost the same.
    """

    nominated_node: str
    victims: list[str]
    alternatives: list[str]
    candidates: dict[str, Cost]


class AllocatedDevice(msgspec.Struct, frozen=True, rename="camel"):
    """A device for a request of a claim."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool
    consumed_capacity: Mapping[str, str | int | float]


class Allocation(msgspec.Struct, frozen=True, rename="camel"):
    """The devices that a claim would get, and the nodes that could use them; None if all could."""

    devices: list[AllocatedDevice]
    node_selector: NodeSelector | None


class Decision(msgspec.Struct, frozen=True, rename="camel"):
    """The decision about one pod. Scores are normalised and weighted."""

    prefilter: NodeVerdict | None = None
    prefilter_nodes: list[str] | None = None
    filter: dict[str, NodeVerdict] = {}
    score: dict[str, dict[str, int]] = {}
    total: dict[str, int] = {}
    best: list[str] = []
    hosts: list[str] = []
    message: str | None = None
    preemption: Preemption | None = None
    preemption_message: str | None = None
    skipped: SkippedPlugins = SkippedPlugins()
    allocations: dict[str, dict[str, Allocation]] | None = None


class Failure(msgspec.Struct, frozen=True):
    """The error with which the attempt would end."""

    error: str


class Explanation(msgspec.Struct, frozen=True):
    """The decision, the algorithm's outcome, and how a node was chosen for preemption."""

    decision: Decision | Failure
    outcome: Outcome
    ranking: PreemptionRanking | None = None


class First:
    """A random generator that always chooses the first item."""

    def randrange(self, stop: int, /) -> int:
        return 0


class Observations(DecisionObserver):
    """What a run of the algorithm has shown: the search for nodes, and the answers of extenders.

    `positions` is None without a search: the pod fits on the node for which it is nominated.
    """

    wants_scores = True

    def __init__(self) -> None:
        self.positions: Rows | None = None
        self.left_by_extenders: FilteredNodes | None = None
        self.priorities: Ints | None = None

    def searched(self, positions: Rows) -> None:
        self.positions = positions

    def filtered(self, filtered: FilteredNodes) -> None:
        self.left_by_extenders = filtered

    def prioritized(self, priorities: Ints) -> None:
        self.priorities = priorities


def decide(profile: Profile, info: PodInfo, snapshot: Snapshot) -> Decision | Failure:
    """Returns the decision for the pod, with all nodes checked and no extender to ask."""
    return run_without_extenders(steps(profile, info, snapshot, extended=False)).decision


def steps(
    profile: Profile,
    info: PodInfo,
    snapshot: Snapshot,
    *,
    extended: bool,
    search: Search = every_node,
    chance: Rng | None = None,
) -> Steps[Explanation]:
    """Returns the decision with its background. With `extended`, it asks extenders.

    `search` finds the nodes to score, and `chance` breaks ties; without it, the first wins.
    """
    seen, rng = Observations(), First() if chance is None else chance
    try:
        plain = Plain(profile, info, snapshot)
        outcome = yield from schedule_pod(plain, search, rng, seen, extended=extended)
        if isinstance(outcome, DecisionFailure):
            return Explanation(Failure(outcome.status.message), outcome)
        evaluation = plain.evaluation()
        if seen.left_by_extenders is not None:
            evaluation = evaluation.besides(seen.left_by_extenders)
        decision = _with_filter_results(plain, evaluation)
        if isinstance(outcome, Choice):
            return Explanation(_with_scores(decision, plain, outcome, seen), outcome)
        return (yield from _with_preemption(decision, plain, evaluation, outcome, rng))
    except PluginError as failure:
        return Explanation(Failure(failure.status.message), DecisionFailure(failure.status))


def rejected(profile: Profile, info: PodInfo, snapshot: Snapshot) -> Decision | Failure:
    """Returns the verdicts about all nodes, and neither scores nor what preemption would do."""
    try:
        plain = Plain(profile, info, snapshot)
        every_node(plain)
        return _with_filter_results(plain, plain.evaluation())
    except PluginError as failure:
        return Failure(failure.status.message)


def _with_filter_results(plain: Plain, evaluation: Evaluation) -> Decision:
    """Returns a decision with the results of PreFilter and Filter."""
    prefilter, diagnosis, live = evaluation.prefilter, evaluation.diagnosis, evaluation.live
    if diagnosis is None or live is None:
        return Decision(prefilter=_verdict(prefilter.status))
    names = None if prefilter.node_names is None else sorted(prefilter.node_names)
    node_names, of_node, statuses = diagnosis.distinct(live)
    distinct = list(map(_verdict, statuses))
    verdicts = dict(zip(node_names, map(distinct.__getitem__, of_node), strict=True))
    every = plain.snapshot.columns.row_of
    if len(verdicts) < len(every):
        outside = _verdict(unresolvable(prefilter.reason_outside))
        verdicts |= {name: outside for name in every if name not in verdicts}
    skipped = SkippedPlugins(sorted(evaluation.state.skip_filter))
    return Decision(prefilter_nodes=names, filter=verdicts, skipped=skipped)


def _with_scores(decision: Decision, plain: Plain, choice: Choice, seen: Observations) -> Decision:
    """Adds the results of Score, which are computed even for a nominated pod."""
    positions = every_node(plain)[0] if seen.positions is None else seen.positions
    rows = plain.order[positions]
    if seen.left_by_extenders is not None:
        rows = rows[np.isin(rows, seen.left_by_extenders.rows)]
    hosts = [choice.node]
    if not len(rows):  # PreFilter left out the nominated node, and no other node fits.
        return msgspec.structs.replace(decision, hosts=hosts)
    feasible = plain.snapshot.rows(rows)
    plain.pre_score(feasible)
    scores = plain.scores(feasible)
    if seen.priorities is not None:
        scores.append(PluginScores(EXTENDER, seen.priorities))
    totals = _by_node(sum_of_scores(scores, plain.profile, feasible.size), feasible)
    highest = max(totals.values())
    best = sorted(name for name, total in totals.items() if total == highest)
    skipped = None if plain.profile.scores_nothing else sorted(plain.state.skip_score)
    return msgspec.structs.replace(
        decision,
        score={plugin.plugin: _by_node(plugin.scores, feasible) for plugin in scores},
        total=totals,
        best=best,
        hosts=hosts if seen.positions is None else best,
        skipped=SkippedPlugins(decision.skipped.filter, skipped),
        allocations=_allocations(plain.state, feasible),
    )


def _allocations(state: CycleState, feasible: NodeView) -> dict[str, dict[str, Allocation]] | None:
    """Returns the devices that the claims of the pod would get on each node, without the claim for
    its extended resources; None if no claim has to be allocated.
    """
    pod = state.get(CLAIMS)
    if pod is None or pod.requests is None or not pod.requests.claims:
        return None
    names = {claim.metadata.name for claim in pod.requests.claims}
    by_node = {node: pod.allocations_on(node) for node in map(feasible.name, range(feasible.size))}
    shown = {
        node: {
            claim.metadata.name: _allocation(allocation)
            for claim, allocation in allocations
            if claim.metadata.name in names
        }
        for node, allocations in by_node.items()
        if allocations is not None
    }
    return shown or None


def _allocation(allocation: AllocationResult) -> Allocation:
    devices = [
        AllocatedDevice(
            result.request,
            result.driver,
            result.pool,
            result.device,
            bool(result.admin_access),
            dict(result.consumed_capacity),
        )
        for result in allocation.devices.results
    ]
    return Allocation(devices, allocation.node_selector)


def _with_preemption(
    decision: Decision, plain: Plain, evaluation: Evaluation, unfit: Unfit, rng: Rng
) -> Steps[Explanation]:
    """Adds the results of PostFilter for a pod that fits nowhere."""
    result, message = unfit.post_filtered, unfit.message
    if result is None:
        return Explanation(msgspec.structs.replace(decision, message=message), unfit)
    if result.nomination is None:
        refused = msgspec.structs.replace(
            decision, message=message, preemption_message=result.status.message
        )
        return Explanation(refused, unfit)
    chosen_by = result.status.plugin
    ranking = yield from _preemption_ranking(plain, evaluation, result.nomination, chosen_by, rng)
    preempting = msgspec.structs.replace(decision, message=message, preemption=_preemption(ranking))
    return Explanation(preempting, unfit, ranking)


def _preemption_ranking(
    plain: Plain, evaluation: Evaluation, nomination: Nomination, chosen_by: str, rng: Rng
) -> Steps[PreemptionRanking]:
    plugin = next((p for p in plain.profile.plugins if p.name == chosen_by), None)
    if isinstance(plugin, DefaultPreemption):
        attempt = Attempt(plain.profile, plain.info, plain.snapshot, evaluation, rng)
        return (yield from preemption_ranking(attempt, plugin, nomination))
    return PreemptionRanking(chosen_by, (Candidate(nomination.node, Victims(nomination.victims)),))


def _preemption(ranking: PreemptionRanking) -> Preemption:
    costs = {
        candidate.node: Cost(
            sorted(pod.key for pod in candidate.victims.pods), candidate.victims.pdb_violations
        )
        for candidate in ranking.candidates
    }
    alternatives = [candidate.node for candidate in ranking.candidates[: ranking.ties]]
    return Preemption(alternatives[0], costs[alternatives[0]].victims, alternatives, costs)


def _verdict(status: Status) -> NodeVerdict:
    return NodeVerdict(status.code.label, status.plugin, sorted(status.reasons))


def _by_node(values: Ints, nodes: NodeView) -> dict[str, int]:
    return {nodes.name(i): value for i, value in enumerate(values.tolist())}

"""DefaultPreemption: makes room for a pod that fits nowhere, by choosing victims of lower priority.

It dry-runs the nodes that the filters rejected as Unschedulable, starting at a random one, until it
has enough candidates. Extenders may remove some of them. The pod is nominated to the candidate
whose victims cost least. The preemption actor deletes the victims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from berth.config.types import (
    MAX_INT32,
    Percentage,
    described,
)
from berth.plugin import (
    PAUSE,
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    FailedAttempt,
    Handle,
    Hint,
    Nomination,
    Plugin,
    PluginArgs,
    Pod,
    PodDisruptionBudget,
    PodInfo,
    PostFiltered,
    PostFilterPlugin,
    PreemptVictims,
    Registration,
    Resource,
    Status,
    Steps,
    UnlistedError,
    error,
    fit_error,
    read_args,
    unschedulable,
)

from ...model.latest import Latest
from ...model.pod_template import PodTemplate
from ...model.vectors import nth_true
from .. import steps
from .budgets import MOST_STEPS, Budgets, KeptBudgets
from .dry_runs import DryRuns, Search
from .lowest import LowestPriorities
from .victims import Candidate, cheapest

MAX_TEMPLATES = 16
# Steps that each attempt may take: a millisecond. Most searches need fewer.
FREE = steps.STEPS_PER_SECOND // 1000
READINGS = ""  # has the account of reading the budgets of all namespaces
TOO_MUCH = error("preemption: the search goes on in the next attempt")
UNREAD = error("preemption: the next attempt goes on reading the PodDisruptionBudgets")
NOT_HELPFUL = "Preemption is not helpful for scheduling"


class DefaultPreemptionArgs(PluginArgs, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of DefaultPreemption. `never_break_budgets` is an addition of berth: it
    excludes nodes where a budget is violated, whatever the priority of the pod.
    """

    min_candidate_nodes_percentage: Annotated[
        Percentage,
        described("How many candidates are enough, in percent of the nodes that may help."),
    ] = 10
    min_candidate_nodes_absolute: Annotated[
        int, msgspec.Meta(ge=0, le=MAX_INT32), described("And at least this many.")
    ] = 100
    never_break_budgets: Annotated[
        bool,
        described("Only in berth: never choose a victim that a PodDisruptionBudget protects."),
    ] = False

    def problems(self, gates: Mapping[str, bool]) -> Iterable[str]:
        if not self.min_candidate_nodes_percentage and not self.min_candidate_nodes_absolute:
            yield (
                "minCandidateNodesPercentage: expected more than 0, as minCandidateNodesAbsolute "
                "is 0"
            )


class DefaultPreemption(PostFilterPlugin):
    name = "DefaultPreemption"
    args_type = DefaultPreemptionArgs
    lookups = (PodDisruptionBudget,)

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        read = read_args(args, DefaultPreemptionArgs, handle.feature_gates)
        self._percentage = read.min_candidate_nodes_percentage
        self._absolute = read.min_candidate_nodes_absolute
        self._never_break_budgets = read.never_break_budgets
        self._says_where = handle.feature_gates["PreemptionPlacementMessage"]
        self._dry_runs: Latest[PodTemplate, DryRuns] = Latest(MAX_TEMPLATES)
        self._lowest = LowestPriorities()
        self._kept_budgets = KeptBudgets()
        self._budget = steps.StepBudget(handle.now, FREE, by_clock=True)
        self._readings = steps.StepBudget(handle.now, FREE, by_clock=True)

    def post_filter(self, attempt: FailedAttempt) -> Steps[PostFiltered]:
        """Returns a nomination, or the reason why there is none. Raises PluginError."""
        self.handle.measures.preemption_attempted()
        problem = ineligible(attempt)
        if problem:
            return PostFiltered(unschedulable(f"preemption: {problem}"))
        limits = self._kept_budgets.budgets
        if not self._kept_budgets.are_current(attempt.snapshot):
            left = self._readings.attempt(READINGS, MOST_STEPS)
            read = yield from self._budgets(attempt, left)
            if read is None:
                return PostFiltered(UNREAD, again=True)
            limits = read
        potential = attempt.helped
        number = int(np.count_nonzero(potential))
        start = enough = 0
        if number:
            start = nth_true(potential, attempt.rng.randrange(number))
            enough = min(max(number * self._percentage // 100, self._absolute), number)
        dry_runs = self._kept(attempt.info.template)
        namespace = attempt.info.pod.metadata.namespace
        left = self._budget.attempt(namespace, steps.STEPS_PER_SECOND)
        search = yield from self._search(attempt, dry_runs, start, enough, limits, left)
        # Not if a plugin failed: incomplete results are never kept.
        if number:
            self._keep(attempt.info.template, dry_runs)
        if not len(search.candidates):
            if search.early:
                return PostFiltered(TOO_MUCH, again=True)
            if search.failure:
                failed = Status(Code.ERROR, (f"preemption: {search.failure}",))
                return PostFiltered(failed, again=True)  # no event tells of its end
            return PostFiltered(
                unschedulable(f"preemption: {_refusal(attempt, search)}"),
                denominate=True,
                rejected_by=frozenset(status.plugin for status in search.refused) - {""},
            )
        if attempt.extended:
            best = yield from _left_by_extenders(attempt, dry_runs.in_order(search.candidates))
        else:
            best = dry_runs.candidate(int(dry_runs.cheapest(search.candidates)[0]))
        if isinstance(best, Status):
            return PostFiltered(best)
        nominated = attempt.snapshot.nominations.on(best.node)
        displaced = tuple(info for info in nominated if info.priority < attempt.info.priority)
        status = _made_room(best) if self._says_where else SUCCESS
        return PostFiltered(status, Nomination(best.node, best.victims.pods, displaced))

    def _kept(self, template: PodTemplate) -> DryRuns:
        """Takes out the dry runs of a template, or makes new ones."""
        kept: DryRuns | None = template.derived.pop(self, None)
        return kept or self._dry_runs.pop(template, None) or DryRuns()

    def _keep(self, template: PodTemplate, dry_runs: DryRuns) -> None:
        """Keeps the dry runs of a template; those of a heavy one are kept with it, as long as it
        has pods.
        """
        if template.is_heavy:
            template.derived[self] = dry_runs
        else:
            self._dry_runs.put(template, dry_runs)

    def events_to_register(self) -> Sequence[Registration]:
        """Returns no events: the plugins that rejected a pod wake it, and those that refused a node
        to it in a dry run.
        """
        return (
            Registration(
                ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE),
                lambda _pod, _old, _new: Hint.SKIP,
            ),
        )

    def candidates(self, attempt: FailedAttempt) -> Steps[list[Candidate]]:
        """Returns all candidates; the candidates that violate no budget come first. Raises
        PluginError.
        """
        dry_runs = DryRuns()
        nodes = len(attempt.snapshot)
        limits = yield from self._budgets(attempt, steps.NO_LIMIT)
        assert limits is not None
        search = yield from self._search(attempt, dry_runs, 0, nodes, limits, steps.NO_LIMIT)
        return dry_runs.in_order(search.candidates)

    def _budgets(self, attempt: FailedAttempt, left: steps.Steps) -> Steps[Budgets | None]:
        """Returns the budgets after the changed ones are read; None if the steps run out before.

        Raises UnlistedError if budgets are unknown, and one might protect a possible victim.
        """
        try:
            for taken in self._kept_budgets.follow(attempt.snapshot):
                if left.take(taken) and not self._kept_budgets.complete:
                    return None
                if taken:
                    yield PAUSE
        except UnlistedError:
            columns = attempt.snapshot.columns
            infos = (columns.infos[row] for row in columns.order[attempt.helped].tolist())
            pods = (pod for info in infos if info is not None for pod in info.pods.values())
            if any(pod.priority < attempt.info.priority for pod in pods):
                raise
            return Budgets()
        return self._kept_budgets.budgets

    def _search(
        self,
        attempt: FailedAttempt,
        dry_runs: DryRuns,
        start: int,
        enough: int,
        limits: Budgets,
        left: steps.Steps,
    ) -> Steps[Search]:
        return dry_runs.search(
            attempt,
            start,
            enough,
            limits,
            self._lowest,
            left,
            sound_only=self._never_break_budgets,
        )


def _left_by_extenders(
    attempt: FailedAttempt, candidates: Sequence[Candidate]
) -> Steps[Candidate | Status]:
    """Returns the cheapest candidate that the extenders keep, or the reason why there is none."""
    answer = yield PreemptVictims(attempt.snapshot, {c.node: c.victims for c in candidates})
    if isinstance(answer, Status):
        return Status(Code.ERROR, (f"preemption: {answer.message}",))
    assert isinstance(answer, dict)
    by_node = {candidate.node: candidate for candidate in candidates}
    left = []
    for node, victims in answer.items():
        candidate = by_node.get(node)  # None if they name a node that was not a candidate
        if candidate is None or victims is not candidate.victims:
            candidate = Candidate(node, victims)
        left.append(candidate)
    best = cheapest(left)
    return best[0] if best else unschedulable("preemption: no candidate node for preemption")


def _made_room(chosen: Candidate) -> Status:
    text = (
        f"preemption: found a potential placement for pod on node {chosen.node}, preempting "
        f"{len(chosen.victims.pods)} victims"
    )
    return Status(Code.SUCCESS, (text,))


def _refusal(attempt: FailedAttempt, search: Search) -> str:
    """Returns `0/N nodes are available: ...`, with the number of nodes for each reason."""
    nodes = len(attempt.snapshot)
    counts: Counter[str] = Counter()
    for status, number in search.refused.items():
        for reason in status.reasons:
            counts[reason] += number
    others = nodes - search.refused.total()
    if others > 0:
        counts[NOT_HELPFUL] += others
    return fit_error(nodes, counts)


def ineligible(attempt: FailedAttempt) -> str:
    """Returns the reason why the pod may not preempt others now, or ""."""
    pod, snapshot = attempt.info.pod, attempt.snapshot
    if pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    nominated = snapshot.nominations.node_of(attempt.info.key)
    row = snapshot.columns.row_of.get(nominated)
    if (
        row is None
        or attempt.codes[snapshot.columns.position[row]] == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    ):
        return ""
    node = snapshot.columns.infos[row]
    others: Sequence[PodInfo] = tuple(node.pods.values()) if node is not None else ()
    if any(
        other.priority < attempt.info.priority and _is_being_preempted(other.pod)
        for other in others
    ):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def _is_being_preempted(pod: Pod) -> bool:
    """True if the pod is terminating because a scheduler preempted it."""
    if pod.metadata.deletion_timestamp is None:
        return False
    condition = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return condition is not None and (condition.status, condition.reason) == (
        "True",
        "PreemptionByScheduler",
    )

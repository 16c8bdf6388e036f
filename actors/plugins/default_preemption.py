"""DefaultPreemption: makes room for a pod that fits nowhere by choosing pods of lower priority that have to go.

Only nodes that the filters called Unschedulable are looked at, from a random one on, until enough candidates are found;
extenders may take some away; the one that costs least is promised to the pod. Deleting the victims is not done here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from actors.framework.events import Action, ClusterEvent, Hint, Registration, Resource
from actors.framework.extender import PreemptVictims, Steps, Victims
from actors.framework.interface import ArgsError, Handle, Plugin, PostFilterPlugin, read_args
from actors.framework.post_filter import FailedAttempt, Nomination, PostFiltered
from actors.framework.preemption import Candidate, DryRuns, budgets, cheapest
from actors.framework.status import SUCCESS, Code, Status, unschedulable
from actors.framework.verdicts import fit_error
from actors.kube.core import Pod
from actors.kube.policy import PodDisruptionBudget
from actors.model.pod_info import PodInfo
from actors.model.pod_template import PodTemplate

NOT_HELPFUL = "Preemption is not helpful for scheduling"
BUDGET_BROKEN = unschedulable("preemption would break a PodDisruptionBudget")


class DefaultPreemptionArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """`never_break_budgets` is berth's own: no node is chosen where a budget would be broken, whatever the priority."""

    api_version: str = ""
    kind: str = "DefaultPreemptionArgs"
    min_candidate_nodes_percentage: int | None = None
    min_candidate_nodes_absolute: int | None = None
    never_break_budgets: bool = False


class Considered(msgspec.Struct, frozen=True):
    """What a dry run found: who could make room, and by row why the others could not."""

    candidates: list[Candidate]
    refused: dict[int, Status]


class DefaultPreemption(PostFilterPlugin):
    name = "DefaultPreemption"

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        read = read_args(args, DefaultPreemptionArgs)
        percentage, absolute = read.min_candidate_nodes_percentage, read.min_candidate_nodes_absolute
        self._percentage = 10 if percentage is None else percentage
        self._absolute = 100 if absolute is None else absolute
        self._never_break_budgets = read.never_break_budgets
        self._dry_runs: WeakKeyDictionary[PodTemplate, DryRuns] = WeakKeyDictionary()
        if not 0 <= self._percentage <= 100:
            raise ArgsError(f"minCandidateNodesPercentage: expected 0 to 100, got {self._percentage}")
        if self._absolute < 0:
            raise ArgsError(f"minCandidateNodesAbsolute: expected 0 or more, got {self._absolute}")
        if not self._percentage and not self._absolute:
            raise ArgsError("minCandidateNodesPercentage: expected more than 0, as minCandidateNodesAbsolute is 0")

    def post_filter(self, attempt: FailedAttempt) -> Steps[PostFiltered]:
        """A nomination, or why there is none. Raises PluginError."""
        problem = ineligible(attempt)
        if problem:
            return PostFiltered(unschedulable(f"preemption: {problem}"))
        potential = attempt.potential
        enough = 0
        if len(potential):
            potential = np.roll(potential, -attempt.rng.randrange(len(potential)))
            enough = min(max(len(potential) * self._percentage // 100, self._absolute), len(potential))
        considered = self.consider(attempt, potential.tolist(), enough)
        candidates = considered.candidates
        if not candidates:
            failed = next((status for status in considered.refused.values() if status.code is Code.ERROR), None)
            if failed is not None:
                return PostFiltered(Status(Code.ERROR, (f"preemption: {failed.message}",)))
            return PostFiltered(unschedulable(f"preemption: {self.refusal(attempt, considered)}"), denominate=True)
        answer = yield PreemptVictims(attempt.snapshot, {c.node: c.victims for c in candidates})
        if isinstance(answer, Status):
            return PostFiltered(Status(Code.ERROR, (f"preemption: {answer.message}",)))
        assert isinstance(answer, dict)
        found = {candidate.node: candidate for candidate in candidates}
        best = cheapest([_left(found.get(node), node, victims) for node, victims in answer.items()])
        if not best:
            return PostFiltered(unschedulable("preemption: no candidate node for preemption"))
        node = best[0].node
        nominated = attempt.snapshot.nominations.on(node)
        displaced = tuple(info for info in nominated if info.priority < attempt.info.priority)
        return PostFiltered(SUCCESS, Nomination(node, best[0].victims.pods, displaced))

    def events_to_register(self) -> Sequence[Registration]:
        """Pods that are held back wake by what the plugins that rejected them wait for, never by this one."""
        return (Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), lambda _pod, _old, _new: Hint.SKIP),)

    def consider(self, attempt: FailedAttempt, rows: Sequence[int], enough: int) -> Considered:
        """Dry run preemption on these rows until there are enough candidates, one of them without a broken budget."""
        limits = budgets(attempt.snapshot.objects.every(PodDisruptionBudget))
        considered = Considered([], {})
        sound = 0
        dry_runs = self._dry_runs.setdefault(attempt.info.template, DryRuns())
        for row, outcome in zip(rows, dry_runs.run(attempt, rows, limits), strict=False):
            if isinstance(outcome, Status):
                considered.refused[row] = outcome
                continue
            if self._never_break_budgets and outcome.victims.pdb_violations:
                considered.refused[row] = BUDGET_BROKEN
                continue
            considered.candidates.append(outcome)
            sound += not outcome.victims.pdb_violations
            if sound and len(considered.candidates) >= enough:
                break
        # Those that break no budget come first, for extenders as for ties.
        considered.candidates.sort(key=lambda candidate: candidate.victims.pdb_violations > 0)
        return considered

    def refusal(self, attempt: FailedAttempt, considered: Considered) -> str:
        """`0/N nodes are available: ...`, counting why preemption helps nowhere."""
        nodes = len(attempt.snapshot)
        counts = Counter(reason for status in considered.refused.values() for reason in status.reasons)
        if nodes > len(considered.refused):
            counts[NOT_HELPFUL] += nodes - len(considered.refused)
        return fit_error(nodes, counts)


def _left(candidate: Candidate | None, node: str, victims: Victims) -> Candidate:
    """The candidate as extenders leave it; they may name a node that was none."""
    return candidate if candidate is not None and victims is candidate.victims else Candidate(node, victims)


def ineligible(attempt: FailedAttempt) -> str:
    """Why the pod may not preempt others now, or ""."""
    pod, snapshot = attempt.info.pod, attempt.snapshot
    if pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    promised = snapshot.nominations.node_of(attempt.info.key) or pod.status.nominated_node_name  # maybe not written yet
    row = snapshot.columns.row_of.get(promised)
    if row is None or attempt.codes[row] == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    node = snapshot.columns.infos[row]
    others: Sequence[PodInfo] = tuple(node.pods.values()) if node is not None else ()
    if any(other.priority < attempt.info.priority and _goes_by_preemption(other.pod) for other in others):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def _goes_by_preemption(pod: Pod) -> bool:
    """True if the pod is terminating because a scheduler preempted it."""
    if pod.metadata.deletion_timestamp is None:
        return False
    condition = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return condition is not None and (condition.status, condition.reason) == ("True", "PreemptionByScheduler")

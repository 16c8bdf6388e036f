"""The ranking of the nodes for a preemption: every candidate, and why each but the first lost."""

from __future__ import annotations

import msgspec

from berth.actors.scheduling.framework.post_filter import (
    FailedAttempt,
    Nomination,
)
from berth.actors.scheduling.framework.questions import (
    PreemptVictims,
    Steps,
    Victims,
)
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.plugins.default_preemption.budgets import Budgets, violating
from berth.actors.scheduling.plugins.default_preemption.plugin import DefaultPreemption
from berth.actors.scheduling.plugins.default_preemption.victims import (
    Candidate,
    cheapest,
    importance,
)


class PreemptionRanking(msgspec.Struct, frozen=True):
    """The nodes where preemption would help, the cheapest first; the first `ties` of them cost the
    same.

    `budgets` has the names of the budgets that would be broken, by node; `left_out` are candidates
    that an extender removed. `chosen_by` is the plugin that made the nomination; only the choice of
    DefaultPreemption can be retraced.
    """

    chosen_by: str
    candidates: tuple[Candidate, ...]
    ties: int = 1
    budgets: dict[str, list[str]] = {}
    left_out: tuple[Candidate, ...] = ()

    def why_not(self, candidate: Candidate) -> str:
        """Returns the criterion by which a candidate loses to the cheapest; "" if they are
        equal.
        """
        mine, best = candidate.victims, self.candidates[0].victims
        pairs = enumerate(zip(candidate.cost, self.candidates[0].cost, strict=True))
        match next((i for i, (cost, least) in pairs if cost != least), None):
            case None:
                return ""
            case 0:
                broken = (mine.pdb_violations, best.pdb_violations)
                return f"victims against their budget: {broken[0]}, not {broken[1]}"
            case 1:
                highest = [
                    max(victim.priority for victim in victims.pods) for victims in (mine, best)
                ]
                return f"a victim of priority {highest[0]}, not {highest[1]} at most"
            case 4:
                return "its most important victim has run for longer"
            case _ if len(mine.pods) > len(best.pods):
                return f"{len(mine.pods)} victims, not {len(best.pods)}"
            case _:
                sums = [sum(victim.priority for victim in victims.pods) for victims in (mine, best)]
                return f"priorities that add up to {sums[0]}, not {sums[1]}"


def preemption_ranking(
    attempt: FailedAttempt, plugin: DefaultPreemption, nomination: Nomination
) -> Steps[PreemptionRanking]:
    """Returns every candidate that might have been nominated. Extenders are asked once more, about
    all of them.
    """
    snapshot = attempt.snapshot
    candidates = yield from plugin.candidates(attempt)
    considered = {candidate.node: candidate for candidate in candidates}
    answer = yield PreemptVictims(
        snapshot, {node: candidate.victims for node, candidate in considered.items()}
    )
    if isinstance(answer, dict) and answer:
        left = [Candidate(node, victims) for node, victims in answer.items()]
    else:  # The extenders answer differently by now.
        left = [
            considered.get(nomination.node)
            or Candidate(nomination.node, Victims(nomination.victims))
        ]
    left.sort(key=lambda candidate: (candidate.cost, candidate.node))
    nodes = {candidate.node for candidate in left}
    limits = Budgets(snapshot.objects.every(PodDisruptionBudget))
    every = [*left, *(considered[node] for node in sorted(considered.keys() - nodes))]
    return PreemptionRanking(
        plugin.name,
        tuple(left),
        len(cheapest(left)),
        {candidate.node: _violated_budgets(attempt, candidate, limits) for candidate in every},
        tuple(every[len(left) :]),
    )


def _violated_budgets(attempt: FailedAttempt, candidate: Candidate, limits: Budgets) -> list[str]:
    """Returns the names of the budgets that the eviction of the victims would violate."""
    columns = attempt.snapshot.columns
    info = columns.infos[columns.row_of[candidate.node]]
    assert info is not None, candidate.node
    lower = [pod for pod in info.pods.values() if pod.priority < attempt.info.priority]
    violated = violating(sorted(lower, key=importance), limits)
    return sorted(
        {name for victim in candidate.victims.pods for name in violated.get(victim.key, ())}
    )

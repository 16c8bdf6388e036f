"""The answer of `berth explain` about one pod for programs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from .cause import Cause
from .changes.change import Suggestion
from .changes.proof_search import ChangeSearch
from .decider import Attempt
from .decision import Decision, Failure
from .on_node import OnNode
from .pending_pods import PendingPod, WithoutPods
from .reasons.pod_causes import PodCauses, with_causes


class ExplainedPod(Decision, frozen=True, rename="camel"):
    """The decision about a pod. `causes` are its reasons, each once with the number of its nodes,
    and `codes` the number of nodes that were rejected for each code.

    `standing` says why the scheduler does not try the pod now, `on_node` what becomes of it on its
    node, and `warnings` what would go wrong there. `changes` are the changes after which a pending
    pod fits; `changes_problem` says why there may be more.
    """

    causes: list[Cause] = msgspec.field(default_factory=list)
    codes: dict[str, int] = msgspec.field(default_factory=dict)
    on_node: OnNode | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET
    standing: list[str] | UnsetType = UNSET
    changes: list[Suggestion] | UnsetType = UNSET
    changes_problem: str | UnsetType = UNSET


class FailedAttempt(Failure, frozen=True, rename="camel"):
    """An attempt that ends with an error; the other fields are those of ExplainedPod."""

    causes: list[Cause] = msgspec.field(default_factory=list)
    standing: list[str] | UnsetType = UNSET
    changes: list[Suggestion] | UnsetType = UNSET
    changes_problem: str | UnsetType = UNSET


class ExplainedPods(msgspec.Struct, frozen=True, rename="camel"):
    """The pending pods, and the workloads without pods."""

    items: list[PendingPod]
    without_pods: list[WithoutPods]


def explained_pod(
    attempt: Attempt,
    decision: Decision | Failure,
    standing: Sequence[str],
    there: OnNode | None,
    warnings: list[str],
    result: ChangeSearch | None,
) -> ExplainedPod | FailedAttempt:
    """Returns the answer with its causes."""
    causes = PodCauses(attempt, decision, devices=True)
    every = causes.of_pod(standing, there)
    held = list(standing) or UNSET
    changes = UNSET if result is None else result.suggestions
    problem = (result.problem if result is not None else "") or UNSET
    if isinstance(decision, Failure):
        return FailedAttempt(decision.error, every, held, changes, problem)
    whole = with_causes(decision, causes)
    parts = {field: getattr(whole, field) for field in Decision.__struct_fields__}
    return ExplainedPod(
        **parts,
        causes=every,
        codes=causes.codes,
        on_node=UNSET if there is None else there,
        warnings=warnings or UNSET,
        standing=held,
        changes=changes,
        changes_problem=problem,
    )

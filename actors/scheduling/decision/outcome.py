"""The outcome of a decision."""

from __future__ import annotations

import msgspec

from ..framework.cycle_state import CycleState
from ..framework.post_filter import Nomination, PostFiltered
from ..framework.status import Status


class Choice(msgspec.Struct, frozen=True):
    """The node for the pod, and the CycleState of the attempt.

    `evaluated` is the number of nodes looked at, `feasible` of them were compared.
    """

    node: str
    state: CycleState
    evaluated: int
    feasible: int


class Unfit(msgspec.Struct, frozen=True):
    """The outcome when no node fits; `message` says why, including the part of PostFilter.

    `rejected_by` are the plugins whose events may help. For some of them, the `pending` ones, the
    pod skips its backoff when their event happens. `post_filtered` is PostFilter's answer, None if
    there is no PostFilter plugin.
    """

    message: str
    rejected_by: frozenset[str]
    pending: frozenset[str] = frozenset()
    post_filtered: PostFiltered | None = None

    @property
    def nomination(self) -> Nomination | None:
        return None if self.post_filtered is None else self.post_filtered.nomination


class DecisionFailure(msgspec.Struct, frozen=True):
    """The outcome of an attempt that ended with an error, not with verdicts on the nodes."""

    status: Status


Outcome = Choice | Unfit | DecisionFailure

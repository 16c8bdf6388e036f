"""PostFilter: what a plugin is told about an attempt that found no node, and what it may make of it."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from actors.framework.answers import as_status, expected
from actors.framework.cycle_state import CycleState
from actors.framework.feasibility import Evaluation, filter_nodes
from actors.framework.rules import Rules
from actors.framework.status import Code, Status
from actors.framework.verdicts import Diagnosis
from actors.model.pod_info import PodInfo
from actors.model.snapshot import Snapshot
from actors.model.vectors import Bools, Ints


class Rng(Protocol):
    def randrange(self, stop: int, /) -> int: ...


class Nomination(msgspec.Struct, frozen=True):
    """The node that is promised to a pod once the victims are gone; `displaced` pods are not promised it any more."""

    node: str
    victims: tuple[PodInfo, ...] = ()
    displaced: tuple[PodInfo, ...] = ()


class PostFiltered(msgspec.Struct, frozen=True):
    """Success comes with a nomination; otherwise `denominate` says that an earlier one is to be given up."""

    status: Status
    nomination: Nomination | None = None
    denominate: bool = False


_UNSCHEDULABLE, _UNRESOLVABLE = np.int8(Code.UNSCHEDULABLE), np.int8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


class FailedAttempt:
    """An attempt at a pod that found no node; `codes` int8 says in the node tree's order why not.

    Nodes that PreFilter left out count as unresolvable. `extended` if there may be extenders that have a say.
    """

    def __init__(
        self,
        rules: Rules,
        state: CycleState,
        info: PodInfo,
        snapshot: Snapshot,
        evaluation: Evaluation,
        rng: Rng,
        *,
        extended: bool = True,
    ) -> None:
        self.rules = rules
        self.state = state
        self.info = info
        self.snapshot = snapshot
        self.rng = rng
        self.extended = extended
        self._evaluation = evaluation

    @cached_property
    def codes(self) -> NDArray[np.int8]:
        columns, diagnosis = self.snapshot.columns, self._evaluation.diagnosis
        if diagnosis is None:
            return np.full(len(columns.order), self._evaluation.prefilter.status.code, dtype=np.int8)
        rows = diagnosis.view.rows
        if rows is columns.order:
            return diagnosis.codes
        by_row = np.full(columns.size, _UNRESOLVABLE)
        by_row[rows] = diagnosis.codes
        return by_row[columns.order]

    @property
    def helped(self) -> Bools:
        """Where, in the node tree's order, the pod might be let in if pods went away."""
        return np.asarray(self.codes == _UNSCHEDULABLE)

    @property
    def potential(self) -> Ints:
        """The rows of these nodes."""
        return np.asarray(self.snapshot.columns.order[self.helped])

    def supposed(self, rows: Ints) -> Diagnosis:
        """What the filters say of some rows while something is supposed. Raises PluginError."""
        state = self.rules.supposed_state(self.state, self.info, self.snapshot)
        return filter_nodes(self.rules, state, self.info, self.snapshot.rows(rows))


def as_post_filtered(answer: object, attempt: FailedAttempt) -> PostFiltered:
    """What a PostFilter plugin answered about an attempt. Raises WrongAnswerError if it is no answer."""
    if not isinstance(answer, PostFiltered):
        raise expected("PostFiltered", answer)
    as_status(answer.status)
    nomination: object = answer.nomination
    if nomination is None:
        return answer
    if not isinstance(nomination, Nomination):
        raise expected("a Nomination, or None", nomination)
    node: object = nomination.node
    if not isinstance(node, str) or node not in attempt.snapshot.columns.row_of:
        raise expected("a nomination to a node of the cluster", node)
    for name, pods in (("victims", nomination.victims), ("displaced", nomination.displaced)):
        if not isinstance(pods, tuple) or not all(isinstance(pod, PodInfo) for pod in pods):
            raise expected(f"{name} as a tuple of PodInfo", pods)
    return answer

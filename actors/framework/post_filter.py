"""PostFilter: what a plugin is told about an attempt that found no node, and what it may make of it."""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from actors.framework.cycle_state import CycleState
from actors.framework.feasibility import Evaluation, filter_nodes
from actors.framework.rules import Rules
from actors.framework.status import Code, Status
from actors.framework.verdicts import Diagnosis
from actors.model.pod_info import PodInfo
from actors.model.snapshot import Snapshot
from actors.model.vectors import Ints


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
    """An attempt at a pod that found no node; `codes` int8 says by row why not: what the filters answered.

    Rows that are no node, or that PreFilter left out, count as unresolvable.
    """

    def __init__(
        self, rules: Rules, state: CycleState, info: PodInfo, snapshot: Snapshot, evaluation: Evaluation, rng: Rng
    ) -> None:
        self.rules = rules
        self.state = state
        self.info = info
        self.snapshot = snapshot
        self.rng = rng
        columns, diagnosis = snapshot.columns, evaluation.diagnosis
        self.codes: NDArray[np.int8] = np.full(columns.size, _UNRESOLVABLE)
        if diagnosis is None or evaluation.live is None:
            self.codes[columns.order] = evaluation.prefilter.status.code
        else:
            told = np.where(evaluation.live, diagnosis.codes, _UNRESOLVABLE)
            self.codes[diagnosis.view.rows] = told

    @property
    def potential(self) -> Ints:
        """The rows, in the node tree's order, that might let the pod in if pods went away from them."""
        order = self.snapshot.columns.order
        return np.asarray(order[self.codes[order] == _UNSCHEDULABLE])

    def supposed(self, rows: Ints) -> Diagnosis:
        """What the filters say of some rows while something is supposed. Raises PluginError."""
        state = self.rules.supposed_state(self.state, self.info, self.snapshot)
        return filter_nodes(self.rules, state, self.info, self.snapshot.rows(rows))

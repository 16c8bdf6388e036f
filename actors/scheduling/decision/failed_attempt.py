"""A failed attempt, in the form that PostFilter plugins see."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..framework.post_filter import FailedAttempt, Rng
from ..framework.status import Code
from ..framework.verdicts import Diagnosis
from ..model.pod_info import PodInfo
from ..model.snapshot import Snapshot
from ..model.vectors import Ints
from .evaluation import Evaluation
from .rules import Rules

_UNRESOLVABLE = np.int8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


class Attempt(FailedAttempt):
    """An attempt whose evaluation left no node."""

    def __init__(
        self,
        rules: Rules,
        info: PodInfo,
        snapshot: Snapshot,
        evaluation: Evaluation,
        rng: Rng,
        *,
        extended: bool = True,
    ) -> None:
        self.state = evaluation.state
        self.info = info
        self.snapshot = snapshot
        self.rng = rng
        self.extended = extended
        self._rules = rules
        self._evaluation = evaluation

    @cached_property
    def codes(self) -> NDArray[np.int8]:
        columns, diagnosis = self.snapshot.columns, self._evaluation.diagnosis
        if diagnosis is None:
            return np.full(
                len(columns.order), self._evaluation.prefilter.status.code, dtype=np.int8
            )
        rows = diagnosis.view.rows
        if rows is columns.order:
            return diagnosis.codes
        by_row = np.full(columns.size, _UNRESOLVABLE)
        by_row[rows] = diagnosis.codes
        return by_row[columns.order]

    @property
    def row_by_row(self) -> bool:
        return self._rules.filters_row_by_row(self.state)

    @property
    def versions(self) -> tuple[int, ...] | None:
        return self._rules.versions(self.state, self.snapshot.objects)

    def supposed(self, rows: Ints) -> Diagnosis:
        state = self._rules.supposed_state(self.state, self.info, self.snapshot)
        return self._rules.diagnose(state, self.info, self.snapshot.rows(rows))

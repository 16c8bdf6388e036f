"""A failed attempt, as PostFilter plugins see it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..framework.post_filter import FailedAttempt, Rng
from ..framework.status import Code, Status
from ..framework.verdicts import Diagnosis
from ..model.cluster_objects import UnlistedError
from ..model.derived import derived_once
from ..model.pod_info import PodInfo
from ..model.pod_template import PodTemplate
from ..model.read_only_arrays import frozen, read_only
from ..model.snapshot import Snapshot
from ..model.vectors import Ints
from .evaluation import Evaluation
from .failures import PluginError
from .rules import Rules

_UNRESOLVABLE = np.int8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
# The rows of a what-if question that are found to fail one by one. After that, rows that are judged
# together with a failing one count as failing too: the other pods wait for the decision.
MOST_FAILURES = 64


class Attempt(FailedAttempt):
    """An attempt that found no node, with its evaluation."""

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
        self._failures = 0

    @derived_once
    def codes(self) -> NDArray[np.int8]:
        columns, diagnosis = self.snapshot.columns, self._evaluation.diagnosis
        if diagnosis is None:
            code = self._evaluation.prefilter.status.code
            return frozen(np.full(len(columns.order), code, dtype=np.int8))
        rows = diagnosis.view.rows
        if rows is columns.order:
            return read_only(diagnosis.codes)
        by_row = np.full(columns.size, _UNRESOLVABLE)
        by_row[rows] = diagnosis.codes
        return frozen(by_row[columns.order])

    @property
    def row_by_row(self) -> bool:
        return self._rules.filters_row_by_row(self.state)

    @derived_once
    def seen_by(self) -> PodTemplate | None:
        return self._rules.seen_by(self.state, self.info)

    @property
    def versions(self) -> tuple[int, ...] | None:
        return self._rules.versions(self.state, self.snapshot.objects)

    def supposed(self, rows: Ints) -> Diagnosis:
        try:
            state = self._rules.supposed_state(self.state, self.info, self.snapshot)
            return self._rules.diagnose(state, self.info, self.snapshot.rows(rows))
        except PluginError as failure:
            if isinstance(failure.__cause__, UnlistedError):
                raise
            return self._diagnose_failing(rows, failure.status)

    def _diagnose_failing(self, rows: Ints, failure: Status) -> Diagnosis:
        """Returns the diagnosis of rows of which at least one fails. They are halved until each
        failure is at a single row.
        """
        diagnosis = Diagnosis(self.snapshot.rows(rows))
        self._failures += len(rows) == 1
        if len(rows) == 1 or self._failures >= MOST_FAILURES:
            for position in range(len(rows)):
                diagnosis.put(position, failure)
            return diagnosis
        middle = len(rows) // 2
        for start, half in ((0, rows[:middle]), (middle, rows[middle:])):
            of_half = self.supposed(half)
            for position in range(len(half)):
                diagnosis.put(start + position, of_half.status(position))
        return diagnosis

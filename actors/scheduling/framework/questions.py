"""The questions of a decision to extenders, as values. A decision yields a question and receives
the answer; it may also yield a pause.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TypeVar

import msgspec
import numpy as np

from ..model.pod_info import PodInfo
from ..model.snapshot import NodeView, Snapshot
from ..model.vectors import Ints
from .status import Status
from .verdicts import Diagnosis, Verdicts

EXTENDER = "Extender"  # takes the place of a plugin's name where an extender rejected nodes
T = TypeVar("T")


class FilterNodes(msgspec.Struct, frozen=True):
    """Asks which of these nodes extenders leave. The answer is FilteredNodes, or a failed
    Status.
    """

    nodes: NodeView


class PrioritizeNodes(msgspec.Struct, frozen=True):
    """Asks for the extenders' scores. The answer is int64 for each position, added to the
    totals.
    """

    nodes: NodeView


class Victims(msgspec.Struct, frozen=True):
    """The pods to delete from a node, and how many disruption budgets that would break."""

    pods: tuple[PodInfo, ...]
    pdb_violations: int = 0


class PreemptVictims(msgspec.Struct, frozen=True):
    """Asks which candidates (node -> victims) extenders leave. The answer is the remaining
    candidates, or a Status.
    """

    snapshot: Snapshot
    candidates: dict[str, Victims]


class Pause(msgspec.Struct, frozen=True):
    """No question: a long search lets the other tasks of the process have a turn. There is no
    answer.
    """


PAUSE = Pause()
Question = FilterNodes | PrioritizeNodes | PreemptVictims | Pause


class FilteredNodes(msgspec.Struct, frozen=True):
    """The rows that every extender left, in their order, and for each other row the reason."""

    rows: Ints
    rejected: Mapping[int, Status]

    def added_to(self, diagnosis: Diagnosis) -> Diagnosis:
        """Returns a copy of the plugins' diagnosis with the extenders' rejections added."""
        merged = diagnosis.copy()
        if not self.rejected:
            return merged
        view = diagnosis.view
        where = view.positions(np.fromiter(self.rejected, dtype=np.int64))
        statuses = list(self.rejected.values())
        codes, keys = np.zeros(view.size, dtype=np.int8), np.zeros(view.size, dtype=np.int64)
        codes[where] = [status.code for status in statuses]
        keys[where] = np.arange(len(statuses))
        merged.add(EXTENDER, Verdicts(codes, keys, lambda key: statuses[key].reasons))
        return merged


# The answer to FilterNodes is FilteredNodes or a Status, to PrioritizeNodes Ints, to
# PreemptVictims a mapping or a Status.
Answer = FilteredNodes | Ints | dict[str, Victims] | Status
Steps = Generator[Question, Answer, T]


def run_without_extenders(steps: Steps[T]) -> T:
    """Runs a decision to its end without extenders, which leave all candidates of preemption. Any
    other question is a bug.
    """
    answer: Answer | None = None
    while True:
        try:
            question = next(steps) if answer is None else steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        if question is PAUSE:
            answer = None
            continue
        assert isinstance(question, PreemptVictims), question
        answer = question.candidates

"""The evaluation of a pod: the answers of PreFilter and of the filters about every node."""

from __future__ import annotations

import msgspec
import numpy as np

from ..framework.cycle_state import CycleState
from ..framework.questions import FilteredNodes
from ..framework.status import fit_error
from ..framework.verdicts import Diagnosis
from ..model.vectors import Bools
from .rules import PreFilterOutcome


class Evaluation(msgspec.Struct, frozen=True):
    """The answers of PreFilter and the filters about a pod, and the CycleState after them.

    `diagnosis` covers a view of nodes, `live` marks the positions of the view that are nodes. Both
    are None if PreFilter rejected the pod for all nodes.
    """

    state: CycleState
    prefilter: PreFilterOutcome
    diagnosis: Diagnosis | None = None
    live: Bools | None = None

    def besides(self, filtered: FilteredNodes) -> Evaluation:
        """Returns this evaluation, extended by the nodes that extenders rejected."""
        assert self.diagnosis is not None
        return msgspec.structs.replace(self, diagnosis=filtered.added_to(self.diagnosis))

    def message(self, nodes: int) -> str:
        """Returns why none of all `nodes` is left: `0/N nodes are available: ...`."""
        if self.diagnosis is None or self.live is None:
            message = self.prefilter.status.message
            return f"0/{nodes} nodes are available: {message}." if message else fit_error(nodes, ())
        counts = self.diagnosis.reasons(self.live)
        outside = nodes - int(np.count_nonzero(self.live))
        if outside:
            counts[self.prefilter.reason_outside] += outside
        return fit_error(nodes, counts)

    def rejected_by(self) -> frozenset[str]:
        """Returns the plugins that rejected the pod or restricted it to some nodes."""
        restricted_by = frozenset(self.prefilter.restricted_by)
        if self.diagnosis is None or self.live is None:
            return (restricted_by | {self.prefilter.status.plugin}) - {""}
        return restricted_by | self.diagnosis.rejecting_plugins(self.live)

    def pending(self) -> frozenset[str]:
        """Returns the rejecting plugins that only wait for something to happen."""
        if self.diagnosis is None or self.live is None:
            return frozenset()
        return self.diagnosis.pending_plugins(self.live)

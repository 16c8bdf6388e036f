"""The scheduler: decides on pod after pod, with what it remembers of those before."""

from __future__ import annotations

from collections.abc import Sequence

from berth.config.types import Extender

from ..framework.measuring import FAILED, FILTER, NO_RECALL, PRE_FILTER, RECALL, UNMEASURED, Record
from ..framework.post_filter import Rng
from ..framework.questions import Steps, unasked
from ..model.pod_info import PodInfo
from ..model.snapshot import Snapshot
from .algorithm import Failed, Outcome, Unfit, schedule_pod
from .candidates import Candidates
from .failures import PluginError
from .plain import Plain
from .profile import Profile
from .recall.recall import Recall
from .sampling import Sampling
from .witness import Witness, Witnessed

NO_NODES = "no nodes available to schedule pods"


class Scheduler:
    def __init__(
        self,
        rng: Rng,
        percentage_of_nodes_to_score: int = 0,
        extenders: Sequence[Extender] = (),
        *,
        remembers: bool = True,
        witness: Witness | None = None,
    ) -> None:
        """`extenders` are all that are configured, whichever pods they are interested in. Without
        `remembers`, every pod is decided on its own, as it is for a witness that wants scores.
        """
        self._witness = witness
        self._rng = rng
        self._sampling = Sampling(percentage_of_nodes_to_score, extenders)
        self._recall = Recall()
        self._remembers = remembers and not (witness is not None and witness.wants_scores())

    def schedule(
        self,
        profile: Profile,
        info: PodInfo,
        snapshot: Snapshot,
        record: Record = UNMEASURED,
    ) -> Outcome:
        """Choose a node for the pod, with no extender to ask."""
        return unasked(self.steps(profile, info, snapshot, record, extended=False))

    def steps(
        self,
        profile: Profile,
        info: PodInfo,
        snapshot: Snapshot,
        record: Record = UNMEASURED,
        *,
        extended: bool,
    ) -> Steps[Outcome]:
        """Choose a node for the pod; `extended` if there are extenders to ask."""
        if not len(snapshot):
            return Unfit(NO_NODES, frozenset())
        start = self._sampling.start
        marks, began = record.marks, record.now()
        remembered = None
        if self._remembers:
            remembered = self._recall.candidates(profile, info, snapshot, record)
            if remembered is None:
                marks += (NO_RECALL, began)
        if remembered is not None:
            marks += (RECALL, began, FILTER, record.now())
            try:
                seen = self._shown(remembered)
                return (yield from schedule_pod(seen, self._sampling, self._rng, extended=extended))
            except PluginError:
                # Recall asks more than this decision needs, and its memory is incomplete now. The
                # plain candidates may still succeed.
                self._recall.drop(info.template)
                self._sampling.start = start
                record.dropped()
        marks += (PRE_FILTER, record.now())
        try:
            plain = self._shown(Plain(profile, info, snapshot, record))
            return (yield from schedule_pod(plain, self._sampling, self._rng, extended=extended))
        except PluginError as failure:
            marks += (FAILED, record.now())
            return Failed(failure.status)

    def _shown(self, candidates: Candidates) -> Candidates:
        return candidates if self._witness is None else Witnessed(candidates, self._witness)

"""The scheduler: decides on pod after pod, with a memory of previous pods."""

from __future__ import annotations

from collections.abc import Sequence

from berth.config.types import Extender

from ..framework.measuring import PRE_FILTER, RECALL, UNMEASURED, Record
from ..framework.post_filter import Rng
from ..framework.questions import Steps, unasked
from ..framework.status import Code
from ..model.pod_info import PodInfo
from ..model.snapshot import Snapshot
from .algorithm import schedule_pod
from .candidates import Candidates
from .failures import PluginError
from .observer import DecisionObserver
from .outcome import Failed, Outcome, Unfit
from .plain import Plain
from .profile import Profile
from .recall.memory import NotReusableError
from .recall.recall import Recall, recalled
from .sampling import Sampling

NO_NODES = "no nodes available to schedule pods"


class Scheduler:
    def __init__(
        self,
        rng: Rng,
        percentage_of_nodes_to_score: int = 0,
        extenders: Sequence[Extender] = (),
        *,
        remembers: bool = True,
        observer: DecisionObserver | None = None,
    ) -> None:
        """Takes all configured `extenders`, whichever pods they are interested in. Without
        `remembers`, or with an observer that wants scores, there is no memory.
        """
        self._observer = observer
        self._rng = rng
        self._sampling = Sampling(percentage_of_nodes_to_score, extenders)
        self._recall = Recall()
        self._remembers = remembers and not (observer is not None and observer.wants_scores)

    def schedule(
        self,
        profile: Profile,
        info: PodInfo,
        snapshot: Snapshot,
        record: Record = UNMEASURED,
    ) -> Outcome:
        """Chooses a node for the pod, with no extender to ask."""
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
        """Chooses a node for the pod; `extended` if there are extenders to ask."""
        observer = self._observer
        if observer is not None:
            observer.deciding(profile, info, snapshot, self._sampling.start, extended=extended)
        outcome = yield from self._decide(profile, info, snapshot, record, extended)
        if observer is not None:
            observer.decided(info, outcome)
        return outcome

    def _decide(
        self,
        profile: Profile,
        info: PodInfo,
        snapshot: Snapshot,
        record: Record,
        extended: bool,
    ) -> Steps[Outcome]:
        if not len(snapshot):
            return Unfit(NO_NODES, frozenset())
        start = self._sampling.start
        remembered = None
        if self._remembers:
            record.enter(RECALL)
            remembered = self._remembered(profile, info, snapshot, record)
        if remembered is not None:
            try:
                return (
                    yield from schedule_pod(
                        remembered, self._sampling, self._rng, self._observer, extended=extended
                    )
                )
            except PluginError:
                # Recall asks more than this decision needs, and now its memory is incomplete. The
                # plain candidates may still succeed.
                self._recall.drop(info.template)
                self._sampling.start = start
                record.dropped()
        record.enter(PRE_FILTER)
        try:
            plain = Plain(profile, info, snapshot, record)
            return (
                yield from schedule_pod(
                    plain, self._sampling, self._rng, self._observer, extended=extended
                )
            )
        except PluginError as failure:
            record.leave(Code.ERROR)
            return Failed(failure.status)

    def _remembered(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, record: Record
    ) -> Candidates | None:
        """Returns candidates for the pod from the memory of its template."""
        try:
            memory = self._recall.memory(profile, info, snapshot)
        except NotReusableError:
            record.not_kept()
            memory = None
        candidates = None
        if memory is not None:
            if memory.is_new:
                record.kept()
            candidates = recalled(memory, info, snapshot, record)
        if candidates is None:
            record.missed()
        return candidates

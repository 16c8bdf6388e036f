"""The scheduler: decides on pod after pod, with a memory of previous pods."""

from __future__ import annotations

from collections.abc import Sequence

from berth.config.types import Extender

from ..framework.measuring import PRE_FILTER, UNMEASURED, Record
from ..framework.post_filter import Rng
from ..framework.questions import Steps, run_without_extenders
from ..framework.status import Code
from ..model.pod_info import PodInfo
from ..model.snapshot import Snapshot
from .algorithm import schedule_pod
from .failures import PluginError
from .observer import DecisionObserver
from .outcome import DecisionFailure, Outcome, Unfit
from .plain import Plain
from .profile import Profile
from .recall.recall import Recall
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
        """Makes a scheduler. `extenders` are all that are configured, whichever pods they are
        interested in. Without `remembers`, or with an observer that wants scores, it keeps no
        memory.
        """
        self._observer = observer
        kind = DecisionObserver if observer is None else type(observer)
        self._tells_begin = kind.deciding is not DecisionObserver.deciding
        self._tells_end = kind.decided is not DecisionObserver.decided
        self._rng = rng
        self._sampling = Sampling(percentage_of_nodes_to_score, extenders)
        remembers = remembers and not (observer is not None and observer.wants_scores)
        self._recall = Recall() if remembers else None

    def schedule(
        self,
        profile: Profile,
        info: PodInfo,
        snapshot: Snapshot,
        record: Record = UNMEASURED,
    ) -> Outcome:
        """Chooses a node for the pod, with no extender to ask."""
        return run_without_extenders(self.steps(profile, info, snapshot, record, extended=False))

    def steps(
        self,
        profile: Profile,
        info: PodInfo,
        snapshot: Snapshot,
        record: Record = UNMEASURED,
        *,
        extended: bool,
    ) -> Steps[Outcome]:
        """Chooses a node for the pod. With `extended`, it asks extenders."""
        observer = self._observer
        sampling = self._sampling
        start = sampling.start
        if observer is not None and self._tells_begin:
            observer.deciding(profile, info, snapshot, start, extended=extended)
        outcome: Outcome | None = None if len(snapshot) else Unfit(NO_NODES, frozenset())
        if outcome is None:
            try:
                yield from profile.prepare(info, snapshot)
            except PluginError as failure:
                outcome = DecisionFailure(failure.status)
        if outcome is None and self._recall is not None:
            remembered = self._recall.candidates_for(profile, info, snapshot, record)
            try:
                if remembered is not None:
                    outcome = yield from schedule_pod(
                        remembered, sampling, self._rng, observer, extended=extended
                    )
            except PluginError:
                # Recall asks more than this decision needs, and now its memory is incomplete. The
                # plain candidates may still succeed.
                self._recall.drop(info.template)
                sampling.start = start
                record.dropped()
        if outcome is None:
            record.enter(PRE_FILTER)
            try:
                plain = Plain(profile, info, snapshot, record)
                outcome = yield from schedule_pod(
                    plain, sampling, self._rng, observer, extended=extended
                )
            except PluginError as failure:
                record.leave(Code.ERROR)
                outcome = DecisionFailure(failure.status)
        if observer is not None and self._tells_end:
            observer.decided(info, outcome)
        return outcome

"""The flight recorder: the latest attempts of all pods, in a bounded number of bytes.

An attempt keeps names, numbers and columns, never a pod, a node or a snapshot. They are
put into words only when a page is asked for. Equal columns of consecutive attempts are kept once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..messages.queue import QueuedPod, StoryStep
from ..runtime.clock import Clock
from ..scheduling.decision.evaluation import Evaluation
from ..scheduling.decision.observer import DecisionObserver
from ..scheduling.decision.outcome import Choice, Outcome, Unfit
from ..scheduling.decision.profile import Profile
from ..scheduling.framework.questions import FilteredNodes
from ..scheduling.framework.status import Code, Status, unresolvable
from ..scheduling.kube.core import Pod, PodCondition
from ..scheduling.model.pod_info import PodInfo
from ..scheduling.model.snapshot import Snapshot
from ..scheduling.model.vectors import Ints

BEST = 5  # nodes with their scores
_LAST = (-BEST, -1)  # The last place has the highest score.
PLAIN_BYTES = 1000  # an attempt without its texts and columns, generously
NAME_BYTES = 120  # a node's name with its place in the list
LONGEST_MESSAGE = 4000


class Score(msgspec.Struct, frozen=True):
    node: str
    score: int


class Rejection(msgspec.Struct, frozen=True, rename="camel"):
    """The nodes that one plugin rejected for the same reasons."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: tuple[str, ...]


class RecordedAttempt(msgspec.Struct, frozen=True, rename="camel"):
    """An attempt, for people to read. Times are in seconds of Unix time.

    `result` is placed, unschedulable, error or failed. An attempt that fails after the decision, in
    Reserve or later, is there twice: the second time it is failed, with the node, the reason as
    `message`, and the time of the failure. The same is true of a preemption that fails.

    `evaluated` nodes were looked at, `feasible` of them fit. `best` are the nodes with the highest
    scores, which are comparable within the attempt only; `tied` nodes share the highest.
    `woken_late` means that no event woke the pod, but the limit for the time that a pod is parked.
    """

    key: str
    uid: str
    resource_version: str
    number: int
    at: float
    seconds: float
    waited: float
    result: str
    woken_late: bool = False
    node: str = ""
    evaluated: int = 0
    feasible: int = 0
    best: tuple[Score, ...] = ()
    tied: int = 0
    message: str = ""
    rejections: tuple[Rejection, ...] = ()
    nominated: str = ""
    victims: tuple[str, ...] = ()


class PodNow(msgspec.Struct, frozen=True, rename="camel"):
    """A pod as the API server shows it, whichever scheduler decided about it.

    The last four fields are those of its condition PodScheduled, "" if it has none; `since` is
    written as the API server wrote it.
    """

    uid: str
    node: str
    phase: str
    scheduler: str
    nominated: str
    scheduled: str = ""
    reason: str = ""
    message: str = ""
    since: str = ""

    @classmethod
    def of(cls, pod: Pod) -> PodNow:
        spec, status = pod.spec, pod.status
        condition = next((c for c in status.conditions if c.type == "PodScheduled"), PodCondition())
        return cls(
            pod.metadata.uid,
            spec.node_name,
            status.phase,
            spec.scheduler_name,
            status.nominated_node_name,
            condition.status,
            condition.reason,
            condition.message,
            condition.last_transition_time or "",
        )


class AttemptsPage(msgspec.Struct, frozen=True):
    """The recorded attempts of a pod, oldest first, its latest moves in the queue, and the pod now,
    None if it is gone or unknown.

    `since` is the time of the oldest attempt that is kept of any pod, None if there is none.
    `started` is when this process began to record; on a page that was read from files, it equals
    `since`.
    """

    started: float
    since: float | None
    attempts: tuple[RecordedAttempt, ...]
    story: tuple[StoryStep, ...] = ()
    pod: PodNow | None = None


class Names(msgspec.Struct):
    """The names of the nodes by row, which many columns share. `users` is the number of kept
    columns that use them.
    """

    by_row: list[str]
    users: int = 0

    @property
    def size(self) -> int:
        return NAME_BYTES * len(self.by_row)


class Columns(msgspec.Struct):
    """The verdicts on all nodes, which many attempts share.

    `verdicts` are compared with those of the next attempt. `users` is the number of kept attempts
    that use the columns.
    """

    names: Names
    verdicts: Verdicts
    users: int = 0

    def rejections(self) -> tuple[Rejection, ...]:
        """Puts the verdicts into words."""
        return tuple(_rejections(self.names.by_row, self.verdicts))


class Verdicts(msgspec.Struct, frozen=True):
    """The verdicts in the form of a Diagnosis, with its arrays as bytes.

    `keys` are empty if each plugin has one key. `view` are the rows, empty for all. `outside` is
    the status of the nodes that no plugin rejected.
    """

    size: int
    message: str
    outside: Status
    plugins: tuple[str, ...] = ()
    words: dict[tuple[int, int], tuple[str, ...]] = {}
    view: bytes = b""
    by: bytes = b""
    codes: bytes = b""
    keys: bytes = b""


class KeptAttempt(msgspec.Struct, frozen=True, gc=False):
    """An attempt in the form in which it is kept. Times are monotonic seconds."""

    size: int
    key: str
    uid: str
    version: str
    number: int
    at: float
    seconds: float
    waited: float
    flushed: bool
    result: str
    node: str = ""
    evaluated: int = 0
    feasible: int = 0
    best: tuple[str, ...] = ()
    scores: NDArray[np.int64] | None = None
    tied: int = 0
    message: str = ""
    columns: Columns | None = None
    nominated: str = ""
    victims: tuple[str, ...] = ()


class FlightRecorder(DecisionObserver):
    """A recorder of the latest attempts, in `most_bytes`; the oldest are dropped first.

    It passes each attempt to `file` too, if there is one. `size` is estimated generously, and
    includes the columns that attempts share.
    """

    def __init__(
        self,
        most_bytes: int,
        clock: Clock,
        file: Callable[[KeptAttempt], None] | None = None,
    ) -> None:
        self.size = 0
        self._most = most_bytes
        self._clock = clock
        self._file = file
        self._started = clock.now()
        self._attempts: deque[KeptAttempt] = deque()
        self._best: tuple[str, ...] = ()
        self._scores: NDArray[np.int64] | None = None
        self._tied = 0
        self._evaluation: Evaluation | None = None
        self._filtered: FilteredNodes | None = None
        self._names: Names | None = None
        self._snapshot: Snapshot | None = None
        self._columns: Columns | None = None

    def deciding(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, start: int, *, extended: bool
    ) -> None:
        self._snapshot = snapshot
        self._best, self._scores, self._tied = (), None, 0
        self._evaluation = self._filtered = None

    def filtered(self, filtered: FilteredNodes) -> None:
        self._filtered = filtered

    def compared(self, rows: Ints, totals: Ints, snapshot: Snapshot) -> None:
        # As few calls as possible: each pod pays for them.
        top = totals.argpartition(_LAST)[-BEST:] if totals.size > BEST else totals.argsort()
        scores = totals[top]
        self._best = tuple(map(snapshot.columns.names.__getitem__, rows[top]))
        self._scores = scores
        self._tied = int(np.count_nonzero(totals == scores[-1]))

    def rejected(self, info: PodInfo, evaluation: Evaluation) -> None:
        filtered = self._filtered
        self._evaluation = evaluation if filtered is None else evaluation.besides(filtered)

    def add(self, queued: QueuedPod, outcome: Outcome, started: float, decided: float) -> None:
        """Keeps an attempt; must be called before the snapshot is given back."""
        info = queued.info
        metadata = info.pod.metadata
        key, uid, version = info.key, metadata.uid, metadata.resource_version
        waited, seconds = started - queued.enqueued_at, decided - started
        if isinstance(outcome, Choice):
            attempt = KeptAttempt(
                PLAIN_BYTES,
                key,
                uid,
                version,
                queued.attempts,
                decided,
                seconds,
                waited,
                queued.flushed,
                "placed",
                outcome.node,
                outcome.evaluated,
                outcome.feasible,
                self._best,
                self._scores,
                self._tied,
            )
        else:
            result, nominated, columns, size = "error", "", None, PLAIN_BYTES
            victims: tuple[str, ...] = ()
            if isinstance(outcome, Unfit):
                result, message = "unschedulable", outcome.message[:LONGEST_MESSAGE]
                columns = self._verdicts(message)
                if columns is None:
                    size += 4 * len(message)
                else:
                    columns.users += 1
                    message = columns.verdicts.message  # which counts there
                if outcome.nomination is not None:
                    nominated = outcome.nomination.node
                    victims = tuple(victim.key for victim in outcome.nomination.victims)
                    size += 400 * len(victims)
            else:
                message = outcome.status.message[:LONGEST_MESSAGE]
                size += 4 * len(message)
            attempt = KeptAttempt(
                size,
                key,
                uid,
                version,
                queued.attempts,
                decided,
                seconds,
                waited,
                queued.flushed,
                result,
                message=message,
                columns=columns,
                nominated=nominated,
                victims=victims,
            )
        self._snapshot = self._evaluation = self._filtered = None
        self._attempts.append(attempt)
        self.size += attempt.size
        if self.size > self._most:
            self._keep_within_bounds()
        if self._file is not None:
            self._file(attempt)

    def failed(self, info: PodInfo, number: int, node: str, message: str) -> None:
        """Records that an attempt failed on the chosen node after the decision."""
        metadata, message = info.pod.metadata, message[:LONGEST_MESSAGE]
        attempt = KeptAttempt(
            PLAIN_BYTES + 4 * len(message),
            info.key,
            metadata.uid,
            metadata.resource_version,
            number,
            self._clock.now(),
            0.0,
            0.0,
            False,
            "failed",
            node,
            message=message,
        )
        self._attempts.append(attempt)
        self.size += attempt.size
        self._keep_within_bounds()
        if self._file is not None:
            self._file(attempt)

    def page(self, key: str) -> AttemptsPage:
        """Returns the records about the pod of this key (namespace/name)."""
        epoch = self._clock.wall().timestamp() - self._clock.now()
        shown = tuple(
            rendered(kept, epoch, () if kept.columns is None else kept.columns.rejections())
            for kept in self._attempts
            if kept.key == key
        )
        since = round(epoch + self._attempts[0].at, 3) if self._attempts else None
        return AttemptsPage(round(epoch + self._started, 3), since, shown)

    def _keep_within_bounds(self) -> None:
        while self.size > self._most and self._attempts:
            self._evict()
        if self.size > self._most:  # for the columns alone
            self._names = self._columns = None
            self.size = 0

    def _verdicts(self, message: str) -> Columns | None:
        """Returns the verdicts on all nodes: those of the attempt before, if they are equal."""
        evaluation, snapshot = self._evaluation, self._snapshot
        if evaluation is None or snapshot is None:
            return None
        names, before = self._names, self._names
        if names is None or names.by_row != snapshot.columns.names:
            names = self._names = Names([*snapshot.columns.names])
            self.size += names.size
            if before is not None and not before.users:
                self.size -= before.size
        verdicts = _verdicts(evaluation, message)
        columns = self._columns
        if columns is None or names is not before or verdicts != columns.verdicts:
            old, columns = columns, Columns(names, verdicts)
            self._columns = columns
            names.users += 1
            self.size += verdicts.size
            if old is not None and not old.users:
                self._release(old)
        return columns

    def _evict(self) -> None:
        """Drops the oldest attempt, with the columns that no other has."""
        attempt = self._attempts.popleft()
        self.size -= attempt.size
        columns = attempt.columns
        if columns is not None:
            columns.users -= 1
            if not columns.users and columns is not self._columns:
                self._release(columns)

    def _release(self, columns: Columns) -> None:
        names = columns.names
        self.size -= columns.verdicts.size
        names.users -= 1
        if not names.users and names is not self._names:
            self.size -= names.size


def _verdicts(evaluation: Evaluation, message: str) -> Verdicts:
    # As few calls as possible: each rejected pod pays for them.
    prefilter, diagnosis, live = evaluation.prefilter, evaluation.diagnosis, evaluation.live
    if diagnosis is None or live is None:
        return Verdicts(1000 + 4 * len(message), message, prefilter.status)
    words, plugins, rows = diagnosis.words(live), diagnosis.plugins, diagnosis.view.rows
    number, by = len(words), diagnosis.by.tobytes()
    view = b"" if isinstance(rows, slice) else rows.tobytes()
    keys = b"" if number == len(plugins) else diagnosis.keys.tobytes()
    nodes = len(by) // 2
    size = nodes * (3 + (8 if view else 0) + (8 if keys else 0))
    return Verdicts(
        1000 + 4 * len(message) + 1000 * number + size,  # The message has the words.
        message,
        prefilter.status if not prefilter.restricted_by else unresolvable(prefilter.reason_outside),
        tuple(plugins),
        words,
        view,
        by,
        diagnosis.codes.tobytes(),
        keys,
    )


def _rejections(names: list[str], verdicts: Verdicts) -> Iterator[Rejection]:
    by = np.frombuffer(verdicts.by, dtype=np.int16)
    codes = np.frombuffer(verdicts.codes, dtype=np.int8)
    keys = np.frombuffer(verdicts.keys, dtype=np.int64)
    rows = np.frombuffer(verdicts.view, dtype=np.int64) if verdicts.view else np.arange(len(by))
    rejected = by >= 0
    for (place, key), words in verdicts.words.items():
        mine = (by == place) & (keys == key) if len(keys) else by == place
        for code in np.unique(codes[mine]).tolist():
            nodes = _named(names, rows[mine & (codes == code)])
            if nodes:
                label = Code(code).label
                yield Rejection(verdicts.plugins[place], label, tuple(sorted(words)), nodes)
    outside = np.ones(len(names), dtype=np.bool_)
    outside[rows[rejected]] = False
    nodes, status = _named(names, outside.nonzero()[0]), verdicts.outside
    if nodes:
        yield Rejection(status.plugin, status.code.label, tuple(sorted(status.reasons)), nodes)


def _named(names: list[str], rows: Ints) -> tuple[str, ...]:
    return tuple(sorted(filter(None, map(names.__getitem__, rows.tolist()))))


def rendered(kept: KeptAttempt, epoch: float, rejections: tuple[Rejection, ...]) -> RecordedAttempt:
    """Returns an attempt with these rejections in words. `epoch` is the Unix time of second 0."""
    scores = [] if kept.scores is None else kept.scores.tolist()
    best = sorted(zip(kept.best, scores, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return RecordedAttempt(
        kept.key,
        kept.uid,
        kept.version,
        kept.number,
        round(epoch + kept.at, 3),
        round(kept.seconds, 6),
        round(kept.waited, 3),
        kept.result,
        kept.flushed,
        kept.node,
        kept.evaluated,
        kept.feasible,
        tuple(Score(node, score) for node, score in best),
        kept.tied,
        kept.message,
        rejections,
        kept.nominated,
        kept.victims,
    )

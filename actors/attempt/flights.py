"""The flight recorder: the latest attempts of all pods, in a bounded number of bytes.

An attempt keeps names, numbers and compressed columns, never a pod, a node or a snapshot. They are
put into words only when a page is asked for. Equal columns of consecutive attempts are kept once.
"""

from __future__ import annotations

import zlib
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
from ..scheduling.framework.status import Status, unresolvable
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

    `result` is placed, unschedulable or error. `evaluated` nodes were looked at, `feasible` of them
    fit. `best` are the nodes with the highest scores, which are comparable within the attempt only;
    `tied` nodes share the highest. `woken_late` means that no event woke the pod, but the limit for
    the time that a pod is parked.
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


class AttemptsPage(msgspec.Struct, frozen=True):
    """The recorded attempts of a pod, oldest first, and its latest moves in the queue. `since` is
    the time of the oldest attempt that is kept of any pod, None if there is none. `started` is when
    this process began to record; of a file, it is `since`.
    """

    started: float
    since: float | None
    attempts: tuple[RecordedAttempt, ...]
    story: tuple[StoryStep, ...] = ()


class Names(msgspec.Struct):
    """The names of the nodes by row, which many columns share. `users` are those that are kept."""

    by_row: list[str]
    users: int = 0

    @property
    def size(self) -> int:
        return NAME_BYTES * len(self.by_row)


class Columns(msgspec.Struct):
    """The verdicts on all nodes, which many attempts share: `codes` are compressed indices of
    `statuses`, uint16 by row. `users` are the attempts that are kept.
    """

    names: Names
    codes: bytes
    statuses: tuple[Status, ...]
    users: int = 0

    @property
    def size(self) -> int:
        reasons = sum(500 + 4 * sum(map(len, status.reasons)) for status in self.statuses)
        return len(self.codes) + reasons

    def rejections(self) -> tuple[Rejection, ...]:
        """Puts the verdicts into words."""
        return tuple(_rejections(self))


class KeptAttempt(msgspec.Struct, frozen=True, gc=False):
    """An attempt as it is kept. Times are monotonic seconds."""

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
    """Keeps the latest attempts in `most_bytes`; the oldest go first. Each goes to `file` too, if
    there is one. `size` counts generously, with the columns that attempts share.
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
        self._seen: tuple[object, ...] = ()  # from which `_columns` are made
        self._seen_size = 0

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
        if type(outcome) is Choice:
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
            assert not isinstance(outcome, Choice)
            message, nominated, columns = "", "", None
            victims: tuple[str, ...] = ()
            if isinstance(outcome, Unfit):
                message = outcome.message
                columns = self._verdicts(message)
                if columns is not None:
                    columns.users += 1
                if outcome.nomination is not None:
                    nominated = outcome.nomination.node
                    victims = tuple(victim.key for victim in outcome.nomination.victims)
            else:
                message = outcome.status.message
            message = message[:LONGEST_MESSAGE]
            size = PLAIN_BYTES + 4 * len(message) + 400 * len(victims)
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
                "unschedulable" if isinstance(outcome, Unfit) else "error",
                message=message,
                columns=columns,
                nominated=nominated,
                victims=victims,
            )
        self._snapshot = self._evaluation = self._filtered = None
        self._attempts.append(attempt)
        self.size += attempt.size
        while self.size > self._most and self._attempts:
            self._evict()
        if self.size > self._most:  # for the columns alone
            self._names = self._columns = None
            self._seen, self._seen_size, self.size = (), 0, 0
        if self._file is not None:
            self._file(attempt)

    def page(self, key: str) -> AttemptsPage:
        """Returns what is recorded of the pod of this key (namespace/name)."""
        epoch = self._clock.wall().timestamp() - self._clock.now()
        shown = tuple(
            rendered(kept, epoch, () if kept.columns is None else kept.columns.rejections())
            for kept in self._attempts
            if kept.key == key
        )
        since = round(epoch + self._attempts[0].at, 3) if self._attempts else None
        return AttemptsPage(round(epoch + self._started, 3), since, shown)

    def _verdicts(self, message: str) -> Columns | None:
        """Returns the verdicts on all nodes: those of the attempt before, if they are equal."""
        evaluation, snapshot = self._evaluation, self._snapshot
        if evaluation is None or snapshot is None:
            return None
        names, before = self._names, self._names
        if names is None or names.by_row != snapshot.columns.names:
            names = self._names = Names(snapshot.columns.names.copy())
            self.size += names.size
            if before is not None and not before.users:
                self.size -= before.size
        diagnosis = evaluation.diagnosis
        if diagnosis is None:
            seen: tuple[object, ...] = (message,)
        else:
            rows = diagnosis.view.rows
            view = b"" if isinstance(rows, slice) else rows.tobytes()
            verdicts = (diagnosis.by.tobytes(), diagnosis.keys.tobytes(), diagnosis.codes.tobytes())
            seen = (message, tuple(diagnosis.plugins), view, *verdicts)
        columns = self._columns
        if columns is None or names is not before or seen != self._seen:
            old, columns = columns, _columns(evaluation, names)
            self._columns = columns
            names.users += 1
            self.size += columns.size
            if old is not None and not old.users:
                self._release(old)
            self.size -= self._seen_size
            self._seen, self._seen_size = seen, _bytes_of(seen)
            self.size += self._seen_size
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
        self.size -= columns.size
        names.users -= 1
        if not names.users and names is not self._names:
            self.size -= names.size


def _bytes_of(seen: tuple[object, ...]) -> int:
    return sum(len(part) for part in seen if isinstance(part, bytes))


def _columns(evaluation: Evaluation, names: Names) -> Columns:
    codes = np.zeros(len(names.by_row), dtype=np.uint16)
    prefilter, diagnosis, live = evaluation.prefilter, evaluation.diagnosis, evaluation.live
    if diagnosis is None or live is None:
        return Columns(names, zlib.compress(codes.tobytes(), 1), (prefilter.status,))
    statuses = [unresolvable(prefilter.reason_outside)]
    rows = np.arange(len(names.by_row))[diagnosis.view.rows]
    for by in np.unique(diagnosis.by[live]).tolist():
        places = np.flatnonzero(live & (diagnosis.by == by))
        keys = np.column_stack((diagnosis.keys[places], diagnosis.codes[places]))
        _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        codes[rows[places]] = len(statuses) + inverse.reshape(-1)
        statuses += [diagnosis.status(int(places[i])) for i in first]
    return Columns(names, zlib.compress(codes.tobytes(), 1), tuple(statuses))


def _rejections(columns: Columns) -> Iterator[Rejection]:
    codes = np.frombuffer(zlib.decompress(columns.codes), dtype=np.uint16)
    for code, status in enumerate(columns.statuses):
        rows = np.flatnonzero(codes == code).tolist()
        nodes = tuple(sorted(filter(None, map(columns.names.by_row.__getitem__, rows))))
        if nodes:
            yield Rejection(status.plugin, status.code.label, tuple(sorted(status.reasons)), nodes)


def rendered(kept: KeptAttempt, epoch: float, rejections: tuple[Rejection, ...]) -> RecordedAttempt:
    """Puts an attempt with these rejections into words. `epoch` is the Unix time of second 0."""
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

"""The flight recorder: the latest attempts of all pods, in a bounded number of bytes.

An attempt keeps names, numbers and verdicts, never a pod, a node or a snapshot. They are put into
words only when a page is asked for. Equal verdicts of consecutive attempts are kept once, until the
last of these goes. As each decision pays for the recorder, an attempt keeps a few rows of the
columns that the decision has made anyway. The best nodes are named for a reader, or before the
names change. Where few nodes share the highest score, they are found for many attempts together.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec
import numpy as np

from ..messages.queue import QueuedPod
from ..runtime.clock import Clock
from ..scheduling.decision.evaluation import Evaluation
from ..scheduling.decision.observer import DecisionObserver
from ..scheduling.decision.outcome import Choice, DecisionFailure, Outcome, Unfit
from ..scheduling.framework.questions import FilteredNodes
from ..scheduling.framework.status import Code, Status, unresolvable
from ..scheduling.model.pod_info import PodInfo
from ..scheduling.model.snapshot import Snapshot
from ..scheduling.model.vectors import Ints
from .attempts_page import AttemptsPage, RecordedAttempt, Rejection, Score

BEST = 5  # nodes with their scores
_LAST = (-BEST, -1)  # The last place has the highest score.
PLAIN_BYTES = 1000  # an attempt without its texts and columns, generously
NAME_BYTES = 120  # a node's name with its place in the list
PLACE_BYTES = 16  # a node that is named elsewhere, in the list and in the order
WORDS_BYTES = 300  # the reasons for one key without their texts
LONGEST_MESSAGE = 4000
FEW_KEYS = 8
MOST_WORDS = 64 << 10  # bytes of the reasons of a column; the others are only counted
SCORED = 1 << 14  # nodes whose scores are kept until the best of them are found
MOST_UNNAMED = 1 << 14  # attempts whose best nodes are named at once, in about ten milliseconds


class Names(msgspec.Struct, eq=False):
    """The names of the nodes by row, which many attempts share."""

    by_row: list[str]

    @property
    def size(self) -> int:
        return NAME_BYTES * len(self.by_row)


class Verdicts(msgspec.Struct, frozen=True):
    """The verdicts on all nodes in the form of a Diagnosis, with its arrays as bytes. Consecutive
    attempts share them.

    `keys` are empty if each plugin has one key. `view` are the rows, empty for all. `outside` is
    the status of the nodes that no plugin rejected.
    """

    names: Names
    size: int
    message: str
    outside: Status
    plugins: tuple[str, ...] = ()
    words: dict[tuple[int, int], tuple[str, ...]] = {}
    view: bytes = b""
    by: bytes = b""
    codes: bytes = b""
    keys: bytes = b""

    def rejections(self) -> tuple[Rejection, ...]:
        """Puts the verdicts into words."""
        return tuple(_rejections(self.names.by_row, self))


class Scores(msgspec.Struct, gc=False):
    """The nodes with the highest scores, of which `tied` share the highest.

    `rows` are the rows of some of these, until they are named: then `best` are their names. They
    are bytes: a small array that is kept would lie where the arrays of the next decision fit. If
    few nodes share the highest score, `of_best` are the scores of the rows. Until these are found,
    `unfound` are the rows and totals of all nodes.
    """

    tied: int
    highest: int = 0
    rows: bytes = b""
    unfound: tuple[Ints, Ints] | None = None
    best: tuple[str, ...] = ()
    of_best: tuple[int, ...] = ()

    def find(self) -> None:
        """Finds the best nodes among all."""
        if self.unfound is not None:
            rows, totals = self.unfound
            top = totals.argpartition(_LAST)[-BEST:] if totals.size > BEST else slice(None)
            self.rows, self.of_best = rows[top].tobytes(), tuple(totals[top].tolist())
            self.unfound = None

    def name(self, names: Sequence[str]) -> None:
        """Names the best nodes. `names` are by row."""
        self.find()
        if not self.best:
            rows = np.frombuffer(self.rows, dtype=np.int64).tolist()
            self.best = tuple([names[row] for row in rows])
            self.of_best = self.of_best or (self.highest,) * len(self.best)
            self.rows = b""


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
    scores: Scores | None = None
    message: str = ""
    verdicts: Verdicts | None = None
    nominated: str = ""
    victims: tuple[str, ...] = ()


class FlightRecorder(DecisionObserver):
    """A recorder of the latest attempts, in `most_bytes`; the oldest are dropped first.

    It passes each attempt to `file` too, if there is one.
    """

    def __init__(
        self,
        most_bytes: int,
        clock: Clock,
        file: Callable[[KeptAttempt], None] | None = None,
    ) -> None:
        self._size = 0
        self._most = most_bytes
        self._unnamed = 0  # so many of the latest attempts may have best nodes without names
        self._unfound: list[Scores] = []
        # The rows and scores of some of these, which are written again and again.
        self._rows: Ints = np.zeros(SCORED, dtype=np.int64)
        self._totals: Ints = np.zeros(SCORED, dtype=np.int64)
        self._scored = 0
        self._clock = clock
        self._file = file
        self._started = clock.now()
        self._attempts: deque[KeptAttempt] = deque()
        # Those of the attempt that is being decided.
        self._scores: Scores | None = None
        self._rejected: tuple[PodInfo, Evaluation, Snapshot] | None = None
        self._names: Names | None = None
        self._order: Ints | None = None  # with which the names change
        # Those of the latest attempt that has some, and the mark of its diagnosis.
        self._verdicts: Verdicts | None = None
        self._mark: object = None

    def compared(
        self, rows: Ints, totals: Ints, highest: int, ties: Ints, snapshot: Snapshot
    ) -> None:
        # As little as possible: each pod pays for it.
        if snapshot.columns.order is not self._order:
            self._names_in(snapshot)
        tied = ties.size
        if tied >= BEST:
            # Arrays of all nodes are never kept: their memory serves the next decision.
            self._scores = Scores(tied, highest, rows[ties[:BEST]].tobytes())
            return
        first, last = self._scored, self._scored + totals.size
        if last > SCORED:
            self._find()
            first, last = 0, totals.size
        if last > SCORED:
            rows, totals = rows.copy(), totals.copy()
            last = 0
        else:
            self._rows[first:last], self._totals[first:last] = rows, totals
            rows, totals = self._rows[first:last], self._totals[first:last]
        self._scored = last
        self._scores = Scores(tied, highest, unfound=(rows, totals))
        self._unfound.append(self._scores)

    def rejected(
        self,
        info: PodInfo,
        evaluation: Evaluation,
        filtered: FilteredNodes | None,
        snapshot: Snapshot,
    ) -> None:
        all_of_it = evaluation if filtered is None else evaluation.besides(filtered)
        self._rejected = (info, all_of_it, snapshot)

    def add(self, queued: QueuedPod, outcome: Outcome, started: float, decided: float) -> None:
        """Records an attempt. Call it before the snapshot is given back."""
        info = queued.info
        metadata = info.pod.metadata
        key, uid, version = info.key, metadata.uid, metadata.resource_version
        waited, seconds = started - queued.enqueued_at, decided - started
        if type(outcome) is Choice:  # which is no call
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
                self._scores,
            )
        else:
            result, nominated, verdicts, size = "error", "", None, PLAIN_BYTES
            victims: tuple[str, ...] = ()
            if type(outcome) is Unfit:
                result, message = "unschedulable", outcome.message[:LONGEST_MESSAGE]
                verdicts = self._latest_verdicts(info, message)
                if verdicts is None:
                    size += 4 * len(message)
                else:
                    message = verdicts.message  # which counts there
                if outcome.nomination is not None:
                    nominated = outcome.nomination.node
                    victims = tuple(victim.key for victim in outcome.nomination.victims)
                    size += 400 * len(victims)
            else:
                assert isinstance(outcome, DecisionFailure)
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
                verdicts=verdicts,
                nominated=nominated,
                victims=victims,
            )
            self._rejected = None
        self._scores = None
        self._attempts.append(attempt)
        self._unnamed += 1
        if self._unnamed >= MOST_UNNAMED:
            self._name()
        if self._file is not None:
            if attempt.scores is not None and self._names is not None:
                attempt.scores.name(self._names.by_row)
            self._file(attempt)
        self._size += attempt.size
        if self._size > self._most:
            self._keep_within_bounds()

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
        self._unnamed += 1
        self._size += attempt.size
        self._keep_within_bounds()
        if self._file is not None:
            self._file(attempt)

    def page(self, key: str) -> AttemptsPage:
        """Returns the records about the pod of this key (namespace/name)."""
        self._name(key)
        epoch = self._clock.wall().timestamp() - self._clock.now()
        shown = tuple(
            rendered(kept, epoch, () if kept.verdicts is None else kept.verdicts.rejections())
            for kept in self._attempts
            if kept.key == key
        )
        since = round(epoch + self._attempts[0].at, 3) if self._attempts else None
        return AttemptsPage(round(epoch + self._started, 3), since, shown)

    @property
    def size(self) -> int:
        """The bytes that are kept, estimated generously, with the verdicts that attempts share."""
        return self._size

    def _find(self) -> None:
        for scores in self._unfound:
            scores.find()
        self._unfound.clear()
        self._scored = 0

    def _name(self, key: str = "") -> None:
        """Names the best nodes of the attempts at the pod of this key; without it, of all."""
        names = self._names
        if names is not None:
            for attempt in islice(reversed(self._attempts), self._unnamed):
                if attempt.scores is not None and key in ("", attempt.key):
                    attempt.scores.name(names.by_row)
        if not key:
            self._find()
            self._unnamed = 0

    def _keep_within_bounds(self) -> None:
        while self._size > self._most and self._attempts:
            self._evict()
        if self._size > self._most:  # for the names alone
            self._name()
            self._names = self._order = None
            self._size = 0

    def _names_in(self, snapshot: Snapshot) -> Names:
        """Returns the names by row, which are kept until a node comes or goes."""
        names, now = self._names, snapshot.columns.names
        if names is None or names.by_row != now:
            self._name()
            before, names = names, Names([*now])
            self._size += PLACE_BYTES * len(now)
            if before is not None:
                self._size -= PLACE_BYTES * len(before.by_row)
            self._names = names
        self._order = snapshot.columns.order
        return names

    def _latest_verdicts(self, info: PodInfo, message: str) -> Verdicts | None:
        """Returns the verdicts on all nodes: those of the attempt before, if they are equal."""
        if self._rejected is None or self._rejected[0] is not info:
            return None  # There are no nodes.
        _, evaluation, snapshot = self._rejected
        names = self._names
        if names is None or snapshot.columns.order is not self._order:
            names = self._names_in(snapshot)
        prefilter, diagnosis = evaluation.prefilter, evaluation.diagnosis
        mark, outside = None, prefilter.status
        if diagnosis is not None:
            mark = diagnosis.mark
            if prefilter.restricted_by:
                outside = unresolvable(prefilter.reason_outside)
        before, shares_names = self._verdicts, False
        if before is not None and before.names is names:
            shares_names = True
            same = mark is not None and self._mark is mark
            if same and before.message == message and before.outside == outside:
                return before
        self._mark = mark
        verdicts = _verdicts(names, evaluation, message, outside)
        if verdicts == before:
            return before
        self._verdicts = verdicts
        self._size += verdicts.size + (0 if shares_names else names.size)
        return verdicts

    def _evict(self) -> None:
        """Drops the oldest attempt, with the verdicts and the names that the next one does not
        share.
        """
        attempt = self._attempts.popleft()
        self._size -= attempt.size
        verdicts = attempt.verdicts
        if verdicts is None:
            return
        others = (kept.verdicts for kept in self._attempts if kept.verdicts is not None)
        following = next(others, None)
        if following is None:
            self._verdicts = None
        if following is not verdicts:
            self._size -= verdicts.size
            if following is None or following.names is not verdicts.names:
                self._size -= verdicts.names.size


def _verdicts(names: Names, evaluation: Evaluation, message: str, outside: Status) -> Verdicts:
    # As few calls as possible: each rejected pod pays for them.
    diagnosis, live, size = evaluation.diagnosis, evaluation.live, 1000 + 4 * len(message)
    is_long = len(message) >= LONGEST_MESSAGE  # and otherwise it has all words
    if is_long:
        reasons, bytes_of_texts = _first_texts(outside.reasons, MOST_WORDS)
        size += bytes_of_texts
        outside = Status(outside.code, reasons, outside.plugin)
    if diagnosis is None or live is None:
        return Verdicts(names, size, message, outside)
    words, plugins, rows = diagnosis.words(live), diagnosis.plugins, diagnosis.view.rows
    number, by = len(words), diagnosis.by.tobytes()
    if is_long or number > FEW_KEYS:
        for key, texts in words.items():
            words[key], bytes_of_texts = _first_texts(texts, MOST_WORDS // number)
            size += WORDS_BYTES + bytes_of_texts
    else:
        size += number * (WORDS_BYTES + 4 * len(message))
    view = b"" if type(rows) is slice else rows.tobytes()
    keys = b"" if number == len(plugins) else diagnosis.keys.tobytes()
    nodes = diagnosis.by.size
    size += nodes * (3 + (8 if view else 0) + (8 if keys else 0))
    return Verdicts(
        names,
        size,
        message,
        outside,
        tuple(plugins),
        words,
        view,
        by,
        diagnosis.codes.tobytes(),
        keys,
    )


def _first_texts(texts: Sequence[str], most: int) -> tuple[tuple[str, ...], int]:
    """Returns the first of the texts, in about `most` bytes, and how many bytes these are. The last
    one says how many are left out.
    """
    size = 0
    for number, text in enumerate(texts):
        size += sys.getsizeof(text) + 8
        if size > most and number:
            return (*texts[:number], f"and {len(texts) - number} more reasons"), size
    return tuple(texts), size


def _rejections(names: list[str], verdicts: Verdicts) -> Iterator[Rejection]:
    by = np.frombuffer(verdicts.by, dtype=np.int16)
    codes = np.frombuffer(verdicts.codes, dtype=np.int8)
    keys = np.frombuffer(verdicts.keys, dtype=np.int64)
    rows = np.frombuffer(verdicts.view, dtype=np.int64) if verdicts.view else np.arange(len(by))
    rejected = by >= 0
    for (place, key), words in verdicts.words.items():
        mine = (by == place) & (keys == key) if len(keys) else by == place
        for code in np.unique(codes[mine]).tolist():
            nodes = _node_names(names, rows[mine & (codes == code)])
            if nodes:
                label = Code(code).label
                yield Rejection(verdicts.plugins[place], label, tuple(sorted(words)), nodes)
    outside = np.ones(len(names), dtype=np.bool_)
    outside[rows[rejected]] = False
    nodes, status = _node_names(names, outside.nonzero()[0]), verdicts.outside
    if nodes:
        yield Rejection(status.plugin, status.code.label, tuple(sorted(status.reasons)), nodes)


def _node_names(names: list[str], rows: Ints) -> tuple[str, ...]:
    return tuple(sorted(filter(None, map(names.__getitem__, rows.tolist()))))


NO_SCORES = Scores(0)


def rendered(kept: KeptAttempt, epoch: float, rejections: tuple[Rejection, ...]) -> RecordedAttempt:
    """Returns an attempt with these rejections in words. `epoch` is the Unix time of second 0."""
    scores = NO_SCORES if kept.scores is None else kept.scores
    pairs = zip(scores.best, scores.of_best, strict=True)
    best = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
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
        scores.tied,
        kept.message,
        rejections,
        kept.nominated,
        kept.victims,
    )

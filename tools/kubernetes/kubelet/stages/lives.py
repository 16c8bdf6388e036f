"""The lives of objects: the stage that each object is in, and when it ends.

An object that stages select is in one of them, chosen by their weights. While the same stages
select it, it stays in that one, and its delay goes on, whatever else changes in the object. When
the delay is over, `take_due` hands the object out once; `ended` begins its next stage. Of an object
that waits for nothing, only the version is kept, so that the same version is not looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Protocol

import msgspec

from berth.actors.scheduling.kube.times import seconds_of

from ...objects.structs import Document
from .stage import Stage, selecting

# Returns when a Python step is due on an object that is as it is since a time: another time,
# infinity if only other objects can make it so, or None for never.
StepDue = Callable[[str, Document, float], float | None]
_SPARE = 64  # outdated entries that the heap of times may have


class RandomSource(Protocol):
    def random(self) -> float: ...


class Due(msgspec.Struct, frozen=True):
    """An object whose stage is over."""

    document: Document
    stage: Stage


class _Life(msgspec.Struct):
    """The state of an object. `due` is None while its steps are performed; `newer` holds the
    versions that arrive meanwhile.
    """

    document: Document
    selected_by: tuple[Stage, ...]
    stage: Stage
    share: float
    since: float
    due: float | None
    newer: list[Document] = []


class Lives:
    """The objects of one kind that wait for the end of their stage."""

    def __init__(self, stages: Sequence[Stage], rng: RandomSource, step_due: StepDue) -> None:
        self._stages = tuple(stages)
        self._rng = rng
        self._step_due = step_due
        self._lives: dict[str, _Life] = {}
        self._idle: dict[str, str] = {}  # the versions of objects that wait for nothing, by uid
        self._times: list[tuple[float, int, str]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._lives)

    def put(self, document: Document, now: float, since: float | None = None) -> None:
        """Stores a new version of an object. `since` is when it entered this state; by default,
        now.
        """
        uid = uid_of(document)
        life = self._lives.get(uid)
        if life is None:
            if self._idle.get(uid) != document["metadata"]["resourceVersion"]:
                self._begin(document, now if since is None else since)
        elif version_of(document) > version_of(life.document):
            if life.due is None:
                life.document = document
                life.newer.append(document)
            else:
                self._change(uid, life, document, now)

    def remove(self, uid: str) -> None:
        self._lives.pop(uid, None)
        self._idle.pop(uid, None)

    def replace(self, documents: Iterable[Document], now: float) -> None:
        """Stores all existing objects. The delay of a new one began at its last transition."""
        listed = {uid_of(document): document for document in documents}
        for uid in (self._lives.keys() | self._idle.keys()) - listed.keys():
            self.remove(uid)
        for document in listed.values():
            self.put(document, now, min(now, last_transition(document)))

    def wake(self, uid: str) -> None:
        """Computes again when the object's stage ends, because other objects have changed."""
        life = self._lives.get(uid)
        if life is not None and life.due is not None:
            self._set_due(uid, life)

    def get(self, uid: str) -> Document | None:
        """Returns the latest version of an object that waits."""
        life = self._lives.get(uid)
        return None if life is None else life.document

    def is_due(self, uid: str) -> bool:
        """True if the end of an object's stage is known, or its steps are in progress."""
        life = self._lives.get(uid)
        return life is not None and (life.due is None or life.due < inf)

    def next_due(self) -> float | None:
        """Returns the time at which the next stage is over."""
        while self._times and not self._is_current(self._times[0]):
            heappop(self._times)
        return self._times[0][0] if self._times else None

    def take_due(self, now: float) -> list[Due]:
        """Returns the objects whose stages have ended. None is returned again before `ended`."""
        due_now: list[Due] = []
        while (due := self.next_due()) is not None and due <= now:
            life = self._lives[heappop(self._times)[2]]
            life.due = None
            due_now.append(Due(life.document, life.stage))
        return due_now

    def ended(
        self, before: Document, after: Document | None, now: float, again: bool = False
    ) -> None:
        """Begins the next stage of an object after the steps of a stage.

        `before` is the version for which the steps were carried out, and `after` the version in the
        server's answer. It is None if the server refused a step because the object had changed; the
        stage then goes on, unless the object has left it meanwhile. Without a newer version, the
        stage is over once more if it is to be played `again`; else the next change of the object
        decides.
        """
        uid = uid_of(before)
        life = self._lives.get(uid)
        if life is None:
            return
        if after is None:
            newer, life.newer = life.newer, []
            life.document, life.due = before, inf
            for document in newer:
                self.put(document, now)
            if again and not newer:
                self._set_due(uid, life)
            return
        del self._lives[uid]
        latest = max((life.document, after), key=version_of)
        if version_of(latest) > version_of(before):
            self._begin(latest, now)

    def validate(self) -> None:
        """Raises AssertionError if the state contradicts itself."""
        timed = {entry[2] for entry in self._times if self._is_current(entry)}
        assert not self._idle.keys() & self._lives.keys()
        for uid, life in self._lives.items():
            assert life.stage in life.selected_by
            assert (uid in timed) == (life.due is not None and life.due < inf)
        assert len(self._times) <= 2 * len(self._lives) + _SPARE

    def _begin(self, document: Document, since: float) -> None:
        selected_by, uid = selecting(self._stages, document), uid_of(document)
        if not selected_by:
            self._idle[uid] = document["metadata"]["resourceVersion"]
            return
        self._idle.pop(uid, None)
        stage = self._choose(selected_by, document)
        share = self._rng.random() if stage.has_jitter else 0.0
        life = _Life(document, selected_by, stage, share, since, inf)
        self._lives[uid] = life
        self._set_due(uid, life)

    def _change(self, uid: str, life: _Life, document: Document, now: float) -> None:
        if selecting(self._stages, document) == life.selected_by:
            life.document = document
            self._set_due(uid, life)
        else:
            del self._lives[uid]
            self._begin(document, now)

    def _set_due(self, uid: str, life: _Life) -> None:
        stage, due = life.stage, None
        if stage.has_delay or not stage.step:
            due = life.since + stage.delay(life.document, life.since, life.share)
        else:
            due = self._step_due(stage.step, life.document, life.since)
        if due is None:
            del self._lives[uid]
            self._idle[uid] = life.document["metadata"]["resourceVersion"]
            return
        if due == life.due:
            return
        life.due = due
        if due < inf:
            self._number += 1
            heappush(self._times, (due, self._number, uid))
        if len(self._times) > 2 * len(self._lives) + _SPARE:
            self._times = [entry for entry in self._times if self._is_current(entry)]
            heapify(self._times)

    def _is_current(self, entry: tuple[float, int, str]) -> bool:
        life = self._lives.get(entry[2])
        return life is not None and life.due == entry[0]

    def _choose(self, stages: tuple[Stage, ...], document: Document) -> Stage:
        """Chooses by weight. Without any weight above 0, stages that have one are equally likely;
        if none has one, all are.
        """
        if len(stages) == 1:
            return stages[0]
        weights = {stage: stage.weight(document) for stage in stages}
        weighted = {stage: weight for stage, weight in weights.items() if weight is not None}
        total = sum(max(weight, 0) for weight in weighted.values())
        if total == 0:
            candidates = list(weighted) or list(stages)
            return candidates[int(self._rng.random() * len(candidates))]
        place = self._rng.random() * total
        for stage, weight in weighted.items():
            place -= max(weight, 0)
            if place < 0:
                return stage
        return list(weighted)[-1]


def uid_of(document: Document) -> str:
    uid: str = document["metadata"]["uid"]
    return uid


def version_of(document: Document) -> int:
    return int(document["metadata"]["resourceVersion"])


def last_transition(document: Document) -> float:
    """Returns the time of the latest transition that an object shows, in seconds of the epoch."""
    metadata = document["metadata"]
    if "deletionTimestamp" in metadata:
        grace = metadata.get("deletionGracePeriodSeconds") or 0
        return seconds_of(metadata["deletionTimestamp"]) - grace
    texts: list[str | None] = []
    for condition in (document.get("status") or {}).get("conditions") or ():
        texts += [condition.get("lastTransitionTime"), condition.get("lastHeartbeatTime")]
    times = [seconds_of(text) for text in texts if text]
    return max(times) if times else seconds_of(metadata["creationTimestamp"])

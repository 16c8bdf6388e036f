"""A migration of the lock in random histories: candidates of two neighbouring kinds, of which some
are started again with the newer one, and requests that are lost or arrive late; never two leaders.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import coroutine
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from berth.actors.client.rest import ApiError, ConnectionFailedError
from berth.actors.leader.locks import lock_of
from berth.actors.leader.state import LeaderState, Terms, Write
from tests.kit.examples import examples

T = TypeVar("T")
Document = dict[str, Any]
WHO = ("a", "b")
CANDIDATES = st.sampled_from(WHO)


class Request(msgspec.Struct):
    method: str
    path: str
    body: Any


@coroutine
def sent(request: Request) -> Generator[Request, Document, Document]:
    return (yield request)


class Objects:
    """The objects of an API server, each with its version."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.version = 0

    def answer(self, request: Request) -> Document:
        method, body = request.method, msgspec.to_builtins(request.body)
        path = request.path if method != "POST" else f"{request.path}/{body['metadata']['name']}"
        found = self.documents.get(path)
        if method == "POST" and found is not None:
            raise ApiError(409, "AlreadyExists", path)
        if method != "POST" and found is None:
            raise ApiError(404, "NotFound", path)
        if method == "GET":
            assert found is not None
            return found
        version = (found or {"metadata": {}})["metadata"].get("resourceVersion", "")
        if body["metadata"].get("resourceVersion", "") != version:
            raise ApiError(409, "Conflict", path)
        self.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        self.documents[path] = {**body, "metadata": metadata}
        return self.documents[path]


class Candidate:
    """A process that takes or renews the lock, request by request. `kind` counts in the order of
    the migration.
    """

    def __init__(self, terms: Terms, kind: int) -> None:
        self.kind = kind
        self.state = LeaderState(terms)
        self.lock = lock_of(terms, self)
        self.attempt: Coroutine[Request, Any, None] | None = None
        self.request: Request | None = None

    async def __call__(
        self, method: str, path: str, answer: type[T], body: object | None = None
    ) -> T:
        return msgspec.convert(await sent(Request(method, path, body)), answer)


class Migration(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.objects = Objects()
        self.late: list[Request] = []
        self.starts = 0

    @initialize(
        older=st.sampled_from(["endpoints", "configmaps"]),
        kinds=st.sampled_from([(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1)]),
    )
    def begins(self, older: str, kinds: tuple[int, int]) -> None:
        self.kinds = (older, f"{older}leases", "leases")
        pairs = zip(WHO, kinds, strict=True)
        self.candidates = {who: self.started(who, kind) for who, kind in pairs}

    def started(self, who: str, kind: int) -> Candidate:
        self.starts += 1
        terms = Terms(f"{who}-{self.starts}", "ns", "l", 15, 10, 2, (), self.kinds[kind])
        return Candidate(terms, kind)

    def leads(self, who: str) -> bool:
        return self.candidates[who].state.left(self.now) > 0

    @rule(who=CANDIDATES)
    def tries(self, who: str) -> None:
        candidate = self.candidates[who]
        if candidate.attempt is None and not (candidate.state.leading and not self.leads(who)):
            candidate.attempt = self.attempted(candidate)
            self.go_on(candidate, None)

    @rule(who=CANDIDATES)
    def tries_at_once(self, who: str) -> None:
        """Most attempts are over before anything else happens."""
        self.tries(who)
        while self.candidates[who].request is not None:
            self.is_handled(who, "yes")

    @rule(who=CANDIDATES, after=st.integers(1, 4))
    def the_other_comes_between(self, who: str, after: int) -> None:
        """The other's attempt comes after so many requests of an attempt."""
        (other,) = set(WHO) - {who}
        self.tries(who)
        for number in range(6):
            if number == after:
                self.tries_at_once(other)
            self.is_handled(who, "yes")

    async def attempted(self, candidate: Candidate) -> None:
        state, lock = candidate.state, candidate.lock
        renewal = state.renewal(self.wall)
        try:
            if renewal is not None:
                try:
                    sent_at = self.now
                    state.written(await lock.write(renewal, create=False), sent_at)
                except (ApiError, ConnectionFailedError):
                    pass
                else:
                    return
            held = await lock.read()
            lease, beside = (None, None) if held is None else (held.lease, held.beside)
            step = state.next_step(lease, self.now, self.wall, beside)
            expired = state.leading and state.left(self.now) <= 0
            if isinstance(step, Write) and not expired:
                sent_at = self.now
                state.written(await lock.write(step.lease, create=step.create), sent_at)
        except (ApiError, ConnectionFailedError):
            pass

    @property
    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now)

    def go_on(self, candidate: Candidate, answer: Document | Exception | None) -> None:
        """Gives an attempt its answer, and takes its next request."""
        assert candidate.attempt is not None
        try:
            if isinstance(answer, Exception):
                candidate.request = candidate.attempt.throw(answer)
            else:
                candidate.request = candidate.attempt.send(answer)
        except StopIteration:
            candidate.attempt = candidate.request = None

    @rule(who=CANDIDATES, answered=st.sampled_from(["yes", "yes", "yes", "no", "late"]))
    def is_handled(self, who: str, answered: str) -> None:
        candidate = self.candidates[who]
        if candidate.request is None:
            return
        lost = ConnectionFailedError("lost")
        if answered == "late":
            self.late.append(candidate.request)
            self.go_on(candidate, lost)
            return
        try:
            answer = self.objects.answer(candidate.request)
        except ApiError as refused:
            self.go_on(candidate, refused)
            return
        self.go_on(candidate, answer if answered == "yes" else lost)

    @rule()
    def a_late_one_arrives(self) -> None:
        if self.late:
            with suppress(ApiError):
                self.objects.answer(self.late.pop(0))

    @rule(who=CANDIDATES, newer=st.booleans())
    def is_started_again(self, who: str, newer: bool) -> None:
        candidate = self.candidates[who]
        if candidate.request is not None:
            self.late.append(candidate.request)
        if candidate.attempt is not None:
            candidate.attempt.close()
        (other,) = (self.candidates[each].kind for each in WHO if each != who)
        kind = min(candidate.kind + newer, other + 1, 2)
        self.candidates[who] = self.started(who, kind)

    @rule(seconds=st.sampled_from([2.0, 4.0, 10.0, 15.0, 16.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(times=st.integers(1, 5))
    def a_leader_renews(self, times: int) -> None:
        for _ in range(times):
            self.now += 4.0
            for who in filter(self.leads, WHO):
                self.tries_at_once(who)

    @invariant()
    def at_most_one_leads(self) -> None:
        if self.starts:
            assert sum(map(self.leads, WHO)) <= 1

    def teardown(self) -> None:
        for candidate in self.candidates.values() if self.starts else ():
            if candidate.attempt is not None:
                candidate.attempt.close()


TestMigration = pytest.mark.full("long")(Migration.TestCase)
TestMigration.settings = examples(4, steps=50)

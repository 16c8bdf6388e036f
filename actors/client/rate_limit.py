"""The client-side rate limit: each request takes a token.

While requests wait, their namespaces take turns, so that a namespace with a thousand new pods does
not hold back the binding of another namespace's pod. The bindings of a namespace have turns of
their own. (Kubernetes' clients send requests in the order in which they came.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import anyio

from ..runtime.clock import Clock
from ..runtime.lines import Lines
from .token_bucket import TokenBucket

_counted_for: ContextVar[str] = ContextVar("counted_for", default="")
_limited_by: ContextVar[RateLimit | None] = ContextVar("limited_by", default=None)


@contextmanager
def counted_for(namespace: str) -> Iterator[None]:
    """Makes the requests of the block wait in the line of this namespace.

    The objects of the requests do not matter: the deletion of a victim is work for its preemptor.
    """
    before = _counted_for.set(namespace)
    try:
        yield
    finally:
        _counted_for.reset(before)


@contextmanager
def limited_by(limit: RateLimit) -> Iterator[None]:
    """Makes the requests of the block wait for another limit than that of their client."""
    before = _limited_by.set(limit)
    try:
        yield
    finally:
        _limited_by.reset(before)


@dataclass(eq=False, slots=True)
class Waiter:
    """A request that waits. When it is woken, it may be sent, or it becomes the timekeeper."""

    may_go: bool = False
    woken: anyio.Event = field(default_factory=anyio.Event)


class RateLimit:
    """A limit on the rate of requests. A `qps` of 0 or less means no limit.

    One of the waiters, the timekeeper, sleeps until the next token and then lets the next request
    go. When it goes itself, or is cancelled, the next waiter takes over.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._bucket = TokenBucket(qps, burst) if qps > 0 else None
        self._clock = clock
        self._waiting: Lines[Waiter] = Lines()  # by namespace
        self._timekeeper: Waiter | None = None
        self._token_at: float | None = None  # a token was taken, which is available at this time

    async def wait_turn(self, namespace: str = "") -> float:
        """Waits until a request about an object of the namespace ("" for none) may be sent. Returns
        the seconds that it waited.

        A waiter that is cancelled has used no token, unless it is cancelled at the moment of its
        turn.
        """
        other = _limited_by.get()
        if other is not None and other is not self:
            return await other.wait_turn(namespace)
        if self._bucket is None:
            return 0.0
        namespace = _counted_for.get() or namespace
        came = self._clock.now()
        if not self._waiting and self._seconds_to_token(self._bucket) <= 0:
            self._token_at = None
            return 0.0
        waiter = Waiter()
        self._waiting.append(namespace, waiter)
        try:
            if self._timekeeper is None:
                self._timekeeper = waiter
            else:
                await waiter.woken.wait()
            while not waiter.may_go:
                await self._clock.sleep(self._seconds_to_token(self._bucket))
                self._token_at = None
                self._let_next_go()
        finally:
            if not waiter.may_go:
                self._waiting.remove(namespace, waiter)
            if self._timekeeper is waiter:
                self._hand_over(self._bucket)
        return self._clock.now() - came

    def _seconds_to_token(self, bucket: TokenBucket) -> float:
        now = self._clock.now()
        if self._token_at is None:
            self._token_at = now + bucket.take(now)
        return self._token_at - now

    def _let_next_go(self) -> None:
        """Lets the first waiter of the next namespace proceed."""
        waiter = self._waiting.take()
        assert waiter is not None, "the timekeeper itself waits"
        waiter.may_go = True
        waiter.woken.set()

    def _hand_over(self, bucket: TokenBucket) -> None:
        """Makes the next waiter the timekeeper. Without a waiter, the token is given back, so that
        a later burst does not get it on top of its own.
        """
        self._timekeeper = self._waiting.peek()
        if self._timekeeper is not None:
            self._timekeeper.woken.set()
        elif self._token_at is not None:
            self._token_at = None
            bucket.give_back()

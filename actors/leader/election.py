"""The election: waits for the lease, renews it, limits the tenure of its holder, and releases it.

It may run in any event loop. The leader actor runs it in a second thread, so that a slow plugin or
a huge pod, which blocks the scheduling loop for a while, does not cost the lease. A loop that is
blocked for longer than the lease's duration counts as dead, and the lease is not renewed for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio

from ..client.access import Calls
from ..client.rest import ApiError, ConnectionFailedError
from ..client.tenure import NEVER, Tenure
from ..runtime.backoff import Rng
from ..runtime.clock import Clock
from ..runtime.exceptions import ungrouped
from ..runtime.race import race
from ..scheduling.framework.logger import get_logger
from ..scheduling.kube.meta import ObjectReference
from .locks import lock_of
from .state import LeaderState, Terms, Wait, Write

T = TypeVar("T")

log = get_logger(__name__)
JITTER = 1.2
RELEASE_SECONDS = 3.0
MIN_PAUSE_SECONDS = 0.1
NO_ANSWER = "no answer in time"
DEFAULT_SCHEDULER = "default-scheduler"


class Election:
    """One candidate's election, from the first attempt to the loss of the lease: first `acquire`,
    then `keep_until_lost`.

    `clock` is the tenure's. `still_for` returns for how many seconds the scheduler's event loop has
    been blocked. `renewed_slowly` is called for each renewal that had to read the lease first,
    whether it succeeds or not, as kube-scheduler counts them.
    """

    def __init__(
        self,
        terms: Terms,
        client: Calls,
        clock: Clock,
        rng: Rng,
        tenure: Tenure,
        still_for: Callable[[], float],
        renewed_slowly: Callable[[], object],
    ) -> None:
        self._terms = terms
        self._client = client
        self._clock = clock
        self._rng = rng
        self._tenure = tenure
        self._still_for = still_for
        self._renewed_slowly = renewed_slowly
        self._state = LeaderState(terms)
        self._free_at = float("inf")
        self._failing = self._hung = False
        self._holder = ""  # the other candidate that holds the lease
        self._advice_about_holder = _advice_about_holder(terms)
        self._lock = lock_of(terms, self._call)
        # A request that hangs leaves time for another one, as in kube-scheduler.
        self._request_seconds = max(1.0, terms.renew_deadline / 2)

    def references(self) -> list[ObjectReference]:
        """Returns the objects of the lock as they were written last. May be called in any
        thread.
        """
        return self._lock.references()

    async def acquire(self) -> None:
        """Waits for the lease. On return this process holds it, and its tenure has begun."""
        while self._is_hung() or not await self._try():
            # The jitter shortens the pause: a longer one would add to the time without a leader.
            pause = self._terms.retry_period / (1 + JITTER * self._rng.random())
            # A pause never lasts beyond the lease's expiry, for the same reason.
            await self._clock.sleep(
                min(pause, max(self._free_at - self._clock.now(), MIN_PAUSE_SECONDS))
            )

    async def keep_until_lost(self) -> None:
        """Renews the lease, and returns when it is lost. Ends the tenure and releases the lease in
        any case, also when cancelled.
        """
        try:
            await self._renew()
        finally:
            # From here on nothing can be sent, so the next leader need not wait for this process.
            self._tenure.lasts_until(NEVER)
            with anyio.move_on_after(RELEASE_SECONDS, shield=True):
                await self._release()

    async def _renew(self) -> None:
        """Renews the lease until it is lost."""
        pause = self._terms.retry_period
        # Neither the pause nor the attempt may outlast the deadline, after which others take over.
        while (left := self._state.left(self._clock.now())) > 0:
            await self._clock.sleep(min(pause, left))
            began = self._clock.now()
            if self._state.left(began) <= 0 or self._is_hung():
                return
            renewed = await self._try()
            # Failed attempts begin at regular times, however long each of them takes.
            took = 0.0 if renewed else self._clock.now() - began
            pause = max(self._terms.retry_period - took, 0.0)

    def _is_hung(self) -> bool:
        seconds = self._still_for()
        hung = seconds > self._terms.lease_duration
        if hung and not self._hung:  # one line each time, however long it lasts
            log.error(
                "the scheduler stands still", seconds=round(seconds, 1), leads=self._state.leading
            )
        self._hung = hung
        return hung

    async def _try(self) -> bool:
        """Tries once to acquire or renew the lease; True if that succeeded."""
        failure = await self._attempt()
        self._tenure.lasts_until(self._state.leads_until)
        if failure:
            # One warning for each outage, however often it is tried.
            (log.debug if self._failing else log.warning)("lease not written", error=failure)
        self._failing = bool(failure)
        return not failure and self._state.leading

    async def _attempt(self) -> str:
        """Writes the lease if it is ours or free. Returns the error, or "".

        A leader writes it as if nobody else had done so, and reads it only if that fails.
        """
        renewal = self._state.renewal(self._clock.wall())
        if renewal is not None:
            try:
                sent_at = self._clock.now()
                self._state.written(await self._lock.write(renewal, create=False), sent_at)
            except (ApiError, ConnectionFailedError) as failure:
                log.debug("lease not renewed at once", error=str(failure))
            else:
                return ""
        try:
            match await self._next_step():
                case Wait(holder, until):
                    self._free_at = until
                    if holder != self._holder:
                        self._log_holder(holder)
                    self._holder = holder
                case Write(lease, create):
                    sent_at = self._clock.now()
                    if self._state.leading and self._state.left(sent_at) <= 0:
                        return NO_ANSWER  # The process was stopped meanwhile; others may lead now.
                    if renewal is not None and not create:
                        self._renewed_slowly()
                    self._state.written(await self._lock.write(lease, create=create), sent_at)
        except (ApiError, ConnectionFailedError) as failure:
            return str(failure)
        return ""

    def _log_holder(self, holder: str) -> None:
        """Logs who holds the lease, and what to do if that is a scheduler for other pods."""
        event, lock = "waiting for the lease", self._terms.lock
        if self._advice_about_holder:
            log.warning(event, holder=holder, lock=lock, advice=self._advice_about_holder)
        else:
            log.info(event, holder=holder, lock=lock)

    async def _next_step(self) -> Write | Wait:
        held = await self._lock.read()
        now, wall = self._clock.now(), self._clock.wall()
        if held is None:
            return self._state.next_step(None, now, wall)
        return self._state.next_step(held.lease, now, wall, held.beside)

    async def _call(self, method: str, path: str, answer: type[T], body: object | None = None) -> T:
        """Sends a request, and waits as long as a request may take; if leading, at most until the
        lease is lost. Raises ApiError and ConnectionFailedError.
        """
        seconds = self._request_seconds
        if self._state.leading:
            seconds = min(seconds, self._state.left(self._clock.now()))
        found: T | None = None

        async def call() -> None:
            nonlocal found
            found = await self._client.call(method, path, answer, body)

        with ungrouped():
            await race(call, partial(self._clock.sleep, seconds))
        if found is None:
            raise ConnectionFailedError(NO_ANSWER)
        return found

    async def _release(self) -> None:
        """Releases the lease, unless it has expired and may belong to another."""
        if self._state.left(self._clock.now()) <= 0:
            return
        try:
            held = await self._lock.read()
            wall = self._clock.wall()
            released = None if held is None else self._state.released(held.lease, wall)
            if released is not None:
                await self._lock.write(released, create=False)
        except (ApiError, ConnectionFailedError) as failure:
            log.warning("lease not released", error=str(failure))


def _advice_about_holder(terms: Terms) -> str:
    """Returns what to do if the holder of the lease schedules other pods than this candidate does;
    "" if it does not. It probably does if the candidate has no default profile.
    """
    if not terms.profiles or DEFAULT_SCHEDULER in terms.profiles:
        return ""
    return (
        f"unless the holder has the profile {' or '.join(terms.profiles)} too, its pods wait until "
        "this scheduler has a lease of its own: set leaderElection.resourceName"
    )

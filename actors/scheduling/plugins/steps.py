"""Steps: the unit of work of searches for devices and for victims, and of reading volumes, and how
much of it they may take.

The other pods, and the lease, wait for a decision. A search has no clock, so it counts what it
does, in steps of half a millionth of a second. A search that has no steps left is interrupted, and
the next attempt goes on with it.

On a machine that is overloaded, or a processor of which the process gets a quarter, steps take
longer than they should. There a search for devices, which has no pauses, ends by the clock, because
the lease has to be renewed. One for victims is paid by the clock, as pods of lower priority wait
for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

STEPS_PER_SECOND = 2_000_000
# Steps that each attempt may take: a millisecond. Most pods need fewer for devices.
FREE = STEPS_PER_SECOND // 1000
# What a namespace may take besides: a fifth of the time, and half a second at once.
EARNED_PER_SECOND = STEPS_PER_SECOND // 5
MOST_SAVED = STEPS_PER_SECOND // 2
LONGEST = 0.5  # seconds by the clock, for an attempt without pauses
MOST_NAMESPACES = 1024
_LOAN = 1000
_SLOW = 2  # times as long as they should: so long take steps that are paid by the clock


class TimedOutError(Exception):
    """No steps are left."""


class Steps:
    """The steps that are left.

    When they are used up, `lend` is asked for more: it gets the number of steps that were taken too
    many, and returns the number of further steps, -1 for none.
    """

    __slots__ = ("_left", "_lend")

    def __init__(self, number: int, lend: Callable[[int], int] | None = None) -> None:
        self._left = number
        self._lend = lend

    def take(self, number: int = 1) -> bool:
        """Takes steps. Returns True if none are left."""
        self._left -= number
        return self._left < 0 and self._are_used_up()

    def _are_used_up(self) -> bool:
        if self._lend is not None:
            self._left = self._lend(-self._left)
        return self._left < 0

    def spend(self, number: int) -> None:
        """Takes steps. Raises TimedOutError if none are left."""
        if self.take(number):
            raise TimedOutError


NO_LIMIT = Steps(0, lambda _: STEPS_PER_SECOND)


class Account:
    """The steps that a namespace has saved. They are negative if its last search took too many.

    Its debt is limited, because a request for more steps than there are is refused before the work.
    """

    __slots__ = ("saved", "since")

    def __init__(self, since: float) -> None:
        self.saved = MOST_SAVED
        self.since = since

    def earn(self, now: float) -> None:
        """Adds the steps that were earned since the last call."""
        self.saved += int((now - self.since) * EARNED_PER_SECOND)
        self.since = now


class StepBudget:
    """The steps of all attempts. Those beyond `free` come from the account of the pod's namespace,
    so that no namespace delays the pods of others.

    `now` returns monotonic seconds, and `free` is the number of steps of each attempt that cost
    nothing. After `longest` seconds an attempt gets no more. With `by_clock` the account pays for
    the seconds of an attempt whose steps took more than twice as long as they should. A namespace
    that has saved as much as it can has no account.
    """

    def __init__(
        self,
        now: Callable[[], float],
        free: int = FREE,
        longest: float = inf,
        *,
        by_clock: bool = False,
    ) -> None:
        self._now = now
        self._free = free
        self._longest = longest
        self._by_clock = by_clock
        self._accounts: dict[str, Account] = {}

    def attempt(self, namespace: str, most: int) -> Steps:
        """Returns the steps for an attempt at a pod of a namespace, `most` or fewer."""
        account = self._accounts.get(namespace)
        free, began = self._free, self._now()
        if account is not None:
            account.earn(began)
            if account.saved >= MOST_SAVED:
                del self._accounts[namespace]
            else:
                free += min(account.saved, 0)
        free = min(free, most)
        most -= max(free, 0)
        taken, late = max(free, 0), 0

        def lend(debt: int) -> int:
            nonlocal most, taken, late
            account, seconds = self._account(namespace), self._now() - began
            most -= debt
            taken += debt
            passed = int(seconds * STEPS_PER_SECOND)
            if self._by_clock and passed > _SLOW * taken:
                debt += max(passed - taken - late, 0)
                late = max(passed - taken, late)
            account.saved = max(account.saved - debt, -MOST_SAVED)
            loan = min(_LOAN, account.saved, most)
            if loan <= 0 or seconds > self._longest:
                return -1
            account.saved -= loan
            most -= loan
            taken += loan
            return loan

        return Steps(max(free, -1), lend)

    def _account(self, namespace: str) -> Account:
        account = self._accounts.get(namespace)
        if account is None:
            if len(self._accounts) >= MOST_NAMESPACES:
                del self._accounts[next(iter(self._accounts))]
            account = self._accounts[namespace] = Account(self._now())
        return account

"""The breaker: switches a plugin off that fails or overruns again and again, until it works again.

    closed    the plugin is asked. After `failures` failures in a row at one extension point, about
              two pods at least, it is open. One pod that a plugin cannot cope with is no reason.
              Calls that took too long count like failures, whatever the pods: they hold up all. One
              that had to be interrupted suffices.
    open      the plugin is not asked. After a rest the next call is a probe.
    probing   the plugin is asked. The first success at the extension point where it failed closes
              the breaker; the first failure anywhere opens it again, for twice as long.

The breakers of a scheduler share a Patience: while plugins together hold everybody up, one call
that takes too long suffices, and probes take turns.

A rejection is a success. The state machine is pure: times come in as arguments.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import msgspec

from ..kube.core import Pod
from .patience import Patience

NEVER = 0  # as a number of failures


class Circuit(enum.StrEnum):
    """The state of a breaker."""

    CLOSED = "closed"
    PROBING = "probing"
    OPEN = "open"


class BreakerLimits(msgspec.Struct, frozen=True):
    """What a plugin may do before it is switched off; `failures` of 0 never does it.

    `call_seconds` is the longest time of a call, and `attempt_seconds` that of all calls of a
    plugin in one attempt, without the time in which it waits. A call is interrupted after
    `interrupt_seconds`. The rests are in seconds too.
    """

    failures: int = 5
    call_seconds: float = 1.0
    attempt_seconds: float = 2.0
    interrupt_seconds: float = 5.0
    first_rest: float = 10.0
    longest_rest: float = 300.0


class BreakerStep(msgspec.Struct, frozen=True):
    """A breaker came to a state. `point` is the extension point that led to it, `why` the last
    failure there, and `pod` the pod in question, if it is known. `rest` are the seconds until the
    next probe.
    """

    plugin: str
    profile: str
    circuit: Circuit
    point: str
    why: str
    failures: int
    rest: float
    pod: Pod | None = None
    left_out: bool = False


class BreakerDump(msgspec.Struct, frozen=True, rename="camel"):
    """A breaker, for people to read. `next_probe` is in seconds. `package` and `version` say where
    the plugin comes from, "" if that is unknown.
    """

    plugin: str
    profile: str
    circuit: Circuit
    point: str
    why: str
    failures: int
    overruns: int
    switched_off: int
    next_probe: float
    left_out: bool
    package: str = ""
    version: str = ""


class _Run:
    """The failures in a row at an extension point."""

    __slots__ = ("number", "pods", "why")

    def __init__(self) -> None:
        self.number = 0
        self.pods: set[str] = set()
        self.why = ""


class Breaker:
    """The breaker of a plugin in a profile. `now` returns seconds, and `tell` takes its steps."""

    def __init__(
        self,
        plugin: str,
        profile: str,
        limits: BreakerLimits,
        now: Callable[[], float],
        tell: Callable[[BreakerStep], None],
        *,
        left_out: bool = False,
        patience: Patience | None = None,
    ) -> None:
        self.plugin = plugin
        self.profile = profile
        self.limits = limits
        self.now = now
        self.left_out = left_out
        self.circuit = Circuit.CLOSED
        self.point = ""  # where it failed when it was switched off
        self.why = ""
        self.failures = self.overruns = self.switched_off = 0
        self.until = 0.0  # while open: the earliest time of the probe
        self._patience = Patience() if patience is None else patience
        self._blocks = False  # it was switched off for its time
        self._tell = tell
        self._runs: dict[str, _Run] = {}
        self._rest = limits.first_rest
        self._closed_at = float("-inf")
        self._attempt: object = None
        self._spent = 0.0

    def admits(self, now: float) -> bool:
        """True if the plugin may be asked. The first call after the rest is a probe."""
        if self.circuit is not Circuit.OPEN:
            return True
        if now < self.until:
            return False
        if self._blocks:
            if not self._patience.grants(self, self.until, now):
                return False
            self._patience.spend(self.limits.call_seconds, now)  # It is likely to take it again.
        self.circuit = Circuit.PROBING
        self._report(0.0)
        return True

    def blocks_in(self, point: str) -> bool:
        """True if the plugin took too long at this extension point when it was switched off."""
        return self._blocks and self.point == point

    def rest(self, now: float) -> float:
        """Returns the seconds until the plugin may be asked; 0 if it may be."""
        if self.circuit is not Circuit.OPEN:
            return 0.0
        return max(self.until - now, self._patience.wait(now) if self._blocks else 0.0, 0.0)

    def longest_call(self, now: float) -> float:
        """Returns the seconds after which a call is interrupted. A probe has no more than it may
        take.
        """
        limits = self.limits
        if self.circuit is Circuit.PROBING or self._patience.wait(now):
            return min(limits.call_seconds, limits.interrupt_seconds)
        return limits.interrupt_seconds

    def succeeded(self, point: str, now: float) -> None:
        """Records an answer."""
        if self._runs:
            self._runs.pop(point, None)
        if self.circuit is Circuit.PROBING and point == self.point:
            self.circuit, self._closed_at = Circuit.CLOSED, now
            self._runs.clear()
            self._report(0.0)

    def failed(self, point: str, key: str, why: str, now: float, pod: Pod | None = None) -> None:
        """Records a failure about the pod of this key; "" if it is about none."""
        self.failures += 1
        self._add(point, key, why, now, pod, counts=False)

    def took(
        self,
        attempt: object,
        point: str,
        seconds: float,
        key: str,
        now: float,
        pod: Pod | None,
        why: str = "",
    ) -> bool:
        """Records the time of a call in an attempt. False if it, or the calls of the attempt
        together, took too long. `why` is the failure of the call.
        """
        if attempt is not self._attempt:
            self._attempt, self._spent = attempt, 0.0
        self._spent += seconds
        limits = self.limits
        if seconds <= limits.call_seconds and (
            attempt is None or self._spent <= limits.attempt_seconds
        ):
            return True
        what, together = f"took {seconds:.1f} s", seconds
        if seconds <= limits.call_seconds:
            what, together = f"took {self._spent:.1f} s in one attempt", self._spent
        self._patience.spend(together, now)
        self._attempt = None
        self.overruns += 1
        if seconds >= limits.interrupt_seconds or self._patience.wait(now):
            run = self._runs.setdefault(point, _Run())
            run.number = max(run.number, limits.failures - 1)
        self._add(point, key, why or what, now, pod, counts=True)
        return False

    def _add(
        self, point: str, key: str, why: str, now: float, pod: Pod | None, *, counts: bool
    ) -> None:
        if self.circuit is Circuit.OPEN:
            if counts:  # in a task or while it undid something, which it rests from too
                self.point, self._blocks = point, True
            return  # or in a call that began before it was switched off
        run = self._runs.setdefault(point, _Run())
        run.number, run.why = run.number + 1, why
        if len(run.pods) < 2:
            run.pods.add(key)
        most = self.limits.failures
        if most == NEVER:
            return
        if self.circuit is Circuit.PROBING:
            self._rest = min(2 * self._rest, self.limits.longest_rest)
            self._blocks = counts
            self._open(point, run, now, pod)
        elif run.number >= most and (counts or len(run.pods) > 1):
            if now - self._closed_at > self.limits.longest_rest:
                self._rest = self.limits.first_rest
            self._blocks = counts
            self._open(point, run, now, pod)

    def _open(self, point: str, run: _Run, now: float, pod: Pod | None) -> None:
        if self.circuit is Circuit.CLOSED:
            self.point = point
        self.circuit, self.why = Circuit.OPEN, run.why
        self.until = now + self._rest
        self.switched_off += 1
        self._report(self._rest, run.number, pod)
        self._runs.clear()

    def _report(self, rest: float, failures: int = 0, pod: Pod | None = None) -> None:
        self._tell(
            BreakerStep(
                self.plugin,
                self.profile,
                self.circuit,
                self.point,
                self.why,
                failures,
                rest,
                pod,
                self.left_out,
            )
        )

    def in_words(self, now: float) -> str:
        """Returns why the plugin is not asked."""
        return (
            f"switched off, as it failed in {self.point} (the last time: "
            f"{self.why}); it is tried again in {self.rest(now):.0f} s"
        )

    def dump(self, now: float) -> BreakerDump:
        return BreakerDump(
            self.plugin,
            self.profile,
            self.circuit,
            self.point,
            self.why,
            self.failures,
            self.overruns,
            self.switched_off,
            self.rest(now),
            self.left_out,
        )

    def validate(self) -> None:
        """Raises AssertionError if an invariant does not hold."""
        limits = self.limits
        assert limits.first_rest <= self._rest <= max(limits.longest_rest, limits.first_rest)
        assert self.circuit is Circuit.CLOSED or self.point, self.circuit
        assert self.circuit is not Circuit.OPEN or not self._runs, "an open breaker counts"
        if self.circuit is Circuit.CLOSED and limits.failures != NEVER:
            assert all(
                run.number < limits.failures or len(run.pods) < 2 for run in self._runs.values()
            )

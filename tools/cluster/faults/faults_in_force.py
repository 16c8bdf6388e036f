"""The faults in force: which of them a request, an event or a plugin meets, and what is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from random import Random

import anyio
import msgspec

from .fault_files import check_all
from .vocabulary import WRITES, Fault, FaultPlace, Met

AWAY = ("server-restart", "server-restart-cold")
_METHODS = {"disk-full": WRITES}


class FaultInForce(msgspec.Struct, frozen=True):
    """A fault, and the second at which its time began to count."""

    fault: Fault
    since: float

    @property
    def begin(self) -> float:
        return self.since + self.fault.begin

    @property
    def end(self) -> float:
        return self.since + self.fault.end


class Faults:
    """The faults of one place, drawn from one source of chance.

    `now` gives seconds. `met` counts what was met, by fault, and `refused` the refusals, by code.
    While it is `calm`, nothing fails.
    """

    def __init__(self, place: FaultPlace, now: Callable[[], float], rng: Random) -> None:
        self.place = place
        self.calm = False
        self.met: Counter[str] = Counter()
        self.refused: Counter[int] = Counter()
        self.when_added: list[Callable[[], None]] = []
        self._now = now
        self._rng = rng
        self._held: dict[Met, list[FaultInForce]] = {met: [] for met in Met}
        self._due: list[FaultInForce] = []
        self._changed = anyio.Event()

    def __iter__(self) -> Iterator[Fault]:
        return (held.fault for group in self._held.values() for held in group)

    def add(self, *faults: Fault) -> None:
        """Puts faults in force, whose times count from now. Raises FaultError, and then adds
        none.
        """
        check_all(faults, self.place)
        for fault in faults:
            held = FaultInForce(fault, self._now())
            self._held[fault.met].append(held)
            if fault.met is Met.TIME:
                self._due.append(held)
        self._due.sort(key=lambda held: held.begin)
        for tell in self.when_added:
            tell()
        self._changed.set()
        self._changed = anyio.Event()

    def clear(self) -> None:
        """Ends all faults."""
        for group in (*self._held.values(), self._due):
            group.clear()

    def replace(self, faults: Iterable[Fault]) -> None:
        """Ends all faults, and puts others in force. Raises FaultError, and then changes
        nothing.
        """
        faults = tuple(faults)
        check_all(faults, self.place)
        self.clear()
        self.add(*faults)

    # --------------------------------------------------------------------------- what is met

    def of_request(self, method: str, path: str, client: str = "") -> Fault | None:
        """Returns the fault that a request meets."""
        if not self._held[Met.REQUEST]:
            return None
        group = self._held[Met.REQUEST]
        if not group:
            return None
        path = path.partition("?")[0]
        return self._drawn(
            held
            for held in group
            if _concerns(held.fault, path, client)
            and method in (held.fault.methods or _METHODS.get(held.fault.does) or (method,))
        )

    def of_list(self, path: str, client: str = "") -> Fault | None:
        """Returns the fault that a list of this path meets."""
        held = self._held[Met.LIST]
        return self._drawn(each for each in held if _concerns(each.fault, path, client))

    def may_meet_lists(self) -> bool:
        """True if a list may meet a fault now."""
        now = self._now()
        return any(held.begin <= now < held.end for held in self._held[Met.LIST])

    def of_event(self, path: str, client: str = "") -> Fault | None:
        """Returns the fault that an event of a watch of this path meets."""
        held = self._held[Met.EVENT]
        if not held:
            return None
        return self._drawn(each for each in held if _concerns(each.fault, path, client))

    def of_pod(self) -> Fault | None:
        """Returns the fault that a new pod meets."""
        return self._drawn(self._held[Met.POD])

    def of_point(self, point: str) -> Fault | None:
        """Returns the fault that a plugin meets at an extension point."""
        held = self._held[Met.POINT]
        return self._drawn(
            each for each in held if not each.fault.points or point in each.fault.points
        )

    def back_at(self) -> float:
        """Returns the second at which the API server is back; the past while it is there."""
        timed = self._held[Met.TIME]
        if not timed:
            return 0.0
        now = self._now()
        away = [held for held in timed if held.fault.does in AWAY]
        ends = [held.begin + held.fault.seconds for held in away if held.begin <= now]
        return 0.0 if self.calm else max(ends, default=0.0)

    def _drawn(self, candidates: Iterable[FaultInForce]) -> Fault | None:
        if self.calm:
            return None
        now = self._now()
        for held in candidates:
            if held.begin <= now < held.end and self._rng.random() < held.fault.chance:
                self.met[held.fault.does] += 1
                if held.fault.does == "refuse":
                    self.refused[held.fault.code] += 1
                return held.fault
        return None

    # ---------------------------------------------------------------------------- what is due

    async def happen(self, carry_out: Callable[[Fault], Awaitable[None]]) -> None:
        """Carries out what is due, each at its time, until cancelled."""
        while True:
            now = self._now()
            while self._due and self._due[0].begin <= now:
                fault = self._due.pop(0).fault
                if not self.calm:
                    self.met[fault.does] += 1
                    await carry_out(fault)
            wait = self._due[0].begin - now if self._due else float("inf")
            with anyio.move_on_after(wait):
                await self.changed()

    async def changed(self) -> None:
        """Returns after faults were added."""
        await self._changed.wait()


def _concerns(fault: Fault, path: str, client: str) -> bool:
    return (not fault.paths or path.endswith(fault.paths)) and (
        not fault.clients or any(each in client for each in fault.clients)
    )

"""Which fleet holds the workload for the least cost: the answer of a sweep."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .cell import CellResult, Failed, Outcome
from .plan import Fleet, Plan


class Choice(msgspec.Struct, frozen=True):
    """A fleet with a configuration, and its results by seed.

    It holds the workload if no pod stays pending with any seed.
    """

    fleet: Fleet
    configuration: str
    cost: float
    results: list[CellResult]
    failed: int

    @property
    def waiting(self) -> int:
        """The largest number of pods that stay pending with a seed."""
        return max((result.waiting for result in self.results), default=0)

    @property
    def holding(self) -> int:
        """The number of seeds with which no pod stays pending."""
        return sum(not result.waiting for result in self.results)

    @property
    def holds(self) -> bool:
        return bool(self.results) and not self.failed and not self.waiting

    @property
    def reason(self) -> str:
        """The reason why pods stay pending, for the seed with the most pending pods."""
        if not self.results:
            return "failed"
        worst = max(self.results, key=lambda result: result.waiting)
        return "; ".join(f"{of.workload} ({of.pods}): {of.reason}" for of in worst.pending)

    @property
    def fleet_in_words(self) -> str:
        words = [f"{count} {name}" for name, count in self.fleet.items()]
        return " + ".join(words) or "no more nodes"


class SweepAnswer(msgspec.Struct, frozen=True):
    """The choices of a sweep, the best first, and the cells without a result."""

    plan: Plan
    choices: list[Choice]
    failed: list[Failed]

    @property
    def cheapest(self) -> Choice | None:
        return next((choice for choice in self.choices if choice.holds), None)

    @property
    def results(self) -> list[CellResult]:
        every = (result for choice in self.choices for result in choice.results)
        return sorted(every, key=lambda result: result.cell)

    @property
    def conclusion(self) -> str:
        choice, fleets = self.cheapest, _counted(len(self.plan.fleets), "fleet")
        if choice is None:
            best = self.choices[0]
            if not best.results:
                return f"no answer: each of {_counted(len(self.failed), 'what-if')} failed"
            pods = _counted(best.waiting, "pod")
            near = f"{self.named(best)} {_verb(best.fleet, 'leave')} {pods}"
            return f"none of {fleets} holds the workload: {near} pending"
        if not choice.fleet:
            return f"the cluster holds the workload as it is{self._with(choice)}"
        held = f"{choice.fleet_in_words} {_verb(choice.fleet, 'hold')} the workload"
        cost = f"for {self.in_words(choice.cost)} per hour"
        return f"{held} {cost}{self._with(choice)}, the least of {fleets}"

    def in_words(self, cost: float) -> str:
        """Returns a cost in words, with as many decimals as the costs of the sweep need."""
        costs = [choice.cost for choice in self.choices]
        decimals = next((d for d in (2, 3, 4, 5) if all(round(c, d) == c for c in costs)), 6)
        return f"{cost:.{decimals}f}"

    def named(self, choice: Choice) -> str:
        """Returns the fleet of a choice, with its configuration if there are several."""
        return f"{choice.fleet_in_words}{self._with(choice)}"

    def _with(self, choice: Choice) -> str:
        several = len(self.plan.configurations) > 1
        return f" with configuration {choice.configuration}" if several else ""


def answer_of(plan: Plan, outcomes: Iterable[Outcome]) -> SweepAnswer:
    """Returns the answer, which does not depend on the order of the outcomes."""
    results: dict[tuple[str, str], list[CellResult]] = {}
    failures: dict[tuple[str, str], list[Failed]] = {}
    fleets: dict[tuple[str, str], Fleet] = {}
    for outcome in outcomes:
        of = outcome.cell if isinstance(outcome, Failed) else outcome
        key = _words(of.fleet), of.configuration
        fleets[key] = of.fleet
        if isinstance(outcome, Failed):
            failures.setdefault(key, []).append(outcome)
        else:
            results.setdefault(key, []).append(outcome)
    choices = [
        Choice(
            fleet,
            key[1],
            plan.price_of(fleet),
            sorted(results.get(key, []), key=lambda result: result.seed),
            len(failures.get(key, [])),
        )
        for key, fleet in fleets.items()
    ]
    failed = [failure for each in failures.values() for failure in each]
    return SweepAnswer(
        plan, sorted(choices, key=_rank), sorted(failed, key=lambda failure: failure.cell.number)
    )


def _words(fleet: Fleet) -> str:
    return msgspec.json.encode(sorted(fleet.items())).decode()


def _rank(choice: Choice) -> tuple[bool, bool, int, float, int, str, str]:
    return (
        not choice.holds,
        not choice.results,
        choice.waiting,
        choice.cost,
        sum(choice.fleet.values()),
        choice.fleet_in_words,
        choice.configuration,
    )


def _verb(fleet: Fleet, plural: str) -> str:
    return f"{plural}s" if sum(fleet.values()) == 1 else plural


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

"""What came of the suites, beside what is listed: the verdict, and the tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .runs import Outcome
from .suites import Suite

COLUMNS = (
    "| suite | project | tests | pass | why others do not |\n| --- | --- | --- | --- | --- |\n"
)


def names(test: str, listed: str) -> bool:
    """Says whether a name of the list is that of a test, with its parameters or without."""
    plain, bracket, parameters = test.partition("[")
    name = plain.rpartition("::")[2]
    return listed in (name, f"{name}{bracket}{parameters}")


def faults(suite: Suite, outcomes: Mapping[str, Outcome]) -> list[str]:
    """Returns in what a whole run differs from the list; empty if it is as listed."""
    found = list(unexplained(suite, outcomes))
    for listed in _listed(suite.not_passed):
        ran = [each for each in outcomes.values() if names(each.test, listed)]
        if not ran:
            found.append(f"{listed} is listed, and did not run")
        elif all(each.outcome == "passed" for each in ran):
            found.append(f"{listed} passes, though it is listed as not passed")
    ran_or_listed = len(outcomes) + len(_listed(suite.not_run))
    if ran_or_listed != suite.count:
        found.append(f"{ran_or_listed} tests, and {suite.count} are listed")
    return found


def unexplained(suite: Suite, outcomes: Mapping[str, Outcome]) -> Iterable[str]:
    """Yields the tests that did not pass, and are not listed."""
    for each in outcomes.values():
        if each.outcome != "passed" and not reason(suite, each.test):
            yield f"{each.test} {each.outcome}: {each.says}"


def reason(suite: Suite, test: str) -> str:
    """Returns why a test does not pass, if that is listed."""
    return next(
        (
            why
            for why, tests in suite.not_passed.items()
            if any(names(test, listed) for listed in tests)
        ),
        "",
    )


def explained(suite: Suite, outcomes: Mapping[str, Outcome]) -> Iterable[str]:
    """Yields the tests that did not pass, with the reasons of the list."""
    for each in outcomes.values():
        if each.outcome != "passed" and (why := reason(suite, each.test)):
            yield f"{each.test}: {why}"
    for why, tests in suite.not_run.items():
        yield from (f"{test}, not run: {why}" for test in tests)


def row(suite: Suite, outcomes: Mapping[str, Outcome]) -> str:
    """Returns the line of the table at the end."""
    passed = sum(each.outcome == "passed" for each in outcomes.values())
    return _line(suite.name, suite.count, suite.passes, passed, suite.count - passed)


HEAD = f"{'suite':20}{'tests':>10}{'expected':>10}{'passed':>10}{'not passed':>12}"


def _line(name: str, count: int, expected: int, passed: int, others: int) -> str:
    return f"{name:20}{count:10}{expected:10}{passed:10}{others:12}"


def documented(suites: Iterable[Suite]) -> str:
    """Returns the table of the suites for the documentation."""
    rows = []
    for suite in suites:
        reasons = [*suite.not_passed.items(), *suite.not_run.items()]
        why = "; ".join(f"{reason} ({len(tests)})" for reason, tests in reasons)
        place = f"[{suite.project}](https://github.com/{suite.project})"
        rows.append(f"| {suite.name} | {place} | {suite.count} | {suite.passes} | {why} |\n")
    return COLUMNS + "".join(rows)


def _listed(reasons: Mapping[str, list[str]]) -> list[str]:
    return [test for tests in reasons.values() for test in tests]

"""/healthz, /livez and /readyz, with the checks, the texts and the paths of kube-scheduler.

On these pages, which everybody may see, a failed check has only its name. Its reason is at the path
of the check, such as /readyz/sched-handler-sync, which is authorized like any other page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from berth.config.tenure import tenure_seconds
from berth.config.types import LeaderElectionConfiguration

from ..client.tenure import Tenure
from ..scheduling.framework.logger import get_logger
from ..telemetry.measures import Registry
from .metrics.slis import HealthMeasures
from .request import NOT_FOUND, Answer, Request, text

log = get_logger(__name__)
OVERDUE_SECONDS = 20.0  # past the lease's expiry, as in kube-scheduler


class Check(msgspec.Struct, frozen=True):
    """A health check. `problem` returns None if the check passes, and otherwise the reason why it
    does not. It is called in the server's thread. If `public`, everybody is shown the reason.
    """

    name: str
    problem: Callable[[], str | None]
    public: bool = False


def leader_election(tenure: Tenure, election: LeaderElectionConfiguration) -> Check:
    """Returns the check that fails if the lease is long over without an orderly end, which the
    process may be unable to reach.
    """
    # kube-scheduler counts from the lease's expiry; a tenure ends before it.
    tenure_lasts = tenure_seconds(
        election.lease_duration, election.renew_deadline, election.retry_period
    )
    patience = election.lease_duration - tenure_lasts + OVERDUE_SECONDS

    def problem() -> str | None:
        if tenure.over_for() <= patience:
            return None
        return f"failed election to renew leadership on lease {election.resource_name}"

    return Check("leaderElection", problem)


def ping(still_for: Callable[[], float], standstill: Callable[[], str], most: float) -> Check:
    """Returns the check that fails if the scheduler's event loop has stood still for `most`
    seconds; `standstill` returns the reason. kube-scheduler's ping never fails.
    """

    def problem() -> str | None:
        return None if still_for() < most else standstill()

    return Check("ping", problem, public=True)


PASSES = Check("ping", lambda: None)


class Health:
    """The health pages. `groups` maps healthz, livez and readyz to their checks. A group without
    checks has ping.
    """

    def __init__(
        self, groups: Mapping[str, Sequence[Check]], measures: HealthMeasures | None = None
    ) -> None:
        self._measures = measures or HealthMeasures(Registry(), 0.0)
        self._groups = {name: tuple(checks) or (PASSES,) for name, checks in groups.items()}
        self._failing: dict[str, list[str]] = {}

    def paths(self) -> list[str]:
        return [f"/{name}" for name in self._groups]

    def answer(self, request: Request) -> Answer:
        name, _, check_name = request.path[1:].partition("/")
        checks = self._groups[name]
        if request.path == f"/{name}":
            return self._all(name, checks, request.query)
        named = next((check for check in checks if check.name == check_name), None)
        if named is None:
            return NOT_FOUND
        problem = named.problem()
        return text("ok") if problem is None else text(f"internal server error: {problem}\n", 500)

    def _all(
        self, name: str, checks: Sequence[Check], query: Mapping[str, Sequence[str]]
    ) -> Answer:
        excluded = dict.fromkeys(query.get("exclude", ()))
        lines, problems = [], []
        for check in checks:
            if check.name in excluded:
                lines.append(f"[+]{check.name} excluded: ok")
                continue
            problem = check.problem()
            self._measures.checked(check.name, name, ok=problem is None)
            if problem is None:
                lines.append(f"[+]{check.name} ok")
            else:
                problems.append(f"{check.name}: {problem}")
                reason = problem if check.public else "reason withheld"
                lines.append(f"[-]{check.name} failed: {reason}")
        unknown = sorted(excluded.keys() - {check.name for check in checks})
        if unknown:
            quoted = ",".join(f'"{each}"' for each in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        self._note(name, problems)
        if problems:
            return text("\n".join([*lines, f"{name} check failed", ""]), 500)
        if "verbose" not in query:
            return text("ok")
        return text("\n".join([*lines, f"{name} check passed", ""]))

    def _note(self, name: str, problems: list[str]) -> None:
        """Logs the failing checks when they change."""
        if self._failing.get(name, []) != problems:
            self._failing[name] = problems
            if problems:
                log.at(2, f"{name} check failed", failed=problems)

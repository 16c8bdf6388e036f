"""The texts of the health checks, against those that kube-scheduler 1.36.2 printed."""

from __future__ import annotations

import pytest

from berth.actors.client.tenure import NEVER, Tenure
from berth.actors.server.health import Check, Health, leader_election, ping
from berth.actors.server.request import Answer, Request
from berth.config.types import LeaderElectionConfiguration
from tests.kit.serving import request_for


def health(**problems: str) -> Health:
    def check(name: str, *, public: bool = False) -> Check:
        return Check(name, lambda: problems.get(name.replace("-", "_")), public)

    leader, ping = check("leaderElection"), check("ping", public=True)
    ready = [leader, check("shutdown"), check("sched-handler-sync")]
    return Health({"healthz": [leader], "livez": [ping], "readyz": ready})


def ask(target: str, **problems: str) -> tuple[int, str]:
    answer: Answer = health(**problems).answer(request_for(target))
    assert isinstance(answer.body, bytes)
    return answer.status, answer.body.decode()


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/healthz", "ok"),
        ("/livez", "ok"),
        ("/readyz", "ok"),
        ("/healthz?verbose", "[+]leaderElection ok\nhealthz check passed\n"),
        ("/livez?verbose", "[+]ping ok\nlivez check passed\n"),
        (
            "/livez?exclude=nothing&verbose",
            (
                "[+]ping ok\n"
                'warn: some health checks cannot be excluded: no matches for "nothing"\n'
                "livez check passed\n"
            ),
        ),
        (
            "/readyz?verbose",
            "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n",
        ),
        (
            "/readyz?verbose&exclude=leaderElection",
            (
                "[+]leaderElection excluded: ok\n[+]shutdown ok\n[+]sched-handler-sync ok\n"
                "readyz check passed\n"
            ),
        ),
        ("/livez/ping", "ok"),
        ("/readyz/shutdown", "ok"),
    ],
)
def test_what_passes(target: str, body: str) -> None:
    assert ask(target) == (200, body)


@pytest.mark.parametrize("target", ["/healthz/ping", "/readyz/ping", "/livez/", "/livez/ping/x"])
def test_a_check_is_only_where_it_belongs(target: str) -> None:
    assert ask(target) == (404, "404 page not found\n")


def test_what_fails_is_named_and_its_reason_is_at_its_own_path() -> None:
    problems = {"sched_handler_sync": "cannot list pods"}
    failed = (
        "[+]leaderElection ok\n[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\n"
        "readyz check failed\n"
    )
    assert ask("/readyz", **problems) == (500, failed)
    assert ask("/readyz?exclude=sched-handler-sync", **problems) == (200, "ok")
    assert ask("/readyz/sched-handler-sync", **problems) == (
        500,
        "internal server error: cannot list pods\n",
    )


def test_everybody_is_shown_a_public_reason() -> None:
    assert ask("/livez", ping="the event loop has stood still for 61 s") == (
        500,
        "[-]ping failed: the event loop has stood still for 61 s\nlivez check failed\n",
    )


def test_a_group_without_checks_has_ping() -> None:
    answer = Health({"healthz": ()}).answer(Request("/healthz", query={"verbose": ("",)}))
    assert answer.body == b"[+]ping ok\nhealthz check passed\n"


def test_the_watchdog_of_the_lease() -> None:
    now = 100.0
    tenure = Tenure(lambda: now)
    election = LeaderElectionConfiguration()
    check = leader_election(tenure, election)
    assert check.problem() is None  # never led
    tenure.lasts_until(now + 12)  # renewed just now: expires in 15 s
    now += 35
    assert check.problem() is None
    tenure.lasts_until(NEVER)
    assert check.problem() is None
    now += 0.1
    assert check.problem() == "failed election to renew leadership on lease kube-scheduler"
    tenure.lasts_until(now + 12)
    assert check.problem() is None


def test_ping_fails_when_the_loop_stands_still() -> None:
    seconds = 59.9
    check = ping(lambda: seconds, lambda: "it stands still", 60.0)
    assert check.problem() is None
    seconds = 61.2
    assert check.problem() == "it stands still"

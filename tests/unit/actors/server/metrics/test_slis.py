"""/metrics/slis, against what kube-scheduler 1.36.2 printed."""

from __future__ import annotations

from berth.actors.server.health import Check, Health
from berth.actors.server.metrics.slis import HealthMeasures
from berth.actors.telemetry.measures import Registry
from tests.kit.serving import request_for


async def test_every_check_of_a_group_is_counted_unless_it_is_excluded() -> None:
    problems: dict[str, str] = {}

    def check(name: str) -> Check:
        return Check(name, lambda: problems.get(name))

    measures = HealthMeasures(Registry(), 1795348135.9)
    groups = {"healthz": [check("leaderElection")], "livez": [], "readyz": [check("shutdown")]}
    health = Health(groups, measures)
    assert b"healthcheck" not in await measures.text()
    health.answer(request_for("/healthz"))
    health.answer(request_for("/healthz?exclude=leaderElection"))
    health.answer(request_for("/healthz/leaderElection"))
    health.answer(request_for("/livez"))
    health.answer(request_for("/readyz"))
    problems["shutdown"] = "process is shutting down"
    health.answer(request_for("/readyz?verbose"))
    assert (await measures.text()).decode() == (
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single"
        " healthcheck.\n"
        "# TYPE kubernetes_healthcheck gauge\n"
        'kubernetes_healthcheck{name="leaderElection",type="healthz"} 1\n'
        'kubernetes_healthcheck{name="ping",type="livez"} 1\n'
        'kubernetes_healthcheck{name="shutdown",type="readyz"} 0\n'
        "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all"
        " healthcheck.\n"
        "# TYPE kubernetes_healthchecks_total counter\n"
        'kubernetes_healthchecks_total{name="leaderElection",status="success",type="healthz"} 1\n'
        'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1\n'
        'kubernetes_healthchecks_total{name="shutdown",status="error",type="readyz"} 1\n'
        'kubernetes_healthchecks_total{name="shutdown",status="success",type="readyz"} 1\n'
        "# HELP process_start_time_seconds [ALPHA] Start time of the process since unix epoch in"
        " seconds.\n"
        "# TYPE process_start_time_seconds gauge\n"
        "process_start_time_seconds 1.7953481359e+09\n"
    )


async def test_a_disabled_family_is_left_out() -> None:
    measures = HealthMeasures(Registry(["kubernetes_healthcheck"]), 1.0)
    measures.checked("ping", "livez", ok=True)
    text = await measures.text()
    assert b"kubernetes_healthcheck{" not in text
    assert b"kubernetes_healthchecks_total{" in text

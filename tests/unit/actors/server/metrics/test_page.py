"""The page of all metrics, and the warnings about names that do not exist."""

from __future__ import annotations

from berth.actors.server.metrics.page import MetricsPage, warn_of_unknown
from berth.actors.telemetry.measures import Registry
from berth.config.feature_gates import DEFAULTS
from berth.config.versions import CURRENT
from tests.kit.logs import capture_logs


async def test_a_disabled_family_is_not_shown_and_is_counted() -> None:
    text = await MetricsPage(Registry(("version_info",)), CURRENT, DEFAULTS).text()
    assert b"version_info" not in text
    assert b"\ndisabled_metrics_total 1\n" in text
    assert b"\nhidden_metrics_total 1\n" in text


def test_names_that_do_not_exist_are_warned_about() -> None:
    registry = Registry(
        ("version_info", "kube_pod_resource_limit", "no_such"),
        {"version_info,binary": {"1"}, "version_info,colour": {"1"}},
    )
    MetricsPage(registry, CURRENT, DEFAULTS)
    with capture_logs() as logs:
        warn_of_unknown(registry)
    assert [(log["event"], log["metric"]) for log in logs] == [
        ("--disabled-metrics: no such metric", "no_such"),
        ("--allow-metric-labels: no such label", "version_info"),
    ]

"""Version, feature gates, and the counts of families, as metrics."""

from __future__ import annotations

import asyncio

from berth.actors.server.metrics.about import register_about
from berth.actors.server.metrics.exposition import exposed
from berth.actors.telemetry.measures import STABLE, Registry
from berth.config.feature_gates import DEFAULTS, GATES
from berth.config.versions import CURRENT


def samples_of(registry: Registry) -> list[str]:
    asyncio.run(registry.refresh())
    text = b"".join(exposed(registry.families())).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_the_version_is_that_of_the_kubernetes_whose_scheduler_this_is() -> None:
    registry = Registry()
    register_about(registry, CURRENT, DEFAULTS)
    lines = samples_of(registry)
    assert (
        'version_info{binary="1.36.2",component="kube",emulation="1.36",min_compat="1.35"} 1'
        in lines
    )
    (info,) = [line for line in lines if line.startswith("kubernetes_build_info")]
    assert ',git_version="v1.36.2+berth.' in info
    assert ',major="1",minor="36",platform="' in info


def test_every_gate_is_shown_with_its_stage_and_value() -> None:
    registry = Registry()
    register_about(
        registry, CURRENT, {**DEFAULTS, "SchedulerQueueingHints": False, "AllAlpha": True}
    )
    lines = samples_of(registry)
    assert 'kubernetes_feature_enabled{name="AllAlpha",stage="ALPHA"} 1' in lines
    assert 'kubernetes_feature_enabled{name="APIServerTracing",stage=""} 1' in lines  # it is GA
    assert sum(line.startswith("kubernetes_feature_enabled") for line in lines) == len(GATES)


def test_families_are_counted_by_stability() -> None:
    registry = Registry(("second_total", "nobodys_total"), {"first_total,code": {"200"}})
    register_about(registry, CURRENT, DEFAULTS)
    first = registry.counter("first_total", "First.", ("code",), STABLE)
    registry.counter("second_total", "Second.", (), STABLE)
    first.child("404").inc()
    first.child("404").inc()
    others = [line for line in samples_of(registry) if not line.startswith("kubernetes_feature_")]
    assert [line for line in others if line.split()[0].endswith(("al", '"}'))] == [
        "cardinality_enforcement_unexpected_categorizations_total 2",
        "disabled_metrics_total 2",
        'first_total{code="unexpected"} 2',
        "hidden_metrics_total 1",
        *[line for line in samples_of(registry) if line.startswith("kubernetes_build_info")],
        'registered_metrics_total{deprecated_version="",stability_level="ALPHA"} 2',
        'registered_metrics_total{deprecated_version="",stability_level="BETA"} 5',
        'registered_metrics_total{deprecated_version="",stability_level="STABLE"} 1',
        'version_info{binary="1.36.2",component="kube",emulation="1.36",min_compat="1.35"} 1',
    ]

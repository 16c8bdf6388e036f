"""docs/metrics.md has exactly the families that there are, and its queries return data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from berth.actors.client.measures import ClientMeasures
from berth.actors.client.tenure import Tenure
from berth.actors.mailboxes import Mailboxes
from berth.actors.server.metrics.access import AccessMeasures
from berth.actors.server.metrics.exposition import exposed
from berth.actors.server.metrics.informers import register_informers
from berth.actors.server.metrics.page import MetricsPage
from berth.actors.server.metrics.sizes import register_sizes
from berth.actors.telemetry.families import Families
from berth.actors.telemetry.measures import AnyFamily, Histogram, Registry
from berth.actors.telemetry.plugin_metrics import PluginMetrics
from berth.actors.wiring.breaker_reports import BreakerReports
from berth.config.feature_gates import DEFAULTS, changes_of
from berth.config.versions import CURRENT, VERSIONS, Version
from tests.docs.blocks import ROOT, blocks
from tests.kit.programs import needs

PAGE = ROOT / "docs/metrics.md"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|([^|]*)\|", re.MULTILINE)
MISSING = re.compile(r"^\| (`[^|]*) \|[^|]*\|$", re.MULTILINE)
POD = ["namespace", "node", "pod", "priority", "resource", "scheduler", "unit"]
RECORDED = json.loads((ROOT / "tests/golden/data/kube_scheduler_metrics.json").read_text())


def registry(version: Version = CURRENT) -> Registry:
    """Returns all families of /metrics."""
    metrics = Registry()
    Families(metrics, {**dict.fromkeys(DEFAULTS, True), **changes_of(version)})
    if changes_of(version)["InformerMetrics"]:
        register_informers(metrics, dict)
    register_sizes(metrics, Mailboxes(), dict, int, bool)
    ClientMeasures(metrics)
    AccessMeasures(metrics)
    PluginMetrics(metrics)
    BreakerReports(Mailboxes(), metrics, Tenure(), list)
    MetricsPage(metrics, CURRENT, DEFAULTS)
    return metrics


def documented(version: Version = CURRENT) -> dict[str, tuple[str, list[str], str]]:
    before, heading, after = PAGE.read_text().partition("### Since 1.37\n")
    since, _, rest = after.partition("\n## ")
    assert heading
    text = f"{before}{rest}\n{since}" if version is VERSIONS[37] else f"{before}{rest}"
    told = {
        name: (kind, re.findall(r"`(\w+)`", labels), stability.strip())
        for name, kind, labels, stability in ROW.findall(text)
    }
    gone = re.findall(r"`(\w+)` is gone", since) if version is VERSIONS[37] else ()
    return {name: row for name, row in told.items() if name not in gone}


@pytest.mark.parametrize("minor", [36, 37])
def test_every_family_is_documented_and_no_other(minor: int) -> None:
    expected = {
        family.name: (str(family.kind), sorted(family.labels), str(family.stability))
        for family in registry(VERSIONS[minor]).families()
    }
    for name in ("kube_pod_resource_request", "kube_pod_resource_limit"):
        expected[name] = ("gauge", POD, "STABLE")
    labels = ["name", "type"]
    expected["kubernetes_healthcheck"] = ("gauge", labels, "STABLE")
    expected["kubernetes_healthchecks_total"] = ("counter", sorted([*labels, "status"]), "STABLE")
    assert documented(VERSIONS[minor]) == expected


def test_all_families_of_kube_scheduler_are_there_or_named_as_missing() -> None:
    section = PAGE.read_text().partition("## Not there")[2]
    patterns = [each for row in MISSING.findall(section) for each in re.findall(r"`([^`]+)`", row)]
    assert "go_*" in patterns
    for name in RECORDED:
        assert (name in documented()) != any(fnmatch(name, pattern) for pattern in patterns), name


QUERIES = blocks(PAGE, "promql")


@pytest.mark.full
@needs("promtool")
async def test_the_queries_return_data(tmp_path: Path) -> None:
    """promtool evaluates each query over samples of all families that grow for ten minutes."""
    measured = registry()
    for family in measured.families():
        for _, child in grown(family):
            child.observe(0.01) if isinstance(child, Histogram) else child.inc()
    text = b"".join(exposed(measured.families())).decode()
    samples = [line.rpartition(" ") for line in text.splitlines() if line[0] != "#"]
    series = [{"series": name, "values": f"0+{float(value)}x20"} for name, _, value in samples]
    tests = [
        {
            "expr": f"clamp_max(count(({block.text}) >= 0), 1)",
            "eval_time": "10m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for block in QUERIES
    ]
    assert len(tests) == 10
    document = {"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": tests}]}
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump(document))
    done = await anyio.run_process(["promtool", "test", "rules", str(file)], check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def grown(family: AnyFamily) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the children of a family, one of them with the values that the queries select."""
    if family.labels:
        family.child(*("POST" if label == "verb" else "x" for label in family.labels))
    yield from family.children()

"""`berth bench`, as far as it runs no workload: its choice of them, and `--compare`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from berth.tools.bench.command import bench
from tests.kit.terminal import terminal


def entry(name: str, average: float, decision: float | None, rss: int = 100) -> dict[str, Any]:
    return {
        "name": name,
        "pods": 10,
        "seconds": 1.0,
        "throughput": {"average": average, "p50": 1.0, "p90": 1.0, "p95": 1.0, "p99": 1.0},
        "decision_ms": None if decision is None else {"mean": decision, "p50": 1.0, "p99": 1.0},
        "attempt_ms": {"mean": 1.0, "p50": 1.0, "p99": 4.0},
        "cpu_seconds": 2.0,
        "peak_rss_bytes": rss,
    }


def run(tmp_path: Path, first: object, second: object, *more: str) -> Any:
    for name, content in (("a.json", first), ("b.json", second)):
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return CliRunner().invoke(
        bench, ["--compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), *more]
    )


def test_the_ratios_of_the_second_run_to_the_first(tmp_path: Path) -> None:
    first = [entry("x", 100, 4), entry("y", 10, None), entry("gone", 1, 1)]
    second = [entry("new", 1, 1), entry("y", 20, 1, rss=50), entry("x", 250, 1)]
    result = run(tmp_path, first, second, "-o", "json")
    assert result.exit_code == 0, result.output
    x, y = json.loads(result.stdout)
    assert x == {
        "name": "x",
        "throughput": 2.5,
        "decision_ms": 0.25,
        "attempt_p99_ms": 1.0,
        "cpu_seconds": 1.0,
        "peak_rss_bytes": 1.0,
    }
    expected = ("y", 2.0, None, 0.5)
    assert (y["name"], y["throughput"], y["decision_ms"], y["peak_rss_bytes"]) == expected
    shown = run(tmp_path, first, second)
    assert "x2.50" in shown.output


@pytest.mark.full("starts a process")
def test_the_table_folds_on_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps([entry("Basic/" + 60 * "n", 100, 4)]))
    with terminal("bench", "--compare", str(file), str(file)) as narrow:
        assert narrow.ends() == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", narrow.said).split("\r\n")
    assert max(map(len, lines)) == 80
    assert "…" not in narrow.said
    assert narrow.said.count("x1.00") == 5


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ([entry("other", 1, 1)], "no workload in common"),
        ("{", "b.json"),
        ([{"name": "x"}], "b.json"),
    ],
)
def test_files_that_cannot_be_compared_are_reported_in_one_line(
    tmp_path: Path, second: object, problem: str
) -> None:
    result = run(tmp_path, [entry("x", 1, 1)], second)
    assert result.exit_code == 1
    assert problem in result.stderr.splitlines()[-1]


def test_without_a_workload_of_the_label_nothing_runs() -> None:
    result = CliRunner().invoke(bench, ["--label", "integration-test"])
    assert result.exit_code == 1
    assert result.output.endswith("workloads.yaml: no workload is selected\n")

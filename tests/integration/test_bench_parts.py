"""Small runs of the measurements besides workloads: growing clusters, and one that lives on."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from berth.tools.bench import decision, queue, scale, steady

pytestmark = pytest.mark.full


def test_the_cost_of_more_nodes() -> None:
    result = CliRunner().invoke(
        scale.main, ["--nodes", "20", "--more-nodes", "40", "-n", "8", "-o", "json", "spread"]
    )
    assert isinstance(result.exception, SystemExit | None), result.exception
    report = json.loads(result.stdout)
    assert [(cost["pods"], cost["nodes"]) for cost in report["costs"]] == [
        ("spread", 20),
        ("spread", 40),
    ]
    less, more = report["costs"]
    (growth,) = report["growth"]
    assert growth["pipeline"] == pytest.approx(more["pipeline"] / less["pipeline"])
    over = max(growth["decision_median"], growth["decision_mean"], growth["pipeline"]) > 2
    assert result.exit_code == int(over)


def test_a_cluster_that_lives_on() -> None:
    arguments = ["--pods", "60", "--nodes", "6", "--new", "40", "--seconds", "1", "-o", "json"]
    result = CliRunner().invoke(steady.main, arguments)
    assert isinstance(result.exception, SystemExit | None), result.exception
    report = json.loads(result.stdout)
    assert report["bound"] == 41  # one of them after everything was listed again
    assert [phase["name"] for phase in report["phases"]] == ["starting", "running", "listing anew"]
    longest = [
        max(each["longest_ms"] for each in phase["pauses"]["collections"])
        for phase in report["phases"]
    ]
    assert longest[1] > 0
    assert result.exit_code == int(max(longest) > 20)


@pytest.mark.parametrize(
    ("main", "arguments", "row"),
    [
        (decision.main, ["--times", "2", "--nodes", "9", "basic"], "basic"),
        (queue.main, ["--pods", "900"], "900"),
    ],
)
def test_the_figures_of_a_part_in_both_forms(
    main: click.Command, arguments: list[str], row: str
) -> None:
    table = CliRunner().invoke(main, arguments, catch_exceptions=False).stdout
    in_json = CliRunner().invoke(main, [*arguments, "-o", "json"], catch_exceptions=False).stdout
    (figures,) = json.loads(in_json)
    assert str(figures["pods"]) == row
    assert row in table

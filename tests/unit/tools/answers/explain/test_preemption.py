"""`berth explain` of a pod that needs preemption."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from berth.actors.scheduling.decision.registry import build_profiles
from berth.actors.scheduling.plugins.default_preemption.victims import Candidate
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.load import from_mapping
from berth.config.types import API_VERSION, KIND
from berth.plugin import (
    SUCCESS,
    FailedAttempt,
    Nomination,
    Plugin,
    Pod,
    PodInfo,
    PostFiltered,
    PostFilterPlugin,
    Victims,
)
from berth.tools.answers.explain.decision import Decision, decide
from berth.tools.answers.explain.preemption_ranking import PreemptionRanking
from berth.tools.views.commands.explain import explain
from tests.kit.documents import Document, node, thing
from tests.kit.handle import NoApi
from tests.kit.snapshots import snapshot_of


def pod(
    name: str, cpu: int, on: str = "", priority: int = 0, started: int = 9, app: str = ""
) -> Document:
    """Returns a pod; `started` is the hour of its start."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
    spec = {"containers": [container], "priorityClassName": f"p{priority}"} | (
        {"nodeName": on} if on else {}
    )
    metadata = {"name": name, "labels": {"app": app}} if app else {"name": name}
    status = {"startTime": f"2026-01-01T{started:02}:00:00Z"} if on else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def budget(name: str) -> Document:
    """Returns a budget that allows no disruption."""
    spec = {"selector": {"matchLabels": {"app": name}}}
    return thing("PodDisruptionBudget", name, spec=spec)


def priority_class(value: int) -> Document:
    metadata = {"name": f"p{value}"}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": value,
    }


CLUSTER = [
    *map(priority_class, (0, 7, 100, 1000)),
    *(node(name) for name in ("best", "bound", "crowded", "dear", "early", "equal", "solid")),
    node("tiny", cpu=1),
    pod("latest", 4, "best"),
    pod("also-latest", 4, "equal"),
    pod("kept", 4, "bound", app="shop"),
    pod("valued", 4, "dear", priority=7),
    pod("one", 2, "crowded"),
    pod("two", 2, "crowded"),
    pod("old", 4, "early", started=1),
    pod("rock", 4, "solid", priority=1000),
    pod("urgent", 3, priority=100),
    budget("shop"),
    budget("nobody"),
]


def explanation(
    tmp_path: Path,
    *extra: str,
    configuration: Document | None = None,
    besides: Iterable[Document] = (),
) -> str:
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([*CLUSTER, *besides]))
    arguments = ["-f", str(tmp_path / "cluster.yaml"), "--pod", "urgent", *extra]
    if configuration is not None:
        (tmp_path / "config.yaml").write_text(
            yaml.safe_dump({"apiVersion": API_VERSION, "kind": KIND, "profiles": [configuration]})
        )
        arguments += ["--config", str(tmp_path / "config.yaml")]
    result = CliRunner().invoke(explain, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def rows(report: str) -> dict[str, list[str]]:
    """Returns the cells of the table lines that begin with a node's name, by that name."""
    cells = ([cell.strip() for cell in line.split("│")[1:-1]] for line in report.splitlines())
    return {row[0]: row[1:] for row in cells if row and row[0]}


def test_the_victims_and_why_each_other_node_was_not_chosen(tmp_path: Path) -> None:
    report = explanation(tmp_path)
    table = rows(report[report.index("nodes where preemption would help") :])
    assert list(table) == ["best", "equal", "early", "crowded", "dear", "bound"]
    assert table == {
        "best": ["default/latest (0, 2026-01-01T09:00:00Z)", "", "chosen"],
        "equal": [
            "default/also-latest (0, 2026-01-01T09:00:00Z)",
            "",
            "costs the same; chance decides",
        ],
        "early": [
            "default/old (0, 2026-01-01T01:00:00Z)",
            "",
            "its most important victim has run for longer",
        ],
        "crowded": ["default/one (0, 2026-01-01T09:00:00Z)", "", "2 victims, not 1"],
        "dear": [
            "default/valued (7, 2026-01-01T09:00:00Z)",
            "",
            "a victim of priority 7, not 0 at most",
        ],
        "bound": [
            "default/kept (0, 2026-01-01T09:00:00Z)",
            "shop",
            "victims against their budget: 1, not 0",
        ],
    }
    last = "default/urgent is nominated to best by DefaultPreemption: 1 pod is evicted first"
    assert f"{last} (or on another of best, equal, which cost the same, by chance)" in report


def test_of_many_candidates_the_cheapest_are_shown(tmp_path: Path) -> None:
    names = [f"dearer-{number}" for number in range(20)]
    besides = [each for name in names for each in (node(name), pod(f"on-{name}", 4, name, 7))]
    report = explanation(tmp_path, besides=besides)
    table = report[report.index("nodes where preemption would help") :]
    (rest,) = (line for line in table.splitlines() if " more " in line)
    assert sum(name in table for name in names) == 15
    assert "and 6 more" in rest  # and bound, whose budget would be violated
    assert "they cost as much, or more" in rest


def test_the_json_has_the_same_fields_as_the_recordings(tmp_path: Path) -> None:
    preemption = json.loads(explanation(tmp_path, "-o", "json"))["preemption"]
    assert preemption.keys() == {"nominatedNode", "victims", "alternatives", "candidates"}
    assert preemption["nominatedNode"] == "best"
    assert preemption["alternatives"] == ["best", "equal"]
    assert preemption["candidates"]["bound"] == {"victims": ["default/kept"], "pdbViolations": 1}
    assert preemption["candidates"]["crowded"] == {
        "victims": ["default/one", "default/two"],
        "pdbViolations": 0,
    }


def test_nodes_whose_budgets_must_not_be_violated_are_not_candidates(tmp_path: Path) -> None:
    args = {"name": "DefaultPreemption", "args": {"neverBreakBudgets": True}}
    candidates = json.loads(
        explanation(tmp_path, "-o", "json", configuration={"pluginConfig": [args]})
    )["preemption"]
    assert candidates["candidates"].keys() == {"best", "equal", "early", "crowded", "dear"}


def test_no_pod_goes_if_that_would_violate_a_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = {"best", "crowded", "dear", "early", "equal", "solid"}
    monkeypatch.setattr(
        f"{__name__}.CLUSTER",
        [document for document in CLUSTER if document["metadata"]["name"] not in bound],
    )
    args = {"name": "DefaultPreemption", "args": {"neverBreakBudgets": True}}
    decision = json.loads(
        explanation(tmp_path, "-o", "json", configuration={"pluginConfig": [args]})
    )
    assert decision["preemption"] is None
    assert decision["preemptionMessage"].endswith(
        "preemption: 0/2 nodes are available: 1 Preemption is not helpful for scheduling, "
        "1 preemption would break a PodDisruptionBudget."
    )


def victims(*priorities: int) -> Victims:
    documents = [
        {"metadata": {"name": str(i)}, "spec": {"priority": value}}
        for i, value in enumerate(priorities)
    ]
    return Victims(tuple(PodInfo(msgspec.convert(document, Pod)) for document in documents))


@pytest.mark.parametrize(
    ("best", "other", "why_not"),
    [
        ((5, 1), (5, 2), "priorities that add up to 7, not 6"),
        ((5, 1), (5, 1), ""),
        ((5,), (5, 1, 1), "3 victims, not 1"),
    ],
)
def test_the_last_criteria(best: tuple[int, ...], other: tuple[int, ...], why_not: str) -> None:
    least, more = Candidate("a", victims(*best)), Candidate("b", victims(*other))
    assert PreemptionRanking("DefaultPreemption", (least, more)).why_not(more) == why_not


class _Promising(Plugin):
    name = "Promising"


class _Promises(_Promising, PostFilterPlugin):
    """A plugin that nominates the last node, with none or all of its pods as victims."""

    everybody = False

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        info = attempt.snapshot.columns.infos[attempt.snapshot.columns.row_of["solid"]]
        assert info is not None
        return PostFiltered(
            SUCCESS, Nomination("solid", tuple(info.pods.values()) if self.everybody else ())
        )


@pytest.mark.parametrize("everybody", [True, False])
def test_a_nomination_by_a_users_plugin_is_shown(
    everybody: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DefaultPreemption is enabled and would choose another node, but it was not asked."""
    monkeypatch.setattr(_Promises, "everybody", everybody)
    enabled = [{"name": "Promising"}, {"name": "DefaultPreemption"}]
    plugins = {"postFilter": {"enabled": enabled, "disabled": [{"name": "*"}]}}
    document = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"plugins": plugins}]}
    profile = build_profiles(from_mapping(document), {**IN_TREE, "Promising": _Promises}, NoApi())[
        "default-scheduler"
    ]
    rock = pod("rock", 4, "solid")
    rock["metadata"]["namespace"] = "default"
    rock["spec"]["priority"] = 0
    preemptor = PodInfo(
        msgspec.convert({"metadata": {"name": "p"}, "spec": {**rock["spec"], "priority": 1}}, Pod)
    )
    decision = decide(profile, preemptor, snapshot_of([node("best"), node("solid"), rock], set()))
    assert isinstance(decision, Decision)
    assert decision.preemption is not None
    assert decision.preemption.nominated_node == "solid"
    assert decision.preemption.alternatives == ["solid"]
    assert decision.preemption.victims == (["default/rock"] if everybody else [])

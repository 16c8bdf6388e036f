"""berth makes every recorded decision of kube-scheduler 1.36 again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of
from berth.config.load import from_mapping
from berth.tools.answers.explain.decision import decide
from tests.golden.scenarios import difference, faults, load, overruled
from tests.kit.handle import NoApi
from tests.kit.snapshots import snapshot_of

DOCS = Path(__file__).parents[2] / "docs"
CATEGORIES = (
    "resources",
    "scoring",
    "nodeaffinity",
    "taints",
    "interpodaffinity",
    "topologyspread",
    "basics",
    "profiles",
    "preemption",
    "mixed",
    "volumes",
    "dra",
)


def decided(scenario: dict[str, Any]) -> dict[str, Any]:
    """Returns berth's decision in the form of the recording."""
    profiles = profiles_of(from_mapping(scenario["config"]), NoApi())
    pod = msgspec.convert(scenario["pod"], Pod)
    info = PodInfo(pod)
    decision = decide(
        profiles[pod.spec.scheduler_name],
        info,
        snapshot_of(scenario["objects"], profiles.keys(), info),
    )
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(decision))
    return document


@pytest.mark.parametrize("category", CATEGORIES)
def test_decisions_equal_the_recorded_ones(category: str, recordings: Path) -> None:
    exceptions = overruled()
    for scenario in load(recordings, category):
        differences = difference(decided(scenario), scenario["expect"])
        expected = exceptions.get(scenario["name"], [])
        assert sorted(differences) == expected, f"{scenario['name']}: {differences}"


def test_a_recording_is_overruled_for_a_fault_that_the_page_lists() -> None:
    page = (DOCS / "differences.md").read_text()
    for subject in faults():
        assert f"| {subject} |" in page

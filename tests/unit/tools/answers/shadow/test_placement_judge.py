"""How a placement is compared with berth's decision."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of
from berth.config.load import from_mapping
from berth.tools.answers.explain.plugin_handle import ReadOnlyHandle
from berth.tools.answers.shadow.placement_judge import Agreement, Comparison, judge
from tests.kit.daemon import node, pod
from tests.kit.documents import thing
from tests.kit.snapshots import snapshot_of

PROFILES = profiles_of(from_mapping(None), ReadOnlyHandle())
ZONE = "topology.kubernetes.io/zone"


def judged(on: str, asked: dict[str, Any], *objects: dict[str, Any]) -> Comparison:
    info = PodInfo(Reader(Pod).convert(asked))
    snapshot = snapshot_of(objects, PROFILES.keys())
    return judge(PROFILES["default-scheduler"], info, snapshot, on)


def test_the_best_node_is_the_same() -> None:
    nodes = node("a"), node("b"), pod("busy", cpu="2", nodeName="b")
    assert judged("a", pod("asked"), *nodes) == Comparison(Agreement.SAME)


def test_one_of_several_equal_nodes_is_a_tie() -> None:
    comparison = judged("b", pod("asked"), node("a"), node("b"))
    assert comparison == Comparison(Agreement.TIE, "2 nodes are equally good")


def test_a_worse_node_is_different_with_the_scores() -> None:
    nodes = node("a"), node("b"), pod("busy", cpu="2", nodeName="b")
    comparison = judged("b", pod("asked"), *nodes)
    assert comparison.agreement is Agreement.DIFFERENT
    assert comparison.reason.startswith("berth prefers a by ")
    assert "NodeResourcesFit" in comparison.reason


@pytest.mark.parametrize(
    ("on", "reason"),
    [
        ("small", "berth rejects small: NodeResourcesFit: Insufficient cpu"),
        ("gone", "berth does not know the node gone"),
    ],
)
def test_a_node_that_does_not_fit_is_different_with_its_verdict(on: str, reason: str) -> None:
    comparison = judged(on, pod("asked", cpu="2"), node("small", "1"), node("large"))
    assert comparison == Comparison(Agreement.DIFFERENT, reason)


def test_the_node_of_a_chosen_volume_is_held() -> None:
    volume = thing(
        "PersistentVolume",
        "pv",
        labels={ZONE: "z"},
        spec={"claimRef": {"namespace": "default", "name": "data", "uid": "u"}},
    )
    claim = thing(
        "PersistentVolumeClaim",
        "data",
        uid="u",
        annotations={"pv.kubernetes.io/bind-completed": "yes"},
        spec={"volumeName": "pv"},
        status={"phase": "Bound"},
    )
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    nodes = node("a", **{ZONE: "z"}), node("b", **{ZONE: "y"})
    comparison = judged("a", pod("asked", volumes=volumes), volume, claim, *nodes)
    assert comparison.agreement is Agreement.HELD


def test_a_worse_node_of_many_is_sampled() -> None:
    nodes = [node(f"n{number}", "4" if number else "8") for number in range(150)]
    asked = pod("asked", cpu="1")
    comparison = judged("n7", asked, *nodes)
    assert comparison.agreement is Agreement.SAMPLED
    assert comparison.reason.endswith("if all nodes are looked at")
    assert judged("n7", asked, *nodes[:90]).agreement is Agreement.DIFFERENT


def test_a_pod_that_a_prefilter_rejects_is_placed_nowhere() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}]
    comparison = judged("a", pod("asked", volumes=volumes), node("a"))
    assert comparison.reason == (
        'berth places it nowhere: VolumeRestrictions: persistentvolumeclaim "absent" not found'
    )

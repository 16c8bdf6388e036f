"""Numbers of any size that plugins count, weigh and add, besides resources: nothing wraps or
raises.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from berth.plugin import PodInfo, Snapshot, default_normalize
from berth.tools.answers.explain.decision import Decision, decide
from tests.kit import documents, structs
from tests.kit.hints import profile
from tests.kit.snapshots import snapshot_of

MOST = (1 << 63) - 1
DEFAULT = profile()


def node(name: str, **status: Any) -> dict[str, Any]:
    return documents.node(name, pods="10", labels={"zone": name}, status=status)


def pod(**spec: Any) -> PodInfo:
    return structs.pod_info(namespace="default", labels={"app": "web"}, **spec)


def running(name: str, on: str, **spec: Any) -> dict[str, Any]:
    return documents.pod(name, node=on, labels={"app": "web"}, **spec)


def cluster(*objects: dict[str, Any]) -> Snapshot:
    return snapshot_of(list(objects))


def scores(plugin: str, info: PodInfo, snapshot: Snapshot) -> dict[str, int]:
    decision = decide(DEFAULT, info, snapshot)
    assert isinstance(decision, Decision), decision
    return decision.score[plugin]


def test_images_of_any_size() -> None:
    images = [f"i{number}:1" for number in range(5)]
    listed = [{"names": [image], "sizeBytes": MOST} for image in images]
    shrunk = [{"names": [image], "sizeBytes": -MOST} for image in images]
    info = pod(containers=[{"image": image} for image in images])
    assert scores("ImageLocality", info, cluster(node("a", images=listed), node("b"))) == {
        "a": 100,
        "b": 0,
    }
    assert scores("ImageLocality", info, cluster(node("a", images=shrunk), node("b"))) == {
        "a": 0,
        "b": 0,
    }


@pytest.mark.parametrize("weight", [100, (1 << 31) - 1])
def test_weights_of_any_size(weight: int) -> None:
    in_a = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    in_any = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    soft = [{"weight": weight, "preference": in_a}] * 3 + [
        {"weight": weight, "preference": in_any}
    ] * 3
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": soft}}
    assert scores("NodeAffinity", pod(affinity=preferred), cluster(node("a"), node("b"))) == {
        "a": 200,
        "b": 100,
    }
    near = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    terms = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "podAffinityTerm": near}
        ]
        * 3
    }
    both = {"podAffinity": terms}
    pods = [
        running("x", "a", affinity=both),
        running("y", "a", affinity=both),
        running("z", "b", affinity=both),
    ]
    by_node = scores(
        "InterPodAffinity", pod(affinity=both), cluster(node("a"), node("b"), node("c"), *pods)
    )
    assert by_node == {"a": 200, "b": 100, "c": 0}
    away = scores(
        "InterPodAffinity",
        pod(affinity={"podAntiAffinity": terms}),
        cluster(node("a"), node("b"), *pods[:1]),
    )
    assert set(away) == {"a", "b"}


@pytest.mark.parametrize("skew", [1, (1 << 31) - 1])
@pytest.mark.parametrize("when", ["DoNotSchedule", "ScheduleAnyway"])
def test_skews_of_any_size(skew: int, when: str) -> None:
    constraint = {
        "maxSkew": skew,
        "topologyKey": "zone",
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "web"}},
        "minDomains": skew if when == "DoNotSchedule" else None,
    }
    info = pod(topologySpreadConstraints=[constraint] * 3)
    decision = decide(DEFAULT, info, cluster(node("a"), node("b"), running("x", "a")))
    assert isinstance(decision, Decision)
    if when == "ScheduleAnyway":
        assert decision.score["PodTopologySpread"]["b"] >= decision.score["PodTopologySpread"]["a"]
    else:
        assert (decision.filter["a"].code == "Success") == (skew > 1)


@pytest.mark.parametrize("reverse", [False, True])
def test_scores_of_any_size_are_scaled(reverse: bool) -> None:
    raw = np.array([0, MOST // 2, MOST], dtype=np.int64)
    assert default_normalize(raw, reverse=reverse).tolist() == (
        [100, 51, 0] if reverse else [0, 49, 100]
    )


@pytest.mark.parametrize("number", [61, 62, 63, 64, 200])
def test_any_number_of_resources_may_be_insufficient(number: int) -> None:
    names = [f"example.com/r{i}" for i in range(number)]
    info = pod(containers=[{"resources": {"requests": dict.fromkeys(names, "1")}}])
    half = dict.fromkeys(names[::2], "1")
    full = running("x", "a", containers=[{"resources": {"requests": {names[0]: "1"}}}])
    snapshot = cluster(node("a", allocatable={"pods": "1", **half}), node("b"), full)
    decision = decide(DEFAULT, info, snapshot)
    assert isinstance(decision, Decision)
    lacking = {f"Insufficient {name}" for name in names[1::2]} | {
        f"Insufficient {names[0]}",
        "Too many pods",
    }
    assert set(decision.filter["a"].reasons) == lacking
    assert set(decision.filter["b"].reasons) == {f"Insufficient {name}" for name in names}

"""ImageLocality: which sizes count, and which one if nodes report different ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.plugin import Pod, PodInfo
from berth.tools.answers.explain.decision import Decision, decide
from tests.kit.daemon import node, pod
from tests.kit.hints import profile
from tests.kit.snapshots import snapshot_of

MEBIBYTE = 1 << 20


def node_with_image(name: str, size: int) -> dict[str, Any]:
    document = node(name)
    document["status"]["images"] = [{"names": ["web:1"], "sizeBytes": size}]
    return document


def scores(*nodes: dict[str, Any]) -> dict[str, int]:
    """Returns the score of each node for a pod with the image."""
    web = pod("web")
    web["spec"]["containers"] = [{"image": "web:1"}]
    info = PodInfo(msgspec.convert(web, Pod))
    decision = decide(profile(), info, snapshot_of(nodes, {"default-scheduler"}))
    assert isinstance(decision, Decision)
    return dict(decision.score["ImageLocality"])


@pytest.mark.parametrize(
    ("mebibytes", "score"), [(22, 0), (32, 0), (33, 1), (999, 99), (1000, 100), (5000, 100)]
)
def test_an_image_counts_from_23_to_1000_mebibytes(mebibytes: int, score: int) -> None:
    nodes = [node_with_image(name, mebibytes * MEBIBYTE) for name in "ab"]
    assert scores(*nodes) == {"a": score, "b": score}


def test_an_image_has_the_size_that_its_first_node_reports() -> None:
    """kube-scheduler 1.36.2 keeps it until no node has the image: seen with a kubelet that reports
    no size.
    """
    nodes = [node_with_image("a", 1000 * MEBIBYTE), node_with_image("b", 0), node("c")]
    assert scores(*nodes) == {"a": 65, "b": 65, "c": 0}

"""ImageLocality: which size counts if nodes report different ones."""

from __future__ import annotations

from typing import Any

import msgspec

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


def test_an_image_has_the_size_that_its_first_node_reports() -> None:
    """kube-scheduler 1.36.2 keeps it until no node has the image: seen with a kubelet that reports
    no size.
    """
    web = pod("web")
    web["spec"]["containers"] = [{"image": "web:1"}]
    info = PodInfo(msgspec.convert(web, Pod))
    nodes = [node_with_image("a", 1000 * MEBIBYTE), node_with_image("b", 0), node("c")]
    decision = decide(profile(), info, snapshot_of(nodes, {"default-scheduler"}))
    assert isinstance(decision, Decision)
    assert decision.score["ImageLocality"] == {"a": 65, "b": 65, "c": 0}

"""ImageLocality: which sizes count, and which one if nodes report different ones.

The rows of upstream are those of TestImageLocalityPriority in Kubernetes'
imagelocality/image_locality_test.go, 1.36.2, with the score of image volumes since 1.37.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.config.feature_gates import defaults_of
from berth.config.versions import VERSIONS
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
    decision = decide(profile(), info, snapshot_of(nodes))
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


# The images on a node with their sizes in MiB, by the node of the rows.
FIRST, SECOND = {"40": 40, "300": 300, "2000": 2000}, {"250": 250, "10": 10}
LARGE, LARGER = {"600": 600, "40": 40, "900": 900}, {"300": 300, "600": 600, "900": 900}
MIXED, SMALL = {"4000": 4000, "30": 30}, {"20": 20, "30": 30, "40": 40}


@pytest.mark.parametrize(
    ("containers", "others", "nodes", "before", "since"),
    [
        ("40 250", {}, (FIRST, SECOND), [0, 5], [0, 5]),
        ("40 300", {}, (FIRST, SECOND), [7, 0], [7, 0]),
        ("10 4000", {}, (MIXED, SECOND), [100, 0], [100, 0]),
        ("10 4000", {}, (MIXED, SECOND, {}), [66, 0, 0], [66, 0, 0]),
        ("300 600 900", {}, (LARGE, LARGER, {}), [32, 36, 0], [32, 36, 0]),
        ("30 40", {}, (SMALL, MIXED), [1, 0], [1, 0]),
        ("30", {"volumes": "300"}, (LARGER, MIXED), [12, 0], [6, 0]),
        ("30", {"initContainers": "300"}, (FIRST, SMALL), [6, 0], [6, 0]),
        # A container and a volume with the same images score alike.
        ("300", {"volumes": "600"}, (LARGER, {}), [43, 0], [21, 0]),
        ("300 600", {}, (LARGER, {}), [21, 0], [21, 0]),
        ("300", {"volumes": "600", "initContainers": "900"}, (LARGER, {}), [44, 0], [29, 0]),
        ("300", {"volumes": "1 2 3"}, (LARGER, {}), [12, 0], [3, 0]),
    ],
)
@pytest.mark.parametrize("minor", [36, 37])
def test_the_rows_of_upstream(
    containers: str,
    others: dict[str, str],
    nodes: tuple[dict[str, int], ...],
    before: list[int],
    since: list[int],
    minor: int,
) -> None:
    kinds = {"containers": containers, **others}
    subject = pod("web")
    for kind, names in kinds.items():
        images = [f"gcr.io/{name}" for name in names.split()]
        subject["spec"][kind] = [
            {"name": str(number), "image": {"reference": image} if kind == "volumes" else image}
            for number, image in enumerate(images)
        ]
    cluster = []
    for number, images_there in enumerate(nodes):
        document = node(f"node{number}")
        document["status"]["images"] = [
            {"names": [f"gcr.io/{name}:latest"], "sizeBytes": size * MEBIBYTE}
            for name, size in images_there.items()
        ]
        cluster.append(document)
    decision = decide(
        profile(gates=defaults_of(VERSIONS[minor])),
        PodInfo(msgspec.convert(subject, Pod)),
        snapshot_of(cluster),
    )
    assert isinstance(decision, Decision)
    scored = [dict(decision.score["ImageLocality"])[f"node{n}"] for n in range(len(nodes))]
    assert scored == (before if minor == 36 else since)

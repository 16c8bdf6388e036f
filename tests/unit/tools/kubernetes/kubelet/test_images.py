"""Pulls of images: their time, failures and back-off, and what nodes have."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.kubelet.images import Images, is_pulled
from tests.kit import documents
from tests.kit.documents import Document


def pod(image: str = "x", **annotations: str) -> Document:
    named = {f"berth.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    container = {"name": "c", "image": image}
    return documents.pod(node="n", annotations=named, containers=[container])


def test_a_pull_takes_time_by_size_unless_the_node_has_the_image() -> None:
    images = Images()
    large = pod(image_size="1000Mi")
    assert is_pulled(large)
    assert not is_pulled(pod())
    assert (images.pull(large, 100, 105).reason, images.pull(large, 100, 105).due) == (
        "ContainerCreating",
        110,
    )
    assert images.pull(large, 100, 110).reason == ""
    assert images.add(large)
    assert not images.add(large)
    assert images.pull(large, 200, 200).reason == ""
    assert images.status("n") == [{"names": ["x"], "sizeBytes": 1000 << 20}]


@pytest.mark.parametrize(
    ("now", "reason", "due"),
    [
        (105, "ContainerCreating", 110),
        (110, "ErrImagePull", 112),
        (112, "ImagePullBackOff", 130),
        (130, "ErrImagePull", 132),
        (150, "ImagePullBackOff", 160),
        (160, "", 160),
    ],
)
def test_failed_pulls_back_off(now: float, reason: str, due: float) -> None:
    failing = pod(image_size="1000Mi", pull_failures="2")
    pull = Images().pull(failing, 100, now)
    assert (pull.reason, pull.due) == (reason, due)


def test_the_back_off_ends_at_five_minutes() -> None:
    failing = pod(pull_failures="always")
    images, now, waits = Images(), 100.0, []
    for _ in range(9):
        now = images.pull(failing, 100, now).due
        begun = now
        now = images.pull(failing, 100, now).due
        waits.append(now - begun + 2)
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300, 300]


def test_nodes_report_their_largest_images() -> None:
    images = Images()
    node = {"metadata": {"name": "n"}, "status": {"images": [{"names": ["big"], "sizeBytes": 9}]}}
    images.put(node)
    for number in range(60):
        images.add(pod(f"i{number:02}", image_size="1"))
    listed = images.status("n")
    assert len(listed) == 50
    assert listed[0] == {"names": ["big"], "sizeBytes": 9}
    images.forget("n")
    assert images.status("n") == []


def test_an_image_that_the_node_no_longer_lists_is_pulled_again() -> None:
    images, large = Images(), pod(image_size="1000Mi")
    node: Document = {"metadata": {"name": "n"}, "status": {"images": []}}
    images.add(large)
    images.put(node)
    assert images.pull(large, 0, 0).reason == ""  # the status is older than the pull
    images.put({**node, "status": {"images": images.status("n")}})
    images.put(node)
    assert images.pull(large, 0, 0).reason == "ContainerCreating"

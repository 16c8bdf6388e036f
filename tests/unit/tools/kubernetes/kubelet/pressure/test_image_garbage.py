"""Garbage collection of images: when it begins, which images go, and what is said if it fails."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from berth.actors.scheduling.kube.core import ContainerImage
from berth.tools.kubernetes.kubelet.pressure.image_garbage import Collector
from berth.tools.kubernetes.kubelet.pressure.kubelet_settings import DEFAULTS
from berth.tools.kubernetes.kubelet.pressure.thresholds import Amount, Observation, Threshold
from berth.tools.kubernetes.objects.structs import Pod, read
from tests.kit import documents
from tests.kit.pressure import Kubelets

GI = 1 << 30


def image(name: str, size: int) -> ContainerImage:
    return ContainerImage(names=(name,), size_bytes=size * GI)


def pod(name: str, image_: str) -> Pod:
    return read(documents.pod(name, containers=[{"name": "c", "image": image_}]), Pod)


def disk(used: int) -> Observation:
    return Observation((100 - used) * GI, 100 * GI)


IMAGES = [image("a", 4), image("b", 4), image("c", 4), image("used:latest", 20)]


def collected(collector: Collector, used: int, now: float) -> list[str]:
    left = collector.collect(IMAGES, [pod("p", "used")], disk(used), now).images
    return [each.names[0] for each in IMAGES if each not in left]


@pytest.mark.parametrize(
    ("used", "gone"), [(84, []), (85, ["b", "c"]), (88, ["b", "c"]), (89, ["a", "b", "c"])]
)
def test_the_images_used_longest_ago_go_until_the_low_mark(used: int, gone: list[str]) -> None:
    collector = Collector(DEFAULTS)
    collector.detect(IMAGES, 0)
    collector.note_end(pod("x", "b"), 100)
    collector.note_end(pod("y", "c"), 200)
    collector.note_end(pod("z", "a"), 300)
    assert collected(collector, used, 1000) == gone


def test_images_of_one_age_go_in_the_order_in_which_they_came() -> None:
    collector = Collector(DEFAULTS)
    for count in (4, 3, 2, 1):
        collector.detect(IMAGES[count - 1 :], 100 - count)
    assert collected(collector, 85, 1000) == ["b", "c"]


def test_images_stay_for_their_least_age() -> None:
    collector = Collector(DEFAULTS)
    collector.detect(IMAGES, 0)
    assert collected(collector, 90, 119) == []
    assert collected(collector, 85, 120) == ["a", "b"]


def test_what_cannot_be_freed_is_said() -> None:
    collector = Collector(DEFAULTS)
    collector.detect(IMAGES, 0)
    assert collector.collect(IMAGES, [pod("p", "used")], disk(95), 1000).problem == (
        "Insufficient free disk space on the node's image filesystem (95% of 100.0 GiB used). "
        f"Failed to free sufficient space by deleting unused images (freed {12 * GI} bytes). "
        "Investigate disk usage, as it could be used by active images, logs, volumes, or other "
        "data."
    )


def test_a_high_mark_of_100_percent_switches_it_off() -> None:
    collector = Collector(replace(DEFAULTS, image_high=100))
    assert not collector.is_due(disk(100))


def node_with(images: list[tuple[str, int]]) -> Kubelets:
    listed = [{"names": [name], "sizeBytes": size * GI} for name, size in images]
    return Kubelets(1, replace(DEFAULTS, thresholds=()), status={"images": listed})


def test_a_kubelet_collects_every_five_minutes_while_the_disk_grows() -> None:
    world = node_with([("old", 10), ("used", 5)])
    containers = [{"name": "app", "image": "used"}]
    world.start("node-1", "ephemeral-storage=60Gi+10Mi/s to 74Gi", containers=containers)
    world.run(3600)
    # 70Gi are not exceeded for 1024 seconds; the next multiple of 300 is 1200.
    ((at, said),) = [entry for entry in world.history if "images [" in entry[1]]
    assert said == "node-1: images ['used']"
    assert 1024 <= at <= 1330
    assert world.looks < 60


def test_a_kubelet_that_frees_too_little_says_so_and_from_the_second_time_twice() -> None:
    world = node_with([("used", 5)])
    containers = [{"name": "app", "image": "used"}]
    world.start("node-1", "ephemeral-storage=90Gi", containers=containers)
    world.run(400)
    reasons = [text.split(": ")[1] for _, text in world.history]
    assert reasons == ["FreeDiskSpaceFailed", "FreeDiskSpaceFailed", "ImageGCFailed"]


@pytest.mark.parametrize(("limit", "evicted"), [(None, 1), (1000, 0)])
def test_a_pod_has_no_more_processes_than_its_limit(limit: int | None, evicted: int) -> None:
    few = Threshold("pid.available", Amount("1k"))
    world = Kubelets(1, replace(DEFAULTS, thresholds=(few,), most_pids=limit))
    world.start("node-1", "pids=100+100/s")
    world.run(600)
    assert sum("Evicted" in said for said in world.said()) == evicted

"""Ranking for eviction against a slow model: pods compared two by two, as the kubelet does it."""

from __future__ import annotations

from functools import cmp_to_key

from hypothesis import given
from hypothesis import strategies as st

from berth.tools.kubernetes.kubelet.pressure.eviction_ranking import Layout, eviction_order
from berth.tools.kubernetes.kubelet.pressure.thresholds import CONDITIONS, PIDS
from berth.tools.kubernetes.kubelet.usage_models import ContainerUsage, PodUsage, VolumeUsage
from berth.tools.kubernetes.objects.structs import Pod, read
from tests.kit import documents

AMOUNTS = st.integers(0, 4)
SIGNALS = [signal for signal in CONDITIONS if signal.endswith("available")]
INODES = [signal for signal in CONDITIONS if signal.endswith("inodesFree")]
# What of a pod is on the file system of a signal, by the file systems of the node.
LOGS_AND_VOLUMES = ("logs", "volumes")
EVERYTHING = ("rootfs", *LOGS_AND_VOLUMES)
ON_DISK = {
    (Layout.DEDICATED, "nodefs"): LOGS_AND_VOLUMES,
    (Layout.DEDICATED, "imagefs"): ("rootfs",),
    (Layout.DEDICATED, "containerfs"): ("rootfs",),
    (Layout.SPLIT, "imagefs"): (),
}


@st.composite
def measured(draw: st.DrawFn, number: int) -> tuple[Pod, PodUsage | None]:
    name = f"p{number}"
    requests = {"memory": draw(AMOUNTS), "ephemeral-storage": draw(AMOUNTS)}
    document = documents.pod(
        name,
        priority=draw(st.integers(-1, 1)),
        requests=requests,
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    fields = ("memory", "rootfs", "logs", "inodes", "pids")
    container = ContainerUsage("c", **{field: draw(AMOUNTS) for field in fields})
    volume = VolumeUsage("v", draw(AMOUNTS), draw(AMOUNTS), draw(st.booleans()))
    usage = PodUsage((container,), (volume,)) if draw(st.integers(0, 5)) else None
    return read(document, Pod), usage


@st.composite
def nodes(draw: st.DrawFn) -> list[tuple[Pod, PodUsage | None]]:
    return [draw(measured(number)) for number in range(draw(st.integers(0, 6)))]


def sign(number: int) -> int:
    return (number > 0) - (number < 0)


def compared(
    signal: str, layout: Layout, a: tuple[Pod, PodUsage | None], b: tuple[Pod, PodUsage | None]
) -> int:
    """Returns -1 if the first pod is evicted before the second."""
    by_priority = sign((a[0].spec.priority or 0) - (b[0].spec.priority or 0))
    if a[1] is None or b[1] is None:
        unmeasured = (a[1] is not None) - (b[1] is not None)
        return by_priority or unmeasured if signal == PIDS else unmeasured or by_priority
    if signal == PIDS:
        return by_priority or sign(b[1].pids - a[1].pids)
    used = [amount(signal, layout, usage) for usage in (a[1], b[1])]
    requests = [pod.spec.containers[0].resources.requests for pod in (a[0], b[0])]
    resource = "memory" if "emory" in signal else "ephemeral-storage"
    requested = [int(request[resource]) for request in requests]
    exceeded = [0, 0] if signal in INODES else requested
    exceeds = [used[i] > exceeded[i] for i in range(2)]
    beyond = [used[i] - requested[i] for i in range(2)]
    return (exceeds[1] - exceeds[0]) or by_priority or sign(beyond[1] - beyond[0])


def amount(signal: str, layout: Layout, usage: PodUsage) -> int:
    if "emory" in signal:
        return usage.memory
    parts = ON_DISK.get((layout, signal.partition(".")[0]), EVERYTHING)
    container, volume = usage.containers[0], usage.volumes[0]
    if signal in INODES:
        amounts = {"rootfs": container.inodes, "logs": 0, "volumes": volume.inodes}
    else:
        amounts = {"rootfs": container.rootfs, "logs": container.logs, "volumes": volume.used}
    if volume.in_memory:
        amounts["volumes"] = 0
    return sum(amounts[part] for part in parts)


@given(nodes(), st.sampled_from([*SIGNALS, *INODES]), st.sampled_from(Layout))
def test_pods_are_ranked_as_when_they_are_compared_two_by_two(
    node: list[tuple[Pod, PodUsage | None]], signal: str, layout: Layout
) -> None:
    by_uid = {pod.metadata.uid: (pod, usage) for pod, usage in node}
    stats = {uid: usage for uid, (_, usage) in by_uid.items() if usage is not None}
    fast = [pod.metadata.uid for pod in eviction_order(signal, [p for p, _ in node], stats, layout)]

    def compare(a: str, b: str) -> int:
        return compared(signal, layout, by_uid[a], by_uid[b])

    assert fast == sorted(by_uid, key=cmp_to_key(compare))

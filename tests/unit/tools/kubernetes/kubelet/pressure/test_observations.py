"""What is available on a node, by the file systems that it has."""

from __future__ import annotations

import msgspec
import pytest

from berth.tools.kubernetes.kubelet.pressure.eviction_ranking import Layout
from berth.tools.kubernetes.kubelet.pressure.observations import (
    Machine,
    has_same_machine,
    machine_of,
    observe,
)
from berth.tools.kubernetes.kubelet.pressure.thresholds import Observation
from berth.tools.kubernetes.kubelet.usage_models import DeadContainer
from berth.tools.kubernetes.objects.structs import Node, read

from .objects import uses

Gi = 1 << 30


def machine(**annotations: str) -> Machine:
    return machine_of(node(**annotations))


def node(**annotations: str) -> Node:
    document = {
        "metadata": {
            "name": "n",
            "annotations": {f"berth.dev/{k.replace('_', '-')}": v for k, v in annotations.items()},
        },
        "status": {
            "capacity": {"memory": "16Gi", "ephemeral-storage": "100Gi"},
            "allocatable": {"memory": "15Gi", "ephemeral-storage": "90Gi"},
        },
    }
    return read(document, Node)


def available(machine_: Machine) -> dict[str, int]:
    """Returns the disks in Gi: a pod has 1 in layers, 2 in logs, 4 in volumes, 8 is dead, 16 are
    images.
    """
    used = uses("p", rootfs="1Gi", logs="2Gi", volume="4Gi")
    dead = DeadContainer("q", "", rootfs=8 * Gi)
    observed = observe(machine_, [used], [dead], 16 * Gi)
    return {
        signal.removesuffix(".available"): observation.available // Gi
        for signal, observation in observed.items()
        if signal.endswith("fs.available")
    }


def test_what_a_machine_is_read_from_is_compared() -> None:
    assert has_same_machine(node(imagefs="50Gi"), node(imagefs="50Gi"))
    assert not has_same_machine(node(imagefs="50Gi"), node(imagefs="60Gi"))
    before = node()
    for field in ("capacity", "allocatable"):
        more = msgspec.structs.replace(before.status, **{field: {"memory": "32Gi"}})
        assert not has_same_machine(before, msgspec.structs.replace(before, status=more))


def test_one_file_system_holds_everything() -> None:
    left = 100 - 1 - 2 - 4 - 8 - 16
    assert available(machine()) == dict.fromkeys(("nodefs", "imagefs", "containerfs"), left)


def test_a_dedicated_file_system_holds_images_and_containers() -> None:
    left = 50 - 1 - 8 - 16
    assert available(machine(imagefs="50Gi")) == {
        "nodefs": 100 - 2 - 4,
        "imagefs": left,
        "containerfs": left,
    }


def test_a_split_file_system_holds_images_alone() -> None:
    left = 100 - 1 - 2 - 4 - 8
    assert available(machine(split_imagefs="50Gi")) == {
        "nodefs": left,
        "imagefs": 50 - 16,
        "containerfs": left,
    }


@pytest.mark.parametrize("text", ["", "much", "0", "-1Gi"])
def test_an_annotation_that_is_no_size_counts_as_absent(text: str) -> None:
    assert machine(imagefs=text).layout is Layout.SHARED


def test_memory_and_processes_are_what_pods_leave() -> None:
    used = [uses("p", memory="10Gi", pids=100, inodes=1000), uses("q", memory="3Gi")]
    observed = observe(machine(), used, [DeadContainer("q", "", inodes=10)], 0)
    assert observed["memory.available"] == Observation(3 * Gi, 16 * Gi)
    assert observed["allocatableMemory.available"] == Observation(2 * Gi, 15 * Gi)
    assert observed["pid.available"] == Observation(32_668, 32_768)
    inodes = observed["nodefs.inodesFree"]
    assert inodes.capacity == 100 * Gi // 16_384
    assert inodes.capacity - inodes.available == 1010


def test_what_is_exhausted_is_0_and_what_a_node_does_not_say_is_not_observed() -> None:
    observed = observe(machine(), [uses("p", memory="20Gi")], [], 0)
    assert observed["memory.available"].available == 0
    assert list(observe(Machine(0, 0, 0), [], [], 0)) == ["pid.available"]

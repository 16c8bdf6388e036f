"""The disks that a pod names directly."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_template import Disk, PodTemplate


def disks(*volumes: dict[str, Any]) -> tuple[Disk, ...]:
    return PodTemplate(msgspec.convert({"spec": {"volumes": list(volumes)}}, Pod)).disks


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({}, []),
        ({"persistentVolumeClaim": {"claimName": "c"}}, []),
        ({"azureDisk": {"diskURI": "d"}}, []),
        ({"gcePersistentDisk": {"pdName": "d"}}, [(("gce", "d"), False)]),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, [(("gce", "d"), True)]),
        # EBS volumes cannot be shared by readers either.
        ({"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}}, [(("aws", "v"), False)]),
        ({"iscsi": {"iqn": "i", "readOnly": True}}, [(("iscsi", "i"), True)]),
        (
            {"rbd": {"monitors": ["a", "b"], "pool": "p", "image": "i"}},
            [(("rbd", "a", "p", "i"), False), (("rbd", "b", "p", "i"), False)],
        ),
        ({"rbd": {"image": "i"}}, []),
    ],
)
def test_disks_of_a_volume(
    volume: dict[str, Any], expected: list[tuple[tuple[str, ...], bool]]
) -> None:
    assert [(disk.identity, disk.read_only) for disk in disks({"name": "v", **volume})] == expected


def test_a_volume_may_be_of_several_kinds() -> None:
    volume = {"gcePersistentDisk": {"pdName": "d"}, "iscsi": {"iqn": "d"}}
    assert [disk.identity for disk in disks(volume, volume)] == [("gce", "d"), ("iscsi", "d")] * 2

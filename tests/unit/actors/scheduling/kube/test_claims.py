"""Claims of volumes: their names, classes and owners."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.claims import (
    claim_name,
    class_of,
    controller_uid,
    not_found,
    not_made_for,
)
from berth.actors.scheduling.kube.core import Pod, Volume
from berth.actors.scheduling.kube.storage import PersistentVolumeClaim

POD = msgspec.convert({"metadata": {"namespace": "ns", "name": "web", "uid": "1"}}, Pod)
BETA = "volume.beta.kubernetes.io/storage-class"


@pytest.mark.parametrize(
    ("volume", "name"),
    [
        ({"persistentVolumeClaim": {"claimName": "c"}}, "c"),
        ({"persistentVolumeClaim": {}}, ""),
        ({"ephemeral": {}}, "web-v"),
        ({"gcePersistentDisk": {"pdName": "d"}}, None),
    ],
)
def test_name_of_a_volumes_claim(volume: dict[str, Any], name: str | None) -> None:
    assert claim_name(POD, msgspec.convert({"name": "v", **volume}, Volume)) == name


@pytest.mark.parametrize(
    ("annotations", "spec", "name"),
    [
        ({}, {}, ""),
        ({}, {"storageClassName": None}, ""),
        ({}, {"storageClassName": "fast"}, "fast"),
        ({BETA: "slow"}, {"storageClassName": "fast"}, "slow"),
        ({BETA: ""}, {"storageClassName": "fast"}, ""),
    ],
)
def test_class_of_a_claim(annotations: dict[str, str], spec: dict[str, Any], name: str) -> None:
    document = {"metadata": {"annotations": annotations}, "spec": spec}
    assert class_of(msgspec.convert(document, PersistentVolumeClaim)) == name


@pytest.mark.parametrize(
    ("owners", "uid"),
    [
        ([], ""),
        ([{"uid": "1"}], ""),
        ([{"uid": "0"}, {"uid": "1", "controller": True}], "1"),
        ([{"uid": "2", "controller": True}, {"uid": "1", "controller": True}], "2"),
    ],
)
def test_the_controller_is_the_first_owner_that_says_so(
    owners: list[dict[str, Any]], uid: str
) -> None:
    metadata = {"ownerReferences": owners}
    assert controller_uid(msgspec.convert({"metadata": metadata}, PersistentVolumeClaim)) == uid


def test_messages() -> None:
    assert not_found("persistentvolume", "v") == 'persistentvolume "v" not found'
    assert not_made_for(POD, "web-v") == (
        "PVC ns/web-v was not created for pod ns/web (pod is not owner)"
    )

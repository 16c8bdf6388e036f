"""Claims of volumes: their names, classes and owners."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.claims import claim_name, class_of, is_not_made_for
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
    ("namespace", "owners", "made"),
    [
        ("ns", [{"uid": "1", "controller": True}], True),
        ("ns", [{"uid": "0"}, {"uid": "1", "controller": True}], True),
        ("ns", [{"uid": "1"}], False),
        ("ns", [{"uid": "2", "controller": True}, {"uid": "1", "controller": True}], False),
        ("ns", [], False),
        ("other", [{"uid": "1", "controller": True}], False),
    ],
)
def test_a_claim_is_made_for_the_pod_that_controls_it(
    namespace: str, owners: list[dict[str, Any]], made: bool
) -> None:
    metadata = {"namespace": namespace, "name": "web-v", "ownerReferences": owners}
    claim = msgspec.convert({"metadata": metadata}, PersistentVolumeClaim)
    problem = f"PVC {namespace}/web-v was not created for pod ns/web (pod is not owner)"
    assert is_not_made_for(POD, claim) == ("" if made else problem)

"""What a claim asks of a volume, and who a volume is for."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.kube.reading import Reader
from berth.actors.scheduling.kube.storage import PersistentVolume, PersistentVolumeClaim
from berth.actors.scheduling.kube.volumes import VolumeRequest, is_for

CLAIM = Reader(PersistentVolumeClaim).convert(
    {
        "metadata": {"namespace": "n", "name": "c", "uid": "u"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "2Gi"}},
            "selector": {"matchLabels": {"disk": "fast"}},
        },
    }
)
SPEC = {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadOnlyMany", "ReadWriteOnce"]}


def volume(labels: dict[str, str], **spec: Any) -> PersistentVolume:
    document = {"metadata": {"name": "v", "labels": labels}, "spec": {**SPEC, **spec}}
    return Reader(PersistentVolume).convert(document)


@pytest.mark.parametrize(
    ("labels", "spec", "admits", "mismatch"),
    [
        ({"disk": "fast"}, {}, True, ""),
        ({}, {}, True, "with labels that the claim does not select"),
        ({"disk": "fast"}, {"accessModes": []}, True, "without an access mode of the claim"),
        ({"disk": "fast"}, {"capacity": {"storage": "2G"}}, False, "too small"),
        ({"disk": "fast"}, {"volumeMode": "Block"}, False, "of another volume mode"),
    ],
)
def test_a_volume_admits_or_matches_a_request(
    labels: dict[str, str], spec: dict[str, Any], admits: bool, mismatch: str
) -> None:
    request = VolumeRequest.of(CLAIM)
    assert request.admits(volume(labels, **spec)) is admits
    assert request.mismatch(volume(labels, **spec)) == mismatch


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (None, False),
        ({"namespace": "n", "name": "c"}, True),
        ({"namespace": "n", "name": "c", "uid": "u"}, True),
        ({"namespace": "n", "name": "c", "uid": "older"}, False),
        ({"namespace": "m", "name": "c"}, False),
    ],
)
def test_who_a_volume_is_for(reference: dict[str, str] | None, expected: bool) -> None:
    assert is_for(volume({}, claimRef=reference), CLAIM) is expected

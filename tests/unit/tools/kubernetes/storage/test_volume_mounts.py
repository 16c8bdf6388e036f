"""Pods that wait until their volumes are bound and attached."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from berth.tools.kubernetes.objects.structs import Document, read
from berth.tools.kubernetes.storage.volume_mounts import FOLLOWED, Mounts


def pod(name: str = "p", **source: Any) -> Pod:
    document = {
        "metadata": {"namespace": "n", "name": name, "uid": f"uid-{name}"},
        "spec": {"nodeName": "n1", "volumes": [{"name": "v", **source}], "containers": []},
    }
    return read(document, Pod)


USER = pod(persistentVolumeClaim={"claimName": "c"})


def claim(phase: str = "Bound", name: str = "c", **metadata: Any) -> PersistentVolumeClaim:
    document = {
        "metadata": {"namespace": "n", "name": name, "uid": "u", **metadata},
        "spec": {"volumeName": "v"},
        "status": {"phase": phase},
    }
    return read(document, PersistentVolumeClaim)


def volume(claim: str = "c", **source: Any) -> PersistentVolume:
    reference = {"namespace": "n", "name": claim, "uid": "u"}
    document = {"metadata": {"name": "v"}, "spec": {"claimRef": reference, **source}}
    return read(document, PersistentVolume)


def attachment(node: str = "n1", attached: bool = True) -> VolumeAttachment:
    document = {
        "metadata": {"name": f"a-{node}"},
        "spec": {"nodeName": node, "source": {"persistentVolumeName": "v"}},
        "status": {"attached": attached},
    }
    return read(document, VolumeAttachment)


CSI = volume(csi={"driver": "d"})


def test_a_pod_without_claims_need_not_wait() -> None:
    assert not Mounts().wait(pod(emptyDir={}))


def test_a_pod_waits_until_its_claim_is_bound_and_its_volume_attached() -> None:
    mounts = Mounts()
    assert mounts.wait(USER)
    assert mounts.put(claim("Pending")) == [USER]
    assert mounts.wait(USER)
    mounts.put(claim())
    assert mounts.wait(USER), "the volume is not there"
    assert mounts.put(CSI) == [USER]
    assert mounts.wait(USER), "it is not attached"
    mounts.put(attachment("n2"))
    mounts.put(attachment(attached=False))
    assert mounts.wait(USER)
    assert mounts.put(attachment()) == [USER]
    assert not mounts.wait(USER)
    assert mounts.put(claim()) == [], "a pod that has started waits no longer"
    mounts.remove(attachment())
    assert mounts.wait(USER)


@pytest.mark.parametrize("required", [False, True, None])
def test_a_driver_may_need_no_attachment(required: bool | None) -> None:
    mounts = Mounts()
    mounts.replace(PersistentVolumeClaim, [claim()])
    mounts.replace(PersistentVolume, [CSI])
    assert mounts.wait(USER)
    spec = {} if required is None else {"attachRequired": required}
    driver = read({"metadata": {"name": "d"}, "spec": spec}, CSIDriver)
    assert mounts.put(driver) == [USER]
    assert mounts.wait(USER) is (required is not False)
    mounts.remove(driver)
    assert mounts.wait(USER)


def test_a_volume_of_another_type_needs_no_attachment() -> None:
    mounts = Mounts()
    mounts.put(claim())
    mounts.put(volume(nfs={"server": "s"}))
    assert not mounts.wait(USER)


def test_an_ephemeral_volume_needs_a_claim_of_the_pod() -> None:
    mounts, user = Mounts(), pod(ephemeral={"volumeClaimTemplate": {"spec": {}}})
    mounts.put(volume("p-v"))
    mounts.put(claim(name="p-v"))
    assert mounts.wait(user), "the claim belongs to somebody else"
    owner = {"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    assert mounts.put(claim(name="p-v", ownerReferences=[owner])) == [user]
    assert not mounts.wait(user)


def test_a_pod_that_is_gone_is_not_waited_for() -> None:
    mounts = Mounts()
    mounts.wait(USER)
    mounts.forget(USER)
    assert mounts.put(claim()) == []


def test_a_list_replaces_what_was_known() -> None:
    mounts = Mounts()
    for obj in (claim(), CSI, attachment()):
        mounts.put(obj)
    assert not mounts.wait(USER)
    mounts.replace(VolumeAttachment, [])
    assert mounts.wait(USER)
    assert mounts.replace(VolumeAttachment, [attachment()]) == [USER]
    assert not mounts.wait(USER)
    mounts.replace(PersistentVolume, [])
    assert mounts.wait(USER)
    mounts.put(CSI)
    mounts.remove(claim())
    assert mounts.wait(USER)


def test_odd_objects_are_tolerated() -> None:
    mounts = Mounts()
    bare: Document = {"metadata": {"name": "x", "namespace": "n"}, "spec": None, "status": None}
    for kind in FOLLOWED:
        assert mounts.put(read(bare, kind)) == []
        assert mounts.remove(read(bare, kind)) == []

"""Pods that wait until their volumes are bound and attached."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.tools.hollow.mounts import Mounts

Document = dict[str, Any]
CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"
ATTACHMENT, DRIVER = "VolumeAttachment", "CSIDriver"


def pod(name: str = "p", **source: Any) -> Pod:
    document = {
        "metadata": {"namespace": "n", "name": name, "uid": f"uid-{name}"},
        "spec": {"nodeName": "n1", "volumes": [{"name": "v", **source}], "containers": []},
    }
    return msgspec.convert(document, Pod)


USER = pod(persistentVolumeClaim={"claimName": "c"})


def claim(phase: str = "Bound", name: str = "c", **metadata: Any) -> Document:
    return {
        "metadata": {"namespace": "n", "name": name, "uid": "u", **metadata},
        "spec": {"volumeName": "v"},
        "status": {"phase": phase},
    }


def volume(claim: str = "c", **source: Any) -> Document:
    reference = {"namespace": "n", "name": claim, "uid": "u"}
    return {"metadata": {"name": "v"}, "spec": {"claimRef": reference, **source}}


def attachment(node: str = "n1", attached: bool = True) -> Document:
    return {
        "metadata": {"name": f"a-{node}"},
        "spec": {"nodeName": node, "source": {"persistentVolumeName": "v"}},
        "status": {"attached": attached},
    }


CSI = volume(csi={"driver": "d"})


def test_a_pod_without_claims_need_not_wait() -> None:
    assert not Mounts().wait(pod(emptyDir={}))


def test_a_pod_waits_until_its_claim_is_bound_and_its_volume_attached() -> None:
    mounts = Mounts()
    assert mounts.wait(USER)
    assert mounts.put(CLAIM, claim("Pending")) == [USER]
    assert mounts.wait(USER)
    mounts.put(CLAIM, claim())
    assert mounts.wait(USER), "the volume is not there"
    assert mounts.put(VOLUME, CSI) == [USER]
    assert mounts.wait(USER), "it is not attached"
    mounts.put(ATTACHMENT, attachment("n2"))
    mounts.put(ATTACHMENT, attachment(attached=False))
    assert mounts.wait(USER)
    assert mounts.put(ATTACHMENT, attachment()) == [USER]
    assert not mounts.wait(USER)
    assert mounts.put(CLAIM, claim()) == [], "a pod that has started waits no longer"
    mounts.remove(ATTACHMENT, attachment())
    assert mounts.wait(USER)


@pytest.mark.parametrize("required", [False, True, None])
def test_a_driver_may_need_no_attachment(required: bool | None) -> None:
    mounts = Mounts()
    mounts.replace(CLAIM, [claim()])
    mounts.replace(VOLUME, [CSI])
    assert mounts.wait(USER)
    spec = {} if required is None else {"attachRequired": required}
    driver = {"metadata": {"name": "d"}, "spec": spec}
    assert mounts.put(DRIVER, driver) == [USER]
    assert mounts.wait(USER) is (required is not False)
    mounts.remove(DRIVER, driver)
    assert mounts.wait(USER)


def test_a_volume_of_another_type_needs_no_attachment() -> None:
    mounts = Mounts()
    mounts.put(CLAIM, claim())
    mounts.put(VOLUME, volume(nfs={"server": "s"}))
    assert not mounts.wait(USER)


def test_an_ephemeral_volume_needs_a_claim_of_the_pod() -> None:
    mounts, user = Mounts(), pod(ephemeral={"volumeClaimTemplate": {"spec": {}}})
    mounts.put(VOLUME, volume("p-v"))
    mounts.put(CLAIM, claim(name="p-v"))
    assert mounts.wait(user), "the claim belongs to somebody else"
    owner = {"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    assert mounts.put(CLAIM, claim(name="p-v", ownerReferences=[owner])) == [user]
    assert not mounts.wait(user)


def test_a_pod_that_is_gone_is_not_waited_for() -> None:
    mounts = Mounts()
    mounts.wait(USER)
    mounts.forget(USER)
    assert mounts.put(CLAIM, claim()) == []


def test_a_list_replaces_what_was_known() -> None:
    mounts = Mounts()
    for kind, document in ((CLAIM, claim()), (VOLUME, CSI), (ATTACHMENT, attachment())):
        mounts.put(kind, document)
    assert not mounts.wait(USER)
    mounts.replace(ATTACHMENT, [])
    assert mounts.wait(USER)
    assert mounts.replace(ATTACHMENT, [attachment()]) == [USER]
    assert not mounts.wait(USER)
    mounts.replace(VOLUME, [])
    assert mounts.wait(USER)
    mounts.put(VOLUME, CSI)
    mounts.remove(CLAIM, claim())
    assert mounts.wait(USER)


def test_odd_objects_are_tolerated() -> None:
    mounts = Mounts()
    bare: Document = {"metadata": {"name": "x", "namespace": "n"}, "spec": None, "status": None}
    for kind in (CLAIM, VOLUME, ATTACHMENT, DRIVER):
        assert mounts.put(kind, bare) == []
        assert mounts.remove(kind, bare) == []

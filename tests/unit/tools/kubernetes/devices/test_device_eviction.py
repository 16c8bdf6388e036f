"""Pods that use tainted devices are deleted, at once or when their tolerations end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from berth.actors.scheduling.kube.devices import (
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from berth.tools.kubernetes.devices.device_claims import pool_of
from berth.tools.kubernetes.devices.device_eviction import DeviceEviction, tolerated_seconds
from berth.tools.kubernetes.objects.structs import Pod, read
from berth.tools.kubernetes.objects.writes import Again, Create, Delete, Patch, Write
from tests.kit.documents import Document
from tests.unit.tools.kubernetes.devices.objects import (
    ALLOCATION,
    LATER,
    NOW,
    claim,
    from_template,
    named,
    owned,
    pod,
)

TAINT = {"key": "broken", "value": "yes", "effect": "NoExecute", "timeAdded": LATER}
USER = pod("p", named(), on="n1", phase="Running")


def slice_of(*taints: Document, generation: int = 1) -> ResourceSlice:
    devices = [{"name": "gpu-0", "taints": list(taints)}, {"name": "gpu-1", "taints": [TAINT]}]
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": "d.com", "pool": pool, "devices": devices}
    return read({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)


def used(*tolerations: Document, user: Pod = USER) -> ResourceClaim:
    (result,) = ALLOCATION["devices"]["results"]
    results = [{**result, "tolerations": list(tolerations)}]
    return claim("c", user, allocated=True, allocation={"devices": {"results": results}})


def decide(
    of: ResourceClaim, *slices: ResourceSlice, user: Pod = USER, after: float = 0
) -> list[Write]:
    by_pool = {"d.com/n1": list(slices)}
    assert all(pool_of(slice_) in by_pool for slice_ in slices)
    return DeviceEviction().reconcile(
        user,
        {of.metadata.name: of}.get,
        lambda pool: by_pool.get(pool, []),
        [],
        NOW + timedelta(seconds=after),
    )


def test_a_pod_with_a_tainted_device_is_deleted() -> None:
    event, mark, delete = decide(used(), slice_of(TAINT))
    assert isinstance(event, Create)
    assert event.document["reason"] == "DeviceTaintManagerEviction"
    assert isinstance(mark, Patch)
    (condition,) = mark.body["status"]["conditions"]
    assert (condition["type"], condition["reason"], condition["message"]) == (
        "DisruptionTarget",
        "DeletionByDeviceTaintManager",
        "Device Taint manager: deleting due to NoExecute taint",
    )
    assert isinstance(delete, Delete)
    assert (delete.name, delete.uid) == ("p", "uid-p")


def test_a_pod_stays_if_its_device_has_no_such_taint() -> None:
    assert decide(used(), slice_of()) == []
    assert decide(used(), slice_of({**TAINT, "effect": "NoSchedule"})) == []
    assert decide(used(), slice_of({**TAINT, "effect": "None"})) == []
    assert decide(used()) == [], "the slice has been withdrawn"


def test_only_the_last_generation_of_a_pool_counts() -> None:
    assert decide(used(), slice_of(TAINT), slice_of(generation=2)) == []
    assert decide(used(), slice_of(), slice_of(TAINT, generation=2)) != []


def test_pods_that_do_not_use_the_device_stay() -> None:
    slices = slice_of(TAINT)
    assert decide(used(user=pod("other")), slices) == [], "reserved for another pod"
    unbound = pod("p", named(), phase="Pending")
    assert decide(used(), slices, user=unbound) == []
    for user in (
        pod("p", named(), on="n1", phase="Succeeded"),
        pod("p", named(), on="n1", deletionTimestamp=LATER),
        pod("p", from_template(), on="n1"),
    ):
        assert decide(used(), slices, user=user) == []
    user = pod("p", from_template(), on="n1", phase="Running", made_claims={"gpu": "c"})
    assert decide(owned(used(), pod("other")), slices, user=user) == []
    assert decide(owned(used(), user), slices, user=user) != []


def test_a_taint_may_be_tolerated_for_some_time_after_it_was_added() -> None:
    toleration = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    subject, slices = used(toleration), slice_of(TAINT)
    (again,) = decide(subject, slices, after=10)
    assert isinstance(again, Again)
    assert again.seconds == 20
    assert len(decide(subject, slices, after=30)) == 3
    forever = {"operator": "Exists", "effect": "NoExecute"}
    assert decide(used(forever), slices, after=1000) == []


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ([], 0),
        ([{"key": "broken", "operator": "Equal", "value": "yes"}], None),
        ([{"key": "broken", "value": "yes"}], None),
        ([{"key": "broken", "operator": "Equal", "value": "no"}], 0),
        ([{"key": "other", "operator": "Exists"}], 0),
        ([{"operator": "Exists", "tolerationSeconds": -5}], 0),
        (
            [
                {"operator": "Exists", "tolerationSeconds": 60},
                {"key": "broken", "operator": "Exists", "tolerationSeconds": 20},
            ],
            20,
        ),
    ],
)
def test_tolerations(tolerations: list[dict[str, Any]], seconds: float | None) -> None:
    typed = [read({**each, "effect": "NoExecute"}, DeviceToleration) for each in tolerations]
    assert tolerated_seconds(read(TAINT, DeviceTaint), typed) == seconds


def test_a_toleration_must_name_the_effect() -> None:
    everything = DeviceToleration(operator="Exists")
    assert tolerated_seconds(read(TAINT, DeviceTaint), [everything]) == 0

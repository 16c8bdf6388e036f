"""The claims of a pod, and whether their devices are prepared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from berth.actors.scheduling.model.cluster_objects import ClusterObjects
from berth.actors.scheduling.plugins.dynamic_resources.features import EVERY_FEATURE
from berth.actors.scheduling.plugins.dynamic_resources.pod_claims import (
    MOST_CLAIMS,
    BindingFailedError,
    ClaimError,
    check_requests,
    claims_of,
    is_ready,
    prepared_by,
)
from berth.plugin import Code, DeviceClass, Pod, ResourceClaim
from tests.kit.devices import claim, request
from tests.kit.documents import Document

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}


def read(document: Document, **metadata: Any) -> ResourceClaim:
    document["metadata"] |= metadata
    return msgspec.convert(document, ResourceClaim)


def claims(entry: Document, *there: ResourceClaim, statuses: Any = ()) -> list[str] | str:
    document = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [], "resourceClaims": [{"name": "e", **entry}]},
        "status": {"resourceClaimStatuses": list(statuses)},
    }
    objects = ClusterObjects()
    for item in there:
        objects.put(item)
    try:
        named = claims_of(msgspec.convert(document, Pod), objects)
    except ClaimError as problem:
        return str(problem)
    return [item.metadata.name for item in named]


def test_claims_by_name() -> None:
    named = {"resourceClaimName": "c"}
    assert claims(named, read(claim("c"))) == ["c"]
    assert claims(named) == 'could not find ResourceClaim "default/c"'
    assert claims(named, read(claim("c"), namespace="other")) == claims(named)
    doomed = read(claim("c"), deletionTimestamp="2026-01-01T00:00:00Z")
    assert claims(named, doomed) == 'resourceclaim "c" is being deleted'
    none = 'pod "default/p", spec.resourceClaim "e": none of the supported fields are set'
    assert claims({}) == none


def test_a_pod_with_too_many_claims() -> None:
    entries = [{"name": str(n), "resourceClaimName": "c"} for n in range(MOST_CLAIMS + 1)]
    document: Document = {"metadata": {"name": "p"}, "spec": {"containers": []}}
    objects = ClusterObjects()
    objects.put(msgspec.convert(claim("c") | {"metadata": {"name": "c"}}, ResourceClaim))
    document["spec"]["resourceClaims"] = entries
    with pytest.raises(ClaimError, match="more than 256 resource claims"):
        claims_of(msgspec.convert(document, Pod), objects)
    entries.pop()
    assert len(claims_of(msgspec.convert(document, Pod), objects)) == MOST_CLAIMS


def test_claims_from_templates() -> None:
    template, status = {"resourceClaimTemplateName": "t"}, {"name": "e", "resourceClaimName": "c"}
    waits = 'pod "default/p": ResourceClaim not created yet'
    assert claims(template) == waits
    assert claims(template, statuses=[{**status, "name": "other"}]) == waits
    own = read(claim("c"), ownerReferences=[OWNER])
    assert claims(template, own, statuses=[status]) == ["c"]
    foreign = "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)"
    assert claims(template, read(claim("c")), statuses=[status]) == foreign
    # No claim is needed.
    assert claims(template, statuses=[{"name": "e"}]) == []


@pytest.mark.parametrize(
    ("malformed", "code", "message"),
    [
        (request(), None, ""),
        (
            request(of="no"),
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "request r: device class no does not exist",
        ),
        (request(of=""), Code.ERROR, "request r: unsupported request type"),
        (
            {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "no"}]},
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "request r/s: device class no does not exist",
        ),
        (
            {"name": "r"},
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "resource claim default/c, request r: unknown request type",
        ),
    ],
)
def test_classes_of_requests(malformed: Document, code: Code | None, message: str) -> None:
    status = check_requests(read(claim("c", malformed)), {"gpu": DeviceClass()}.get, EVERY_FEATURE)
    assert (status and status.code, status.message if status else "") == (code, message)


def prepared(*conditions: Document, reports: bool = True, **result: Any) -> ResourceClaim:
    place = {"driver": "d", "pool": "p", "device": "a"}
    results = [{"request": "r", **place, **result}]
    allocation = {"devices": {"results": results}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
    devices = [{**place, "conditions": [*conditions]}] if reports else []
    return read({**claim("c"), "status": {"allocation": allocation, "devices": devices}})


READY, BROKEN = {"type": "ready", "status": "True"}, {"type": "broken", "status": "True"}
NEEDS: dict[str, Any] = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


def test_binding_conditions() -> None:
    assert not is_ready(read(claim("c")))
    assert is_ready(prepared())
    assert is_ready(prepared(READY, **NEEDS))
    assert not is_ready(prepared(**NEEDS))
    assert not is_ready(prepared(reports=False, **NEEDS))
    assert not is_ready(prepared({**READY, "status": "Unknown"}, **NEEDS))
    assert not is_ready(prepared(READY, bindingConditions=["ready", "steady"]))
    # Of two conditions of a type the first one counts.
    assert not is_ready(prepared({**READY, "status": "False"}, READY, **NEEDS))
    # Without a condition to wait for, a failure is not looked at.
    assert is_ready(prepared(BROKEN, bindingFailureConditions=["broken"]))
    broken = {**BROKEN, "reason": "Why", "message": 'no "power"\n'}
    with pytest.raises(BindingFailedError) as failure:
        is_ready(prepared(READY, broken, **NEEDS))
    expected = r'device binding failed: claim=c, reason=Why, message="no \"power\"\n"'
    assert str(failure.value) == expected


def test_the_time_to_prepare_devices() -> None:
    assert prepared_by(read(claim("c")), 10.0) is None
    assert prepared_by(prepared(), 10.0) is None
    assert prepared_by(prepared(READY, **NEEDS), 10.0) == datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)


def test_devices_that_are_allocated_at_the_end_of_time() -> None:
    subject = prepared(READY, **NEEDS)
    assert subject.status.allocation is not None
    late = replace(subject.status.allocation, allocation_timestamp="9999-12-31T23:59:59Z")
    subject = replace(subject, status=replace(subject.status, allocation=late))
    assert prepared_by(subject, 10.0) == datetime.max.replace(tzinfo=UTC)

"""The kinds of v1alpha2: for each rule a document that breaks only this rule, and their tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from berth.tools.kubernetes.api.tables import table
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.discovery import discovery
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document

API = "resource.k8s.io/v1alpha2"
CLAIMS, CLASSES = BY_KIND[API, "ResourceClaim"], BY_KIND[API, "ResourceClass"]
CONTEXTS = BY_KIND[API, "PodSchedulingContext"]
MERGE = "application/merge-patch+json"
USER = {"resource": "pods", "name": "p", "uid": "1"}
OTHER = {"resource": "pods", "name": "q", "uid": "2"}


def document_of(**fields: Any) -> Document:
    return {"metadata": {"name": "it"}, **fields}


CLAIM = document_of(spec={"resourceClassName": "gpu"})
CLASS = document_of(driverName="gpu.example.com")


def refusal(api: Api, kind: Kind, document: Document) -> str:
    with pytest.raises(RefusedError) as refused:
        api.create(kind, "default" if kind.namespaced else "", document)
    assert refused.value.code == 422
    return str(refused.value).removeprefix(f'{kind.kind}.resource.k8s.io "it" is invalid: ')


def set_status(api: Api, kind: Kind, **status: Any) -> Document:
    patch = {"status": status}
    document = api.patch(kind, "default", "it", patch, MERGE, "status").document
    written: Document = document["status"]
    return written


def refused_status(api: Api, kind: Kind, **status: Any) -> str:
    with pytest.raises(RefusedError) as refused:
        set_status(api, kind, **status)
    return str(refused.value).removeprefix(f'{kind.kind}.resource.k8s.io "it" is invalid: ')


def test_claims_of_both_versions_may_have_the_same_name(api: Api) -> None:
    api.create(CLAIMS, "default", CLAIM)
    of_v1 = BY_KIND["resource.k8s.io/v1", "ResourceClaim"]
    api.create(of_v1, "default", document_of(spec={}))
    assert api.store.get(CLAIMS, "default", "it")["apiVersion"] == API
    assert api.store.get(of_v1, "default", "it")["apiVersion"] == "resource.k8s.io/v1"


def test_a_claim_waits_for_its_pod_by_default(api: Api) -> None:
    document = api.create(CLAIMS, "default", CLAIM).document
    assert document["spec"]["allocationMode"] == "WaitForFirstConsumer"


@pytest.mark.parametrize(
    ("kind", "document", "expected"),
    [
        (CLAIMS, document_of(spec={}), "spec.resourceClassName: Required value"),
        (
            CLAIMS,
            document_of(spec={"resourceClassName": "A"}),
            "spec.resourceClassName: Invalid value",
        ),
        (
            CLAIMS,
            document_of(spec={"resourceClassName": "gpu", "allocationMode": "Soon"}),
            'spec.allocationMode: Unsupported value: "Soon"',
        ),
        (CLASSES, document_of(), "driverName: Required value"),
        (
            CLASSES,
            document_of(driverName="d", suitableNodes={"nodeSelectorTerms": []}),
            "suitableNodes.nodeSelectorTerms: Required value",
        ),
        (
            CONTEXTS,
            document_of(spec={"potentialNodes": ["a", "a"]}),
            'spec.potentialNodes[1]: Duplicate value: "a"',
        ),
        (
            CONTEXTS,
            document_of(spec={"potentialNodes": [f"n{i}" for i in range(129)]}),
            "spec.potentialNodes: Too many: 129: must have at most 128 items",
        ),
    ],
)
def test_invalid_objects(api: Api, kind: Kind, document: Document, expected: str) -> None:
    assert refusal(api, kind, document).startswith(expected)


def test_what_a_claim_asks_for_never_changes(api: Api) -> None:
    api.create(CLAIMS, "default", CLAIM)
    with pytest.raises(RefusedError, match="field is immutable"):
        api.patch(CLAIMS, "default", "it", {"spec": {"resourceClassName": "b"}}, MERGE, "")


def test_only_an_allocated_claim_is_reserved_or_deallocated(api: Api) -> None:
    api.create(CLAIMS, "default", CLAIM)
    assert refused_status(api, CLAIMS, reservedFor=[USER]).startswith("status.reservedFor: Forb")
    problem = refused_status(api, CLAIMS, deallocationRequested=True)
    assert problem.startswith("status.deallocationRequested: Forbidden")
    assert set_status(api, CLAIMS, allocation={}, reservedFor=[USER])["reservedFor"] == [USER]


def test_only_a_shareable_claim_has_several_users(api: Api) -> None:
    api.create(CLAIMS, "default", CLAIM)
    problem = refused_status(api, CLAIMS, allocation={}, reservedFor=[USER, OTHER])
    assert problem == "status.reservedFor: Forbidden: may not be reserved more than once"
    set_status(api, CLAIMS, allocation={"shareable": True}, reservedFor=[USER, OTHER])


def test_nobody_is_added_to_a_claim_that_is_to_be_deallocated(api: Api) -> None:
    api.create(CLAIMS, "default", CLAIM)
    set_status(api, CLAIMS, allocation={"shareable": True}, reservedFor=[USER])
    set_status(api, CLAIMS, deallocationRequested=True)
    problem = refused_status(api, CLAIMS, reservedFor=[USER, OTHER])
    assert problem.startswith("status.reservedFor: Forbidden: new entries may not be added")
    set_status(api, CLAIMS, reservedFor=None)
    assert set_status(api, CLAIMS, allocation=None, deallocationRequested=None) == {}


def test_an_allocation_does_not_change(api: Api) -> None:
    api.create(CLAIMS, "default", CLAIM)
    set_status(api, CLAIMS, allocation={})
    problem = refused_status(api, CLAIMS, allocation={"shareable": True})
    assert problem.startswith("status.allocation: Invalid value")


def test_the_answers_of_drivers_name_nodes_once(api: Api) -> None:
    api.create(CONTEXTS, "default", document_of(spec={}))
    answer = {"name": "c", "unsuitableNodes": ["a", "a"]}
    problem = refused_status(api, CONTEXTS, resourceClaims=[answer])
    assert problem.startswith("status.resourceClaims[0].unsuitableNodes[1]: Duplicate value")


def test_clients_prefer_v1() -> None:
    group = discovery("/apis/resource.k8s.io")
    assert group is not None
    assert group["preferredVersion"]["version"] == "v1"
    assert [served["version"] for served in group["versions"]] == ["v1", "v1alpha2"]


def cells(kind: Kind, document: Document) -> list[Any]:
    row = table(kind, [document], revision="1", now=datetime.now(UTC))["rows"][0]
    values: list[Any] = row["cells"]
    return values


def test_tables() -> None:
    spec = {"resourceClassName": "gpu", "allocationMode": "Immediate"}
    freed = {"allocation": {}, "deallocationRequested": True}
    assert cells(CLASSES, CLASS)[:2] == ["it", "gpu.example.com"]
    assert cells(CLAIMS, document_of(spec=spec))[:4] == ["it", "gpu", "Immediate", "pending"]
    assert cells(CLAIMS, document_of(spec=spec, status=freed))[3] == "allocated,deallocating"
    assert cells(CONTEXTS, document_of(spec={"selectedNode": "n"}))[:2] == ["it", "n"]

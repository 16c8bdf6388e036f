"""Pods that wait until their device claims are allocated and reserved for them."""

from __future__ import annotations

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.tools.hollow.devices.preparation import Preparation
from tests.unit.tools.hollow.devices.documents import (
    Document,
    claim,
    from_template,
    named,
    owned,
    pod,
)

DOCUMENT = pod("p", named(), on="n1")
OTHER = pod("other")


def typed(document: Document) -> Pod:
    return msgspec.convert(document, Pod)


def test_a_pod_waits_until_its_claim_is_allocated_and_reserved_for_it() -> None:
    preparation, user = Preparation(), typed(DOCUMENT)
    assert preparation.wait(user).endswith(
        'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'
    )
    assert preparation.put(claim("c")) == [user]
    assert preparation.wait(user).endswith("ResourceClaim n/c is not allocated")
    preparation.put(claim("c", OTHER, allocated=True))
    assert preparation.wait(user) == (
        "prepare dynamic resources: pod p (uid-p) is not allowed to use resource claim c (uid-c)"
    )
    assert preparation.put(claim("c", OTHER, DOCUMENT, allocated=True)) == [user]
    assert preparation.wait(user) == ""
    assert preparation.put(claim("c", DOCUMENT, allocated=True)) == [], "it waits no more"


def test_a_claim_from_a_template_must_exist_and_belong_to_the_pod() -> None:
    preparation = Preparation()
    early = typed(pod("p", from_template(), on="n1"))
    assert preparation.wait(early).endswith('pod "n/p": ResourceClaim not created yet')
    document = pod("p", from_template(), on="n1", made_claims={"gpu": "c"})
    user, ready = typed(document), claim("c", document, allocated=True)
    preparation.put(owned(ready, OTHER))
    assert preparation.wait(user).endswith(
        "ResourceClaim n/c was not created for Pod n/p (Pod is not owner)"
    )
    preparation.put(owned(ready, document))
    assert preparation.wait(user) == ""


def test_a_pod_without_claims_need_not_wait() -> None:
    assert Preparation().wait(typed(pod("p"))) == ""
    unneeded = pod("p", from_template())
    unneeded["status"]["resourceClaimStatuses"] = [{"name": "gpu"}]
    assert Preparation().wait(typed(unneeded)) == ""


@pytest.mark.parametrize("listed", [True, False])
def test_a_deleted_claim_is_missing_again(listed: bool) -> None:
    preparation, user = Preparation(), typed(DOCUMENT)
    preparation.replace([claim("c", DOCUMENT, allocated=True)])
    assert preparation.wait(user) == ""
    if listed:
        preparation.replace([])
    else:
        preparation.remove(claim("c"))
    assert preparation.wait(user)
    assert preparation.replace([claim("c", DOCUMENT, allocated=True)]) == [user]


def test_a_pod_that_is_gone_is_forgotten() -> None:
    preparation, user = Preparation(), typed(DOCUMENT)
    assert preparation.wait(user)
    preparation.forget(user)
    assert preparation.put(claim("c", DOCUMENT, allocated=True)) == []


def test_a_claim_of_an_older_version_counts_where_v1_has_none() -> None:
    preparation, user = Preparation(), typed(DOCUMENT)
    preparation.replace([])
    preparation.wait(user)
    assert preparation.put(claim("c", DOCUMENT, allocated=True), "v1alpha2") == [user]
    assert preparation.wait(user) == ""
    preparation.put(claim("c"))
    assert preparation.wait(user).endswith("ResourceClaim n/c is not allocated")

"""Pods that wait until their device claims are allocated and reserved for them."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.devices.preparation import Preparation
from tests.unit.tools.kubernetes.devices.objects import claim, from_template, named, owned, pod

USER = pod("p", named(), on="n1")
OTHER = pod("other")


def test_a_pod_waits_until_its_claim_is_allocated_and_reserved_for_it() -> None:
    preparation, user = Preparation(), USER
    assert preparation.wait(user).endswith(
        'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'
    )
    assert preparation.put(claim("c")) == [user]
    assert preparation.wait(user).endswith("ResourceClaim n/c is not allocated")
    preparation.put(claim("c", OTHER, allocated=True))
    assert preparation.wait(user) == (
        "prepare dynamic resources: pod p (uid-p) is not allowed to use resource claim c (uid-c)"
    )
    assert preparation.put(claim("c", OTHER, USER, allocated=True)) == [user]
    assert preparation.wait(user) == ""
    assert preparation.put(claim("c", USER, allocated=True)) == [], "it waits no more"


def test_a_claim_from_a_template_must_exist_and_belong_to_the_pod() -> None:
    preparation = Preparation()
    early = pod("p", from_template(), on="n1")
    assert preparation.wait(early).endswith('pod "n/p": ResourceClaim not created yet')
    user = pod("p", from_template(), on="n1", made_claims={"gpu": "c"})
    ready = claim("c", user, allocated=True)
    preparation.put(owned(ready, OTHER))
    assert preparation.wait(user).endswith(
        "ResourceClaim n/c was not created for Pod n/p (Pod is not owner)"
    )
    preparation.put(owned(ready, user))
    assert preparation.wait(user) == ""


def test_a_pod_without_claims_need_not_wait() -> None:
    assert Preparation().wait(pod("p")) == ""
    unneeded = pod("p", from_template(), made_claims={"gpu": None})
    assert Preparation().wait(unneeded) == ""


@pytest.mark.parametrize("listed", [True, False])
def test_a_deleted_claim_is_missing_again(listed: bool) -> None:
    preparation, user = Preparation(), USER
    preparation.replace([claim("c", USER, allocated=True)])
    assert preparation.wait(user) == ""
    if listed:
        preparation.replace([])
    else:
        preparation.remove(claim("c"))
    assert preparation.wait(user)
    assert preparation.replace([claim("c", USER, allocated=True)]) == [user]


def test_a_pod_that_is_gone_is_forgotten() -> None:
    preparation, user = Preparation(), USER
    assert preparation.wait(user)
    preparation.forget(user)
    assert preparation.put(claim("c", USER, allocated=True)) == []


def test_a_claim_of_an_older_version_counts_where_v1_has_none() -> None:
    preparation, user = Preparation(), USER
    preparation.replace([])
    preparation.wait(user)
    assert preparation.put(claim("c", USER, allocated=True), "v1alpha2") == [user]
    assert preparation.wait(user) == ""
    preparation.put(claim("c"))
    assert preparation.wait(user).endswith("ResourceClaim n/c is not allocated")

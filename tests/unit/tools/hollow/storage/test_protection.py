"""Finalizers of claims that pods use and of bound volumes."""

from __future__ import annotations

import pytest

from berth.tools.hollow.storage import protection
from tests.unit.tools.hollow.storage.documents import (
    LATER,
    Document,
    claim,
    owned_by,
    patches,
    pod,
    volume,
)

ENDING = {"deletionTimestamp": LATER, "finalizers": ["a/b", protection.CLAIM_FINALIZER]}
REMOVED = [("PersistentVolumeClaim", "", {"metadata": {"finalizers": ["a/b"]}})]


def test_every_claim_and_volume_gets_its_finalizer() -> None:
    assert patches(protection.reconcile_claim(claim(metadata={"finalizers": ["a/b"]}), [])) == [
        (
            "PersistentVolumeClaim",
            "",
            {"metadata": {"finalizers": ["a/b", "kubernetes.io/pvc-protection"]}},
        )
    ]
    assert patches(protection.reconcile_volume(volume())) == [
        (
            "PersistentVolume",
            "",
            {"metadata": {"finalizers": ["kubernetes.io/pv-protection"]}},
        )
    ]
    protected = claim(metadata={"finalizers": [protection.CLAIM_FINALIZER]})
    assert protection.reconcile_claim(protected, []) == []
    assert protection.reconcile_claim(claim(metadata={"deletionTimestamp": LATER}), []) == []


@pytest.mark.parametrize(
    ("user", "stays"),
    [
        (None, False),
        (pod("p", "c", on="n1"), True),
        (pod("p", "c", on="n1", phase="Succeeded"), True),
        (pod("p", "c"), False),
        (pod("p", "other", on="n1"), False),
    ],
)
def test_a_deleted_claim_stays_until_no_pod_on_a_node_uses_it(
    user: Document | None, stays: bool
) -> None:
    writes = protection.reconcile_claim(claim(metadata=ENDING), [user] if user else [])
    assert patches(writes) == ([] if stays else REMOVED)


@pytest.mark.parametrize(
    ("phase", "own", "stays"),
    [("Running", True, True), ("Running", False, False), ("Failed", True, False)],
)
def test_an_ephemeral_claim_stays_while_its_own_pod_runs(
    phase: str, own: bool, stays: bool
) -> None:
    user = pod("p", on="n1", phase=phase, ephemeral={"spec": {}})
    ending = claim("p-scratch", metadata=ENDING)
    writes = protection.reconcile_claim(owned_by(ending, user) if own else ending, [user])
    assert patches(writes) == ([] if stays else REMOVED)


@pytest.mark.parametrize(("phase", "stays"), [("Bound", True), ("Released", False)])
def test_a_deleted_volume_stays_while_it_is_bound(phase: str, stays: bool) -> None:
    ending = {"deletionTimestamp": LATER, "finalizers": [protection.VOLUME_FINALIZER]}
    removed: list[tuple[str, str, Document]] = [
        ("PersistentVolume", "", {"metadata": {"finalizers": []}})
    ]
    writes = protection.reconcile_volume(volume(phase=phase, metadata=ending))
    assert patches(writes) == ([] if stays else removed)

"""Finalizers of claims that pods use and of bound volumes."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.objects.structs import Pod
from berth.tools.kubernetes.storage import protection
from tests.kit.documents import Document
from tests.unit.tools.kubernetes.storage.objects import LATER, claim, owned_by, patches, pod, volume

ENDING: Document = {"deletionTimestamp": LATER, "finalizers": ["a/b", protection.CLAIM_FINALIZER]}
REMOVED = [("PersistentVolumeClaim", "", {"metadata": {"finalizers": ["a/b"]}})]


def test_a_claim_gets_its_finalizer_when_a_pod_uses_it_and_a_volume_when_it_is_bound() -> None:
    user = pod("p", "c", on="n1")
    assert patches(protection.reconcile_claim(claim(metadata={"finalizers": ["a/b"]}), [user])) == [
        (
            "PersistentVolumeClaim",
            "",
            {"metadata": {"finalizers": ["a/b", "kubernetes.io/pvc-protection"]}},
        )
    ]
    assert protection.reconcile_claim(claim(), [pod("p", "c")]) == []
    assert patches(protection.reconcile_volume(volume(phase="Bound"))) == [
        (
            "PersistentVolume",
            "",
            {"metadata": {"finalizers": ["kubernetes.io/pv-protection"]}},
        )
    ]
    assert protection.reconcile_volume(volume()) == []
    protected = claim(metadata={"finalizers": [protection.CLAIM_FINALIZER]})
    assert protection.reconcile_claim(protected, [user]) == []
    assert protection.reconcile_claim(protected, []) == []
    ending = claim(metadata={"deletionTimestamp": LATER})
    assert protection.reconcile_claim(ending, [user]) == []


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
    user: Pod | None, stays: bool
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
    metadata = {**ENDING, **owned_by(user)} if own else ENDING
    writes = protection.reconcile_claim(claim("p-scratch", metadata=metadata), [user])
    assert patches(writes) == ([] if stays else REMOVED)


@pytest.mark.parametrize(("phase", "stays"), [("Bound", True), ("Released", False)])
def test_a_deleted_volume_stays_while_it_is_bound(phase: str, stays: bool) -> None:
    ending = {"deletionTimestamp": LATER, "finalizers": [protection.VOLUME_FINALIZER]}
    removed: list[tuple[str, str, Document]] = [
        ("PersistentVolume", "", {"metadata": {"finalizers": []}})
    ]
    writes = protection.reconcile_volume(volume(phase=phase, metadata=ending))
    assert patches(writes) == ([] if stays else removed)

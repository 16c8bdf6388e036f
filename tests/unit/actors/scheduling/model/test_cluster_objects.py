"""ClusterObjects: what look-ups find while objects are assumed, and when an assumption ends."""

from __future__ import annotations

import pytest

from berth.actors.scheduling.kube.devices import InFlightAllocation
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.actors.scheduling.model.cluster_objects import ClusterObjects, UnlistedError
from berth.plugin import PersistentVolumeClaim, Service, StorageClass


def claim(
    version: str = "5", note: str = "", uid: str = "u", name: str = "c"
) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=uid,
            resource_version=version,
            annotations={"note": note} if note else {},
        )
    )


STORED, ASSUMED = claim(), claim(note="assumed")


@pytest.fixture
def objects() -> ClusterObjects:
    objects = ClusterObjects()
    objects.put(STORED)
    return objects


def claim_in(objects: ClusterObjects) -> PersistentVolumeClaim | None:
    objects.validate()
    return objects.get(PersistentVolumeClaim, "c", "ns")


@pytest.fixture
def assuming(objects: ClusterObjects) -> ClusterObjects:
    assert objects.assume(ASSUMED) == ""
    assert claim_in(objects) is ASSUMED
    assert objects.assumed() == [ASSUMED]
    return objects


def test_look_ups(objects: ClusterObjects) -> None:
    assert claim_in(objects) is STORED
    assert objects.get(PersistentVolumeClaim, "c") is None
    assert objects.get(StorageClass, "c", "ns") is None
    assert objects.within(PersistentVolumeClaim, "ns") == {"c": STORED}
    assert objects.within(PersistentVolumeClaim, "other") == {}
    other = claim(name="d")
    objects.put(other)
    assert list(objects.every(PersistentVolumeClaim)) == [STORED, other]
    assert list(objects.every(Service)) == []
    objects.remove(STORED)
    objects.remove(STORED)
    assert list(objects.every(PersistentVolumeClaim)) == [other]


def test_restoring(assuming: ClusterObjects) -> None:
    assuming.restore(ASSUMED)
    assert claim_in(assuming) is STORED
    assert assuming.assumed() == []
    assuming.restore(ASSUMED)
    assert claim_in(assuming) is STORED


def test_only_the_assumed_version_is_restored(assuming: ClusterObjects) -> None:
    assuming.restore(claim("4"))
    assuming.restore(claim("6"))
    assert claim_in(assuming) is ASSUMED


@pytest.mark.parametrize(
    ("news", "ends"),
    [
        (claim("6"), True),
        (claim("10"), True),  # compared as a number
        (claim("5"), False),  # it was listed again
        (claim("4"), False),
        (claim("5", uid="another"), True),
        (claim("4", uid="another"), True),
    ],
)
def test_a_newer_version_ends_an_assumption(
    assuming: ClusterObjects, news: PersistentVolumeClaim, ends: bool
) -> None:
    assuming.put(news)
    assert claim_in(assuming) is (news if ends else ASSUMED)
    assert assuming.assumed() == ([] if ends else [ASSUMED])
    assuming.restore(ASSUMED)
    assert claim_in(assuming) is news


def test_a_deleted_object_is_gone_though_it_is_assumed(assuming: ClusterObjects) -> None:
    assuming.remove(STORED)
    assert claim_in(assuming) is None
    assert assuming.assumed() == []
    assuming.restore(ASSUMED)
    assert claim_in(assuming) is None


def test_an_object_may_be_assumed_again(assuming: ClusterObjects) -> None:
    again, written = claim(note="again"), claim("7", note="written")
    assert assuming.assume(again) == ""
    assert claim_in(assuming) is again
    assert assuming.assume(written) == ""  # the API server's answer, before its watch has it
    assert claim_in(assuming) is written
    assuming.put(claim("6"))
    assert claim_in(assuming) is written
    assuming.restore(again)
    assert claim_in(assuming) is written
    echo = claim("8")
    assuming.put(echo)
    assert claim_in(assuming) is echo
    assert assuming.assumed() == []


@pytest.mark.parametrize(
    ("assumed", "problem"),
    [
        (claim(name="d"), "PersistentVolumeClaim ns/d does not exist"),
        (claim("4"), "PersistentVolumeClaim ns/c is out of sync (stored: 5, assume: 4)"),
        (
            claim("5", uid="another"),
            "PersistentVolumeClaim ns/c is out of sync (stored: 5, assume: 5)",
        ),
        (claim("five"), "PersistentVolumeClaim ns/c is out of sync (stored: 5, assume: five)"),
    ],
)
def test_refused_assumptions(
    objects: ClusterObjects, assumed: PersistentVolumeClaim, problem: str
) -> None:
    assert objects.assume(assumed) == problem
    assert claim_in(objects) is STORED
    assert objects.assumed() == []


def test_versions_that_are_no_numbers_only_have_to_be_equal() -> None:
    objects = ClusterObjects()
    objects.put(claim("a"))
    assert objects.assume(claim("b")).endswith("is out of sync (stored: a, assume: b)")
    assumed = claim("a", note="assumed")
    assert objects.assume(assumed) == ""
    objects.put(claim("a"))
    assert claim_in(objects) is assumed
    news = claim("b")
    objects.put(news)
    assert claim_in(objects) is news


def test_every_change_of_what_look_ups_find_is_logged(objects: ClusterObjects) -> None:
    log = objects.changes(PersistentVolumeClaim)
    steps = (
        (lambda: objects.assume(ASSUMED), True),
        (lambda: objects.put(claim("5")), False),
        (lambda: objects.restore(claim("4")), False),
        (lambda: objects.restore(ASSUMED), True),
        (lambda: objects.restore(ASSUMED), False),
        (lambda: objects.put(claim("6")), True),
        (lambda: objects.assume(claim("5")), False),
        (lambda: objects.remove(claim("6")), True),
        (lambda: objects.remove(claim("6")), False),
    )
    for step, changes in steps:
        before = log.version
        step()
        assert log.since(before) == ({("ns", "c")} if changes else set())
    assert objects.version(Service) == 0


def test_a_kind_that_is_not_listed() -> None:
    objects = ClusterObjects()
    objects.kind_listed(Service, "nobody may list it")
    assert not objects.is_listed(Service)
    for look_up in (
        lambda: objects.get(Service, "s", "ns"),
        lambda: objects.within(Service, "ns"),
        lambda: objects.every(Service),
    ):
        with pytest.raises(UnlistedError, match="nobody may list it"):
            look_up()
    objects.kind_listed(Service)
    assert objects.get(Service, "s", "ns") is None


def test_an_assumption_ends_when_the_assumed_version_arrives(objects: ClusterObjects) -> None:
    written = claim("6", "written")
    assert objects.assume(written) == ""
    assert objects.assumed() == [written]
    objects.put(written)
    assert objects.assumed() == []
    assert claim_in(objects) == written


def test_the_version_of_the_api_server_is_no_assumption(objects: ClusterObjects) -> None:
    assert objects.assume(claim()) == ""
    assert objects.assumed() == []


def test_the_version_of_the_api_server_ends_an_assumption(assuming: ClusterObjects) -> None:
    assert assuming.assume(claim()) == ""
    assert assuming.assumed() == []
    assert claim_in(assuming) is STORED


def test_an_object_of_the_schedulers_own_is_there_until_it_is_restored(
    objects: ClusterObjects,
) -> None:
    pending = InFlightAllocation(metadata=ObjectMeta(name="u"))
    version = objects.version(InFlightAllocation)
    assert objects.assume(pending) == ""
    assert [*objects.every(InFlightAllocation)] == [pending]
    assert objects.assumed() == []
    objects.restore(pending)
    assert objects.get(InFlightAllocation, "u") is None
    assert objects.changes(InFlightAllocation).since(version) == {("", "u")}
    objects.restore(pending)
    objects.validate()

"""DynamicResources at each extension point, without an API server."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure, Outcome, Unfit
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.devices import InFlightAllocation
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.actors.scheduling.plugins.dynamic_resources.plugin import DynamicResources
from berth.plugin import (
    SKIP,
    ArgsError,
    Code,
    CycleState,
    FailedAttempt,
    Hint,
    Patch,
    Pod,
    PodInfo,
    PostFiltered,
    Resource,
    ResourceClaim,
    Snapshot,
    Status,
)
from tests.kit.devices import (
    DRIVER,
    GPU,
    allocated,
    claim,
    cluster,
    device_class,
    handle,
    node,
    pod,
    request,
    resource_slice,
    using,
)
from tests.kit.documents import Document
from tests.kit.profiles import at, profile_of

CLASS = device_class()
WAITS = Code.UNSCHEDULABLE_AND_UNRESOLVABLE


class Attempt:
    """An attempt at a pod in a cluster of these objects."""

    def __init__(self, document: Document, *objects: Document, **args: str) -> None:
        api = handle()
        self.snapshot: Snapshot = cluster(*objects)
        api.objects = cast("Any", self.snapshot.objects)
        self.plugin = DynamicResources(args, api)
        self.info = PodInfo(msgspec.convert(document, Pod))
        self.state = CycleState()

    def pre_filter(self) -> tuple[Code, str] | None:
        result = self.plugin.pre_filter(self.state, self.info, self.snapshot)
        return (
            None if not isinstance(result, Status) or result.ok else (result.code, result.message)
        )

    def filter(self) -> dict[str, str]:
        """Returns why each node is rejected; "" if it passes."""
        nodes = self.snapshot.all()
        verdicts = self.plugin.filter(self.state, self.info, nodes)
        names = [nodes.columns.names[row] for row in range(nodes.size)]
        if verdicts is None:
            return dict.fromkeys(names, "")
        return {
            name: "".join(verdicts.explain(int(verdicts.keys[i]))) if verdicts.codes[i] else ""
            for i, name in enumerate(names)
        }

    def run(self) -> dict[str, str]:
        assert self.pre_filter() is None
        return self.filter()

    def score(self) -> list[int]:
        self.run()
        scores: list[int] = self.plugin.score(self.state, self.info, self.snapshot.all()).tolist()
        return scores

    def post_filter(self) -> PostFiltered:
        failed = SimpleNamespace(state=self.state, info=self.info, snapshot=self.snapshot)
        return self.plugin.post_filter(cast("FailedAttempt", failed))


def with_claims(*names: str) -> Document:
    return using(pod({}), *names)


def uid(document: Document) -> Document:
    document["metadata"] |= {"uid": document["metadata"]["name"], "resourceVersion": "7"}
    return document


# --------------------------------------------------------------------------------------- arguments


def test_arguments() -> None:
    DynamicResources({"filterTimeout": "0s", "bindingTimeout": "1s"}, handle())
    for args in (
        {"filterTimeout": "-1s"},
        {"bindingTimeout": "999ms"},
        {"bindingTimeout": "soon"},
        {"other": "1s"},
    ):
        with pytest.raises(ArgsError):
            DynamicResources(args, handle())


# ------------------------------------------------------------------------- PreEnqueue and PreFilter


def test_pods_without_devices_are_skipped() -> None:
    attempt = Attempt(pod({"cpu": 1}), node(), CLASS)
    assert attempt.plugin.pre_filter(attempt.state, attempt.info, attempt.snapshot) == SKIP
    assert attempt.plugin.pre_enqueue(attempt.info.pod).ok
    assert attempt.filter() == {"n": ""}
    assert attempt.post_filter().status.message == "no new claims to deallocate"


def test_claims_that_cannot_be_allocated_anywhere() -> None:
    missing = (WAITS, 'could not find ResourceClaim "default/c"')
    attempt = Attempt(with_claims("c"), node())
    status = attempt.plugin.pre_enqueue(attempt.info.pod)
    assert (status.code, status.message) == attempt.pre_filter() == missing
    assert attempt.post_filter().status.message == "no new claims to deallocate"
    unknown = (WAITS, "request r: device class gpu does not exist")
    assert Attempt(with_claims("c"), node(), claim("c")).pre_filter() == unknown
    # The class does not matter any more.
    assert Attempt(with_claims("c"), node(), allocated("c", "n", "a")).pre_filter() is None


def test_a_claim_that_is_being_allocated() -> None:
    attempt = Attempt(with_claims("c"), node(), CLASS, uid(claim("c")))
    attempt.snapshot.objects.assume(InFlightAllocation(metadata=ObjectMeta(name="c")))
    expected = "resource claim default/c is in the process of being allocated"
    assert attempt.pre_filter() == (WAITS, expected)


# -------------------------------------------------------------------------------- Filter and Score


def test_nodes_with_devices_pass() -> None:
    nodes = [node("a"), node("b")]
    devices = resource_slice("a", "d")
    messages = Attempt(with_claims("c"), *nodes, CLASS, devices, claim("c")).run()
    assert messages == {"a": "", "b": "cannot allocate all claims"}
    twice = resource_slice("b", "d", "d")
    messages = Attempt(with_claims("c"), *nodes, CLASS, devices, twice, claim("c")).run()
    assert messages == {"a": "", "b": "invalid resource pools were encountered"}


def test_a_selector_that_fails_ends_the_attempt() -> None:
    wrong = device_class("gpu", "device.no")
    attempt = Attempt(with_claims("c"), node(), wrong, resource_slice("n", "d"), claim("c"))
    assert attempt.run()["n"].startswith("class gpu: selector #0: CEL compile error: ")
    verdicts = attempt.plugin.filter(attempt.state, attempt.info, attempt.snapshot.all())
    assert verdicts is not None
    assert verdicts.codes.tolist() == [Code.ERROR]


def elsewhere(name: str, on: str, *users: str) -> Document:
    document = uid(allocated(name, on, "d"))
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}]
    document["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": terms}
    document["status"]["reservedFor"] = [
        {"resource": "pods", "name": user, "uid": user} for user in users
    ]
    return document


def test_allocated_claims_bind_to_their_nodes() -> None:
    nodes = [node("a"), node("b")]
    attempt = Attempt(with_claims("c"), *nodes, CLASS, elsewhere("c", "a"))
    assert attempt.run() == {"a": "", "b": "resourceclaim not available on the node"}
    # The devices of other claims are looked for first.
    both = Attempt(with_claims("c", "e"), *nodes, CLASS, elsewhere("c", "a"), claim("e"))
    assert both.run() == dict.fromkeys("ab", "cannot allocate all claims")


def test_an_allocation_whose_nodes_cannot_be_read_fails_the_attempt() -> None:
    unreadable = elsewhere("c", "a")
    (term,) = unreadable["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    term["matchFields"][0]["operator"] = "Exists"
    attempt = Attempt(with_claims("c"), node("a"), CLASS, unreadable)
    assert attempt.pre_filter() == (
        Code.ERROR,
        (
            'nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: "Exists": '
            'supported values: "In", "NotIn"'
        ),
    )


def test_scores_prefer_the_first_sub_requests() -> None:
    size = 'device.attributes["{}"].size == {}'

    def sub(name: str, number: int) -> Document:
        expression = {"cel": {"expression": size.format(DRIVER, number)}}
        return {"name": name, **request(selectors=[expression])["exactly"]}

    subject = claim("c", {"name": "r", "firstAvailable": [sub("s", 1), sub("t", 2), sub("u", 3)]})
    slices = [
        resource_slice(name, {"name": "d", "attributes": {"size": {"int": number}}})
        for name, number in (("a", 3), ("b", 1))
    ]
    nodes = [node("a"), node("b")]
    assert Attempt(with_claims("c"), *nodes, CLASS, *slices, subject).score() == [6, 8]
    plain = Attempt(with_claims("c"), *nodes, CLASS, *slices, claim("c"))
    assert plain.score() == [0, 0]


def test_extended_resources() -> None:
    gpus = device_class("gpu", extendedResourceName=GPU)
    nodes = [node("a"), node("b", gpu=4), node("c")]
    subject = pod({GPU: 1, "example.com/nic": 1})
    devices = resource_slice("a", "d")
    expected = {"a": "", "b": "", "c": "cannot allocate all claims"}
    assert Attempt(pod({GPU: 1}), *nodes, gpus, devices).run() == expected
    assert Attempt(subject, *nodes, gpus, devices).run() == dict.fromkeys(
        "abc", "cannot fit resource"
    )


# ---------------------------------------------------------------------------- beside other plugins


def decided(document: Document, *objects: Document, disabled: str = "") -> Outcome:
    """Returns the outcome of the default profile, with the plugin disabled at one point. It is the
    same with a memory of the pod's template.
    """
    snapshot, made = cluster(*objects), handle()
    made.objects = cast("Any", snapshot.objects)
    points = at(disabled, disabled=["DynamicResources"]) if disabled else {}
    profile = profile_of(points=points, handle=made)
    info = PodInfo(msgspec.convert(document, Pod))
    scheduler = Scheduler(Random(0))
    outcome, *later = [scheduler.schedule(profile, info, snapshot) for _ in range(3)]
    assert {type(again) for again in later} == {type(outcome)}
    if isinstance(outcome, Choice):
        reserved = profile.reserve(outcome.state, info, outcome.node)
        return outcome if reserved.ok else DecisionFailure(reserved)
    return outcome


def cordoned(name: str) -> Document:
    return {**node(name), "spec": {"unschedulable": True}}


def test_the_allocator_is_not_asked_about_nodes_that_other_filters_exclude() -> None:
    """On node a it would fail, because only its device lacks the attribute."""
    sized = device_class("gpu", f'device.attributes["{DRIVER}"].size > 0')
    devices = [
        resource_slice("a", "d"),
        resource_slice("b", {"name": "d", "attributes": {"size": {"int": 0}}}),
        resource_slice("c", {"name": "d", "attributes": {"size": {"int": 1}}}),
    ]
    objects = [sized, *devices, claim("c")]
    excluded = decided(with_claims("c"), cordoned("a"), node("b"), node("c"), *objects)
    assert isinstance(excluded, Choice)
    assert excluded.node == "c"
    nowhere = decided(with_claims("c"), cordoned("a"), node("b"), *objects)
    assert isinstance(nowhere, Unfit)
    assert nowhere.message.startswith(
        "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) were unschedulable."
    )
    failed = decided(with_claims("c"), node("a"), node("b"), node("c"), *objects)
    assert isinstance(failed, DecisionFailure)
    assert "no such key: size" in failed.status.message


def test_the_allocator_is_not_asked_about_nodes_that_nominated_pods_fill() -> None:
    sized = device_class("gpu", f'device.attributes["{DRIVER}"].size > 0')
    devices = [
        resource_slice("a", "d"),
        resource_slice("b", {"name": "d", "attributes": {"size": {"int": 1}}}),
    ]
    nominated = pod({"cpu": 4}, "nominated")
    nominated["spec"]["schedulerName"] = "default-scheduler"
    nominated["status"] = {"nominatedNodeName": "a"}
    objects = [node("a"), node("b"), nominated, sized, *devices, claim("c")]
    outcome = decided(using(pod({"cpu": 1}), "c"), *objects)
    assert isinstance(outcome, Choice)
    assert outcome.node == "b"


def test_a_claim_is_kept_where_other_filters_exclude_all_nodes() -> None:
    """As in kube-scheduler, which does not ask whether the claim could be used there."""
    nodes = [cordoned("a"), cordoned("b")]
    kept = decided(with_claims("c"), *nodes, CLASS, elsewhere("c", "a"))
    assert isinstance(kept, Unfit)
    assert kept.post_filtered is not None
    assert kept.post_filtered.patches == ()
    assert "still not schedulable" in kept.message


@pytest.mark.parametrize(
    ("point", "problem"),
    [
        ("preEnqueue", ""),
        ("preFilter", "not found"),
        ("filter", "claim allocation not found for node"),
        ("postFilter", ""),
        ("score", ""),
        ("reserve", ""),
        ("preBind", ""),
    ],
)
def test_a_profile_without_one_of_the_extension_points(point: str, problem: str) -> None:
    objects = [node("n"), node("m"), CLASS, resource_slice("n", "d"), claim("c")]
    outcome = decided(with_claims("c"), *objects, disabled=point)
    if problem:
        assert isinstance(outcome, DecisionFailure)
        assert problem in outcome.status.message
    else:
        assert isinstance(outcome, Choice)
        assert outcome.node == "n"


# -------------------------------------------------------------------------------------- PostFilter


def deallocated(attempt: Attempt) -> tuple[str, list[str]]:
    attempt.run()
    result = attempt.post_filter()
    return result.status.message, [it.name for it in result.patches if isinstance(it, Patch)]


def test_an_allocation_that_no_node_can_use_is_given_up() -> None:
    done = "deallocation of ResourceClaim completed"
    nothing: tuple[str, list[str]] = ("still not schedulable", [])
    for users, expected in (
        ((), (done, ["c"])),
        (("p",), (done, ["c"])),
        (("other",), nothing),
        (("p", "other"), nothing),
    ):
        attempt = Attempt(with_claims("c"), node(), CLASS, elsewhere("c", "gone", *users))
        assert deallocated(attempt) == expected
    # It does not help where other claims cannot be allocated.
    both = Attempt(with_claims("c", "e"), node(), CLASS, elsewhere("c", "gone"), claim("e"))
    assert deallocated(both) == nothing
    fine = Attempt(with_claims("c"), node(), CLASS, elsewhere("c", "n"))
    assert deallocated(fine) == nothing


def left_over() -> Document:
    document = uid(claim("p-extended"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
    document["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
    }
    return document


def test_a_claim_for_extended_resources_that_is_left_over_is_deleted() -> None:
    gpus = device_class("gpu", extendedResourceName=GPU)
    attempt = Attempt(pod({GPU: 1}), node(), gpus, resource_slice("n", "d"), left_over())
    assert attempt.run() == {"n": "cannot schedule extended resource claim"}
    result = attempt.post_filter()
    assert result.status.message == "deletion of ResourceClaim completed"
    assert [it.name for it in result.patches] == ["p-extended", "p-extended"]


# ------------------------------------------------------------------------------------------- hints


def hint(
    resource: Resource, document: Document, old: object, new: object, *objects: Document
) -> Hint:
    attempt = Attempt(document, node(), CLASS, *objects)
    (function,) = [
        it.hint for it in attempt.plugin.events_to_register() if it.event.resource == resource
    ]
    assert function is not None
    return function(attempt.info.pod, old, new)


def read(document: Document) -> ResourceClaim:
    item = decode(uid(document))
    assert isinstance(item, ResourceClaim)
    return item


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, claim("c"), Hint.QUEUE),
        (None, claim("other"), Hint.SKIP),
        (claim("c"), claim("c"), Hint.SKIP),
        (claim("c"), allocated("c", "n", "a"), Hint.QUEUE),
        (claim("other"), allocated("other", "n", "a"), Hint.SKIP),
        # A device is free.
        (allocated("other", "n", "a"), claim("other"), Hint.QUEUE),
        (elsewhere("c", "n", "p"), elsewhere("c", "n"), Hint.QUEUE),
    ],
)
def test_changes_of_claims(old: Document | None, new: Document, expected: Hint) -> None:
    before = None if old is None else read(old)
    answer = hint(Resource.RESOURCE_CLAIM, with_claims("c"), before, read(new), uid(claim("c")))
    assert answer == expected


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [(allocated("other", "n", "a"), Hint.QUEUE), (claim("other"), Hint.SKIP)],
    ids=["with devices", "without"],
)
def test_a_deleted_claim_gives_back_its_devices(deleted: Document, expected: Hint) -> None:
    """The change that freed them may have been missed."""
    pod, held = with_claims("c"), uid(claim("c"))
    assert hint(Resource.RESOURCE_CLAIM, pod, read(deleted), None, held) == expected


def test_a_change_does_not_help_while_another_claim_is_missing() -> None:
    before, after = read(allocated("other", "n", "a")), read(claim("other"))
    assert hint(Resource.RESOURCE_CLAIM, with_claims("c"), before, after) == Hint.SKIP


@pytest.mark.parametrize(
    ("claims", "concerned"),
    [([claim("c")], None), ([allocated("c", "n", "a")], []), ([], [])],
    ids=["released", "the claim has the devices", "the claim is gone"],
)
def test_devices_that_were_in_flight_for_a_pod_are_free(
    claims: list[Document], concerned: list[str] | None
) -> None:
    """The pod counts no longer on its node, and it concerns all pods that wait, or none."""
    attempt = Attempt(with_claims("d"), node(), CLASS, *claims)
    (registration,) = [
        it
        for it in attempt.plugin.events_to_register()
        if it.event.resource is Resource.ASSIGNED_POD
    ]
    assert registration.concerns is not None
    gone = msgspec.convert(with_claims("c"), Pod)
    assert registration.concerns.of_change(gone, None) == concerned
    assert registration.hint is not None
    assert registration.hint(attempt.info.pod, gone, None) is Hint.QUEUE


def test_claims_that_were_made_for_the_pod() -> None:
    there, changed = uid(claim("c")), msgspec.convert(with_claims("c"), Pod)
    other = msgspec.convert(using(pod({}, "q"), "c"), Pod)
    assert hint(Resource.POD, with_claims("c"), None, changed, there) == Hint.QUEUE
    assert hint(Resource.POD, with_claims("c"), None, changed) == Hint.SKIP
    assert hint(Resource.POD, with_claims("c"), None, other, there) == Hint.SKIP

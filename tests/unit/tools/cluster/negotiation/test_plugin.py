"""The scheduler's side of the negotiation: what it proposes, where pods fit, what is reserved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from berth.actors.configuration.file import load_file
from berth.actors.configuration.plugin_packages import every_plugin
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.registry import extension_points
from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.events import Action, Resource
from berth.actors.scheduling.framework.post_filter import FailedAttempt, Patch
from berth.actors.scheduling.framework.status import SKIP, SUCCESS, Code, Status, error
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.plugins.dynamic_resources.plugin import DynamicResources
from berth.actors.wiring.profiles import profiles_of
from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.config.profiles import expand_profile
from berth.tools.cluster.negotiation.kinds import (
    API_VERSION,
    POD_SCHEDULING_CONTEXTS,
    RESOURCE_CLAIMS,
    RESOURCE_CLASSES,
    PodSchedulingContext,
    ResourceClaim,
)
from berth.tools.cluster.negotiation.plugin import PodSchedulingContexts
from berth.tools.testing.demo.command import NEGOTIATION
from tests.kit import structs
from tests.kit.devices import claim as claim_of_v1
from tests.kit.devices import node
from tests.kit.documents import Document
from tests.kit.handle import NoApi
from tests.kit.hints import wakes
from tests.kit.snapshots import snapshot_of

KINDS = (RESOURCE_CLAIMS, RESOURCE_CLASSES, POD_SCHEDULING_CONTEXTS)
CLASS: Document = {"apiVersion": API_VERSION, "kind": "ResourceClass", "metadata": {"name": "gpu"}}
NODES = [node(name, {"zone": name}) for name in "abc"]
USER = {"resource": "pods", "name": "p", "uid": "p"}
OTHER = {"resource": "pods", "name": "q", "uid": "q"}
ALLOCATE = "waiting for resource driver to allocate resource"
INFORM = "waiting for resource driver to provide information"


def on(*zones: str) -> Document:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": zones}]}
    return {"nodeSelectorTerms": [term]}


def claim(name: str = "c", mode: str = "WaitForFirstConsumer", **status: Any) -> Document:
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
        "spec": {"resourceClassName": "gpu", "allocationMode": mode},
        "status": status,
    }


def context(
    selected: str = "", *potential: str, owner: str = "p", **unsuitable: list[str]
) -> Document:
    """Returns a context with the answers for these claims."""
    answers = [{"name": name, "unsuitableNodes": nodes} for name, nodes in unsuitable.items()]
    owners = [{"kind": "Pod", "name": "p", "uid": owner, "controller": True}]
    return {
        "apiVersion": API_VERSION,
        "kind": "PodSchedulingContext",
        "metadata": {"name": "p", "namespace": "default", "uid": "x", "ownerReferences": owners},
        "spec": {"selectedNode": selected, "potentialNodes": potential},
        "status": {"resourceClaims": answers},
    }


def pod(*claims: str) -> Pod:
    entries = [{"name": name, "resourceClaimName": name} for name in claims]
    return structs.pod(namespace="default", resourceClaims=entries)


class Server:
    """An API server, and the informers' view of it, which never lags. `late` changes an object
    before the next patch.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.written: list[tuple[str, str, Any]] = []
        self.assumed: list[Any] = []
        self.late: Document | None = None

    def get(self, kind: type[Any], name: str, namespace: str = "") -> Any:
        return self.snapshot.objects.get(kind, name, namespace)

    def assume(self, item: Any) -> None:
        assert item == self.get(type(item), item.metadata.name, item.metadata.namespace)
        self.assumed.append(item)

    def wrote(self, verb: str, name: str, body: Any) -> None:
        self.written.append((verb, name, msgspec.json.decode(msgspec.json.encode(body))))

    def put(self, kind: type[Any], document: Document) -> Any:
        item = msgspec.convert(document, kind)
        self.snapshot.objects.put(item)
        return item


class Api:
    def __init__(self, server: Server) -> None:
        self.server = server

    async def get(self, kind: type[Any], name: str, namespace: str = "") -> Any:
        item = self.server.get(kind, name, namespace)
        return error("not found") if item is None else item

    async def create(self, kind: type[Any], body: Mapping[str, Any], namespace: str = "") -> Any:
        if self.server.get(kind, body["metadata"]["name"], namespace) is not None:
            return error("already exists")
        self.server.wrote("create", body["metadata"]["name"], body["spec"])
        metadata = {**body["metadata"], "namespace": namespace, "uid": "x"}
        return self.server.put(kind, {**body, "metadata": metadata})

    async def patch(
        self, kind: type[Any], name: str, changes: Document, namespace: str, subresource: str = ""
    ) -> Any:
        if self.server.late is not None:
            self.server.put(kind, self.server.late)
            self.server.late = None
        before = self.server.get(kind, name, namespace)
        version = changes["metadata"].get("resourceVersion", before.metadata.resource_version)
        if version != before.metadata.resource_version:
            return error("the object has been modified")
        part = "status" if subresource else "spec"
        self.server.wrote("patch", name, changes[part])
        after = msgspec.to_builtins(before)
        after[part] = {**after.get(part, {}), **changes[part]}
        after[part] = {field: value for field, value in after[part].items() if value is not None}
        after["metadata"]["resourceVersion"] = f"{before.metadata.resource_version}0"
        return self.server.put(kind, after)

    async def delete(self, kind: type[Any], name: str, namespace: str = "", uid: str = "") -> Any:
        self.server.wrote("delete", name, kind.__name__)
        return SUCCESS


class Handle(NoApi):
    def __init__(self, server: Server) -> None:
        super().__init__()
        self.api: Any = Api(server)
        self.objects: Any = server


class Attempt:
    """An attempt for a pod with these claims, in a cluster of these objects besides the nodes."""

    def __init__(self, user: Pod, *objects: Document) -> None:
        self.snapshot = snapshot_of([*NODES, CLASS, *objects], set(), kinds=KINDS)
        self.server = Server(self.snapshot)
        self.plugin = PodSchedulingContexts({}, Handle(self.server))
        self.info, self.state = PodInfo(user), CycleState()

    def pre_filter(self) -> Status:
        status = self.plugin.pre_filter(self.state, self.info, self.snapshot)
        assert isinstance(status, Status)
        return status

    def reasons(self) -> dict[str, str]:
        """Returns the nodes that are rejected, with the reason."""
        assert self.pre_filter() is SUCCESS
        view = self.snapshot.all()
        verdicts = self.plugin.filter(self.state, self.info, view)
        if verdicts is None:
            return {}
        return {
            view.name(i): verdicts.explain(int(verdicts.keys[i]))[0]
            for i in range(view.size)
            if verdicts.codes[i]
        }

    async def place(self, where: str = "a", *, scores: bool = True) -> Status:
        """Runs PreScore to PreBind; `reasons` must have been asked before."""
        rejected = self.reasons()
        rows = [i for i in range(self.snapshot.columns.size) if self._name(i) not in rejected]
        if scores:
            view = self.snapshot.rows(np.array(rows))
            assert self.plugin.pre_score(self.state, self.info, view) is SUCCESS
        status = self.plugin.reserve(self.state, self.info, where)
        return await self.plugin.pre_bind(self.state, self.info, where) if status.ok else status

    def _name(self, row: int) -> str:
        return self.snapshot.all().name(row)


# ------------------------------------------------------------------------------------- the profile


def negotiating(server: Server) -> Profile:
    """Returns the profile of `berth demo --negotiation`."""
    return profiles_of(load_file(NEGOTIATION), Handle(server))["default-scheduler"]


def test_the_plugin_is_installed_with_berth_and_not_enabled_by_default() -> None:
    server = Server(Snapshot())
    default = profiles_of(from_mapping(None), Handle(server))["default-scheduler"]
    added = {plugin.name for plugin in negotiating(server).plugins} - {
        plugin.name for plugin in default.plugins
    }
    assert added == {"PodSchedulingContext"}


def test_its_claims_are_freed_before_preemption() -> None:
    points = {name: extension_points(kind) for name, kind in every_plugin().items()}
    order = expand_profile(load_file(NEGOTIATION).profiles[0], points, "", DEFAULTS)["postFilter"]
    names = [plugin.name for plugin in order]
    assert names == ["DynamicResources", "PodSchedulingContext", "DefaultPreemption"]


def test_dynamic_resources_leaves_the_claims_of_v1alpha2_alone() -> None:
    server = Attempt(pod("c"), claim()).server
    missing = 'could not find ResourceClaim "default/c"'
    assert negotiating(server).pre_enqueue(pod("c")).ok
    alone = DynamicResources({}, Handle(server))
    assert alone.pre_enqueue(pod("c")).reasons == (missing,)
    of_v1 = {**claim_of_v1("c"), "metadata": {"name": "c", "namespace": "default", "uid": "v1"}}
    both = Attempt(pod("c"), claim(), of_v1)
    assert both.pre_filter() is SKIP, "a claim of v1 takes precedence"
    assert both.plugin.pre_enqueue(pod("none")).reasons == (
        'could not find ResourceClaim "default/none"',
    )


# ----------------------------------------------------------------------------------- where it fits


def test_a_pod_without_negotiated_claims_is_skipped() -> None:
    assert Attempt(pod()).pre_filter() is SKIP


@pytest.mark.parametrize(
    ("documents", "code", "reason"),
    [
        ([], Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 'could not find ResourceClaim "default/c"'),
        (
            [claim(mode="Immediate")],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "unallocated immediate resourceclaim",
        ),
        (
            [claim(allocation={}, deallocationRequested=True)],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "resourceclaim must be reallocated",
        ),
        (
            [claim(allocation={}, reservedFor=[OTHER])],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "resourceclaim in use",
        ),
        (
            [claim(), context(owner="before")],
            Code.ERROR,
            "PodSchedulingContext object with UID x is not owned by Pod default/p",
        ),
    ],
)
def test_claims_that_end_the_attempt(documents: list[Document], code: Code, reason: str) -> None:
    status = Attempt(pod("c"), *documents).pre_filter()
    assert (status.code, status.reasons) == (code, (reason,))


def test_a_pending_claim_needs_its_class() -> None:
    spec = {"resourceClassName": "x", "allocationMode": "WaitForFirstConsumer"}
    status = Attempt(pod("c"), {**claim(), "spec": spec}).pre_filter()
    assert status.reasons == ("resource class x does not exist",)


def test_nodes_are_limited_by_allocations_classes_and_drivers() -> None:
    assert Attempt(pod("c"), claim()).reasons() == {}
    allocated = claim(allocation={"availableOnNodes": on("a", "b")}, reservedFor=[USER])
    assert Attempt(pod("c"), allocated).reasons() == {
        "c": "resourceclaim not available on the node"
    }
    limited = {**CLASS, "suitableNodes": on("a")}
    assert Attempt(pod("c"), claim(), limited).reasons() == dict.fromkeys(
        "bc", "excluded by resource class node filter"
    )
    answered = context("a", "a", "b", c=["b"], other=["a"])
    assert Attempt(pod("c"), claim(), answered).reasons() == {
        "b": "resourceclaim cannot be allocated for the node (unsuitable)"
    }


def test_only_unused_claims_on_other_nodes_are_given_up() -> None:
    def given_up(*claims: Document, user: Pod) -> tuple[str, list[Patch]]:
        attempt = Attempt(user, *claims)
        if claims:
            attempt.reasons()

        class Failed(FailedAttempt):
            state, info = attempt.state, attempt.info
            codes: Any = ()
            row_by_row: Any = False
            seen_by: Any = None
            versions: Any = None
            supposed: Any = None

        result = attempt.plugin.post_filter(Failed())
        assert result.status.code is Code.UNSCHEDULABLE
        return result.status.message, [it for it in result.patches if isinstance(it, Patch)]

    elsewhere = {"availableOnNodes": on("nowhere"), "shareable": True}
    message, (patch,) = given_up(
        claim("used", allocation=elsewhere, reservedFor=[USER, OTHER]),
        claim("mine", allocation=elsewhere, reservedFor=[USER]),
        user=pod("used", "mine"),
    )
    assert message == "deallocation of ResourceClaim completed"
    assert (patch.name, patch.subresource) == ("mine", "status")
    assert patch.changes["status"] == {"reservedFor": None, "deallocationRequested": True}
    everywhere = claim(allocation={}, reservedFor=[USER])
    assert given_up(everywhere, user=pod("c")) == ("still not schedulable", [])
    immediate = claim(mode="Immediate", allocation=elsewhere, reservedFor=[USER])
    assert given_up(immediate, user=pod("c")) == ("still not schedulable", [])
    assert given_up(user=pod()) == ("", [])


# --------------------------------------------------------------------------------- the negotiation


async def test_a_single_claim_selects_a_node_at_once() -> None:
    attempt = Attempt(pod("c"), claim())
    status = await attempt.place()
    assert (status.code, status.reasons) == (Code.PENDING, (ALLOCATE,))
    proposal = {"selectedNode": "a", "potentialNodes": ["a", "b", "c"]}
    assert attempt.server.written == [("create", "p", proposal)]


async def test_several_claims_wait_for_the_drivers_to_answer_first() -> None:
    attempt = Attempt(pod("c", "d"), claim(), claim("d"))
    status = await attempt.place()
    assert (status.code, status.reasons) == (Code.PENDING, (INFORM,))
    ((_, _, proposal),) = attempt.server.written
    assert proposal == {"potentialNodes": ["a", "b", "c"]}
    documents = (claim(), claim("d"), context("", "a", "b", "c", c=[]))
    waiting = await Attempt(pod("c", "d"), *documents).place()
    assert waiting.reasons == (INFORM,)
    answered = Attempt(pod("c", "d"), claim(), claim("d"), context("", *"abc", c=["b"], d=[]))
    assert (await answered.place("c")).reasons == (ALLOCATE,)
    assert answered.server.written == [
        ("patch", "p", {"selectedNode": "c", "potentialNodes": ["a", "b", "c"]})
    ]


async def test_what_is_published_already_is_not_written_again() -> None:
    attempt = Attempt(pod("c"), claim(), context("a", "a", "b", "c"))
    status = await attempt.place()
    assert (status.code, status.reasons) == (Code.PENDING, (ALLOCATE,))
    assert attempt.server.written == []


async def test_another_node_is_selected_once_the_first_is_unsuitable() -> None:
    attempt = Attempt(pod("c"), claim(), context("a", "a", "b", "c", c=["a"]))
    assert (await attempt.place("b")).reasons == (ALLOCATE,)
    assert attempt.server.written == [
        ("patch", "p", {"selectedNode": "b", "potentialNodes": ["a", "b", "c"]})
    ]


async def test_the_selected_node_is_among_at_most_128_potential_ones() -> None:
    many = [node(f"n{number:03}") for number in range(200)]
    attempt = Attempt(pod("c"), claim(), *many)
    await attempt.place("n199")
    ((_, _, proposal),) = attempt.server.written
    assert len(proposal["potentialNodes"]) == 128
    assert "n199" in proposal["potentialNodes"]
    alone = Attempt(pod("c"), claim())
    await alone.place("b", scores=False)  # as with a single feasible node
    assert alone.server.written == [("create", "p", {"selectedNode": "b", "potentialNodes": ["b"]})]


async def test_a_context_that_the_informer_does_not_have_yet_is_changed() -> None:
    attempt = Attempt(pod("c"), claim())
    attempt.reasons()
    attempt.plugin.reserve(attempt.state, attempt.info, "b")
    attempt.server.put(PodSchedulingContext, context("a", "a"))
    status = await attempt.plugin.pre_bind(attempt.state, attempt.info, "b")
    assert status.reasons == (ALLOCATE,)
    assert attempt.server.written == [
        ("patch", "p", {"selectedNode": "b", "potentialNodes": ["b"]})
    ]
    assert [context.spec.selected_node for context in attempt.server.assumed] == ["b"]


# -------------------------------------------------------------------------------- the reservations


def read(attempt: Attempt, name: str = "c") -> list[str]:
    """Returns the pods that a claim is reserved for."""
    stored: ResourceClaim = attempt.server.get(ResourceClaim, name, "default")
    return [user.name for user in stored.status.reserved_for]


async def test_allocated_claims_are_reserved_and_the_context_is_deleted() -> None:
    mine, shared = claim(allocation={}, reservedFor=[USER]), {"shareable": True}
    attempt = Attempt(
        pod("c", "d"), mine, claim("d", allocation=shared, reservedFor=[OTHER]), context("a", "a")
    )
    assert await attempt.place() is SUCCESS
    assert [(verb, name) for verb, name, _ in attempt.server.written] == [
        ("patch", "d"),
        ("delete", "p"),
    ]
    assert read(attempt, "d") == ["q", "p"]
    await attempt.plugin.roll_back(attempt.state, attempt.info, "a")
    assert (read(attempt), read(attempt, "d")) == (["p"], ["q"]), "only its own write is undone"


async def test_a_reservation_leaves_other_users_as_they_are() -> None:
    user = {"apiGroup": "example.com", "resource": "trainings", "name": "t", "uid": "t"}
    shared = claim(mode="Immediate", allocation={"shareable": True}, reservedFor=[user])
    attempt = Attempt(pod("c"), shared)
    assert await attempt.place() is SUCCESS
    ((_, _, status),) = attempt.server.written
    assert status["reservedFor"][:-1] == [user]


async def test_an_immediate_claim_needs_no_context() -> None:
    attempt = Attempt(pod("c"), claim(mode="Immediate", allocation={}))
    assert await attempt.place() is SUCCESS
    assert [verb for verb, _, _ in attempt.server.written] == ["patch"]


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        ({"allocation": {"shareable": True}, "reservedFor": [OTHER]}, ""),
        ({"allocation": {}}, "claim default/c got reallocated in the meantime"),
        ({}, "claim default/c got reallocated in the meantime"),
        (
            {"allocation": {"shareable": True}, "deallocationRequested": True},
            "claim default/c got reallocated in the meantime",
        ),
    ],
)
async def test_a_claim_that_changes_meanwhile(late: Document, expected: str) -> None:
    attempt = Attempt(pod("c"), claim(allocation={"shareable": True}))
    changed = claim(**late)
    changed["metadata"]["resourceVersion"] = "2"
    attempt.server.late = changed
    status = await attempt.place()
    assert status.message == expected
    assert read(attempt) == ([] if expected else ["q", "p"])


async def test_a_claim_that_another_pod_takes_meanwhile() -> None:
    attempt = Attempt(pod("c"), claim(allocation={}))
    taken = claim(allocation={}, reservedFor=[OTHER])
    taken["metadata"]["resourceVersion"] = "2"
    attempt.server.late = taken
    status = await attempt.place()
    assert status.code is Code.ERROR
    assert status.message == "claim default/c got reserved elsewhere in the meantime"
    assert read(attempt) == ["q"]


# ---------------------------------------------------------------------------------------- the hints


def wakes_by(kind: str, attempt: Attempt, old: Any, new: Any, action: Action) -> bool:
    with_server = negotiating(attempt.server)
    event: Any = (kind, action)
    return wakes(with_server, "PodSchedulingContext", event, attempt.info.pod, old, new)


def test_a_claim_of_the_pod_wakes_it_and_so_does_one_that_becomes_free() -> None:
    attempt, name = Attempt(pod("c"), claim()), RESOURCE_CLAIMS.full_name
    assert name == "ResourceClaim.v1alpha2.resource.k8s.io"

    def wakes_pod(old: Document | None, new: Document) -> bool:
        before = None if old is None else msgspec.convert(old, ResourceClaim)
        action = Action.ADD if old is None else Action.UPDATE_OTHER
        return wakes_by(name, attempt, before, msgspec.convert(new, ResourceClaim), action)

    assert wakes_pod(None, claim())
    assert wakes_pod(claim(), claim(allocation={}))
    assert not wakes_pod(claim(), claim())
    assert not wakes_pod(claim("o"), claim("o", allocation={}))
    assert wakes_pod(claim("o", allocation={}), claim("o"))


def test_the_answers_for_all_claims_wake_the_pod() -> None:
    attempt = Attempt(pod("c", "d"), claim(), claim("d"))

    def wakes_pod(old: Document, new: Document) -> bool:
        before, after = (msgspec.convert(it, PodSchedulingContext) for it in (old, new))
        kind = POD_SCHEDULING_CONTEXTS.kind
        return wakes_by(kind, attempt, before, after, Action.UPDATE_OTHER)

    unanswered, answered = context("", "a"), context("", "a", c=[], d=["a"])
    assert wakes_pod(unanswered, answered)
    assert not wakes_pod(unanswered, context("", "a", c=["a"])), "an answer is missing"
    assert not wakes_pod(answered, context("a", "a", c=[], d=["a"])), "it is the scheduler's write"
    assert not wakes_pod(unanswered, context("", "a", owner="q", c=[], d=["a"]))


def test_a_claim_of_v1alpha2_wakes_a_pod_that_dynamic_resources_gates() -> None:
    attempt = Attempt(pod("c"), claim())
    with_server = negotiating(attempt.server)
    event: Any = (RESOURCE_CLAIMS.full_name, Action.ADD)
    new = msgspec.convert(claim(), ResourceClaim)
    assert wakes(with_server, "DynamicResources", event, pod("c"), None, new)
    assert not wakes(with_server, "DynamicResources", event, pod("other"), None, new)
    nodes: Any = (Resource.NODE, Action.ADD)
    assert wakes(with_server, "PodSchedulingContext", nodes, pod("c"))

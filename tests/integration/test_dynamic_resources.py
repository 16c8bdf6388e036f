"""DynamicResources from the decision to the bound pod, in virtual time. Afterwards no device is
held by two claims, and none by a claim that is not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import (
    FINALIZER,
    InFlightAllocation,
    OpaqueDeviceConfiguration,
    ResourceClaim,
)
from berth.actors.scheduling.kube.kinds import BY_KIND
from tests.kit.devices import API, GPU, claim, device_class, request, resource_slice, using
from tests.kit.documents import Document
from tests.kit.instruments import Reader
from tests.kit.virtual_cluster import Fault, VirtualCluster, node, pod, virtual_cluster

pytestmark = pytest.mark.full("long")

CLAIMS = BY_KIND[API, "ResourceClaim"]
STATUS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{}/status"


async def furnish(cluster: VirtualCluster, *documents: Document, devices: int = 1) -> None:
    """Creates two nodes with these many devices each, a class, and these objects."""
    for name in ("a", "b"):
        await cluster.create(node(name, 1000))
        names = [f"gpu-{number}" for number in range(devices)]
        await cluster.create(resource_slice(name, *names))
    await cluster.create(device_class())
    for document in documents:
        await cluster.create(document)
    await cluster.clock.advance(1.0)


def read(cluster: VirtualCluster, name: str = "c") -> ResourceClaim:
    stored: ResourceClaim = cluster.objects(CLAIMS)["default", name]
    return stored


def on(cluster: VirtualCluster, name: str = "p") -> str:
    return cluster.pods()[name].spec.node_name


def message(cluster: VirtualCluster, name: str = "p") -> str:
    (condition,) = cluster.pods()[name].status.conditions
    return condition.message


def held(cluster: VirtualCluster) -> Counter[tuple[str, str]]:
    """Returns the devices that claims hold."""
    return Counter(
        (result.pool, result.device)
        for each in cluster.objects(CLAIMS).values()
        if each.status.allocation is not None
        for result in each.status.allocation.devices.results
    )


def settle(cluster: VirtualCluster) -> None:
    """Checks that the cache has the API server's claims, nothing is assumed or pending, and no
    device is held twice.
    """
    assert cluster.snapshot is not None
    objects = cluster.snapshot.objects
    assert objects.assumed() == []
    assert [*objects.every(InFlightAllocation)] == []
    claims = {(it.metadata.namespace, it.metadata.name): it for it in objects.every(ResourceClaim)}
    assert claims == cluster.objects(CLAIMS)
    assert all(number == 1 for number in held(cluster).values())
    objects.validate()


async def change(cluster: VirtualCluster, name: str, body: Document) -> None:
    await cluster.api.patch(STATUS.format(name), body, object, "merge")


async def test_a_claim_is_allocated_and_reserved_before_the_pod_is_bound() -> None:
    async with virtual_cluster() as cluster:
        await furnish(cluster, claim("c"))
        await cluster.create(using(pod("p"), "c"))
        await cluster.clock.advance(10.0)
        stored = read(cluster)
        assert on(cluster)
        assert stored.metadata.finalizers == (FINALIZER,)
        assert [user.name for user in stored.status.reserved_for] == ["p"]
        allocation = stored.status.allocation
        assert allocation is not None
        assert allocation.allocation_timestamp
        (result,) = allocation.devices.results
        assert (result.request, result.pool, result.device) == ("r", on(cluster), "gpu-0")
        assert allocation.node_selector is not None
        settle(cluster)


async def test_opaque_parameters_are_written_as_they_are() -> None:
    parameters: Document = {
        "none": None,
        "list": [None, {"none": None}],
        "number": 1.5,
        "empty": {},
    }
    config = [{"opaque": {"driver": "d", "parameters": parameters}}]
    async with virtual_cluster() as cluster:
        await furnish(cluster, device_class("with", config=config))
        await cluster.create(claim("c", request(of="with"), config=config))
        await cluster.create(using(pod("p"), "c"))
        await cluster.clock.advance(10.0)
        allocation = read(cluster).status.allocation
        assert allocation is not None
        written = [(it.source, it.opaque) for it in allocation.devices.config]
        opaque = OpaqueDeviceConfiguration(driver="d", parameters=parameters)
        assert written == [("FromClass", opaque), ("FromClaim", opaque)]
        assert [user.name for user in read(cluster).status.reserved_for] == ["p"]
        settle(cluster)


async def test_devices_are_not_given_twice_and_are_free_again() -> None:
    async with virtual_cluster(late=0.5) as cluster:
        names = [f"c{number}" for number in range(3)]
        await furnish(cluster, *(claim(name) for name in names))
        for name in names:
            await cluster.create(using(pod(f"p-{name}"), name))
        await cluster.clock.advance(20.0)
        placed = [name for name in names if on(cluster, f"p-{name}")]
        (waiting,) = set(names) - set(placed)
        assert len(placed) == 2
        expected = "0/2 nodes are available: 2 cannot allocate all claims."
        assert message(cluster, f"p-{waiting}").startswith(expected)
        settle(cluster)
        # The claim controller frees what a deleted pod held.
        await cluster.delete_pod(f"p-{placed[0]}")
        await change(cluster, placed[0], {"status": {"allocation": None, "reservedFor": None}})
        await cluster.clock.advance(20.0)
        assert on(cluster, f"p-{waiting}")
        settle(cluster)


async def test_pods_share_a_claim_on_its_node() -> None:
    async with virtual_cluster(late=0.2) as cluster:
        await furnish(cluster, claim("c"))
        for number in range(8):
            await cluster.create(using(pod(f"p{number}"), "c"))
        await cluster.clock.advance(60.0)
        nodes = {on(cluster, f"p{number}") for number in range(8)}
        assert len(nodes) == 1
        assert "" not in nodes
        assert len(read(cluster).status.reserved_for) == 8
        settle(cluster)


async def test_a_claim_that_is_not_there_keeps_the_pod_out_of_the_queue() -> None:
    async with virtual_cluster() as cluster:
        await furnish(cluster)
        await cluster.create(using(pod("p"), "c"))
        await cluster.clock.advance(10.0)
        assert cluster.decisions == []
        await cluster.create(claim("c"))
        await cluster.clock.advance(10.0)
        assert on(cluster)
        settle(cluster)


# ---------------------------------------------------------------------------------------- conflicts


def at_first_status(fault: Fault, times: int = 1) -> Callable[[str, str, object], Fault]:
    """Returns a fault for the first writes of an allocation."""
    pending = [fault] * times

    def choose(method: str, path: str, body: object) -> Fault:
        return (
            pending.pop()
            if path.endswith("/status") and "claims" in path and pending
            else Fault.NONE
        )

    return choose


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.LOST, Fault.UNANSWERED, Fault.DELAYED])
async def test_a_write_that_fails_is_made_again(fault: Fault) -> None:
    async with virtual_cluster(late=0.1, fault=at_first_status(fault)) as cluster:
        await furnish(cluster, claim("c"), claim("d"))
        await cluster.create(using(pod("p"), "c"))
        await cluster.create(using(pod("q"), "d"))
        await cluster.clock.advance(60.0)
        assert on(cluster, "p")
        assert on(cluster, "q")
        settle(cluster)


async def test_a_claim_that_somebody_else_allocated() -> None:
    async with virtual_cluster(late=0.5) as cluster:
        await furnish(cluster, claim("c"))
        await cluster.create(using(pod("p"), "c"))
        await cluster.clock.advance(0.3)
        results = [{"request": "r", "driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}]
        name = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
        allocation = {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": name}]},
        }
        await change(cluster, "c", {"status": {"allocation": allocation}})
        await cluster.clock.advance(60.0)
        assert on(cluster) == "a"
        assert [user.name for user in read(cluster).status.reserved_for] == ["p"]
        settle(cluster)


async def test_a_claim_that_is_deleted_meanwhile() -> None:
    async with virtual_cluster(late=0.5) as cluster:
        await furnish(cluster, claim("c"), claim("d"), claim("e"))
        await cluster.create(using(pod("p"), "c"))
        await cluster.clock.advance(0.3)
        await cluster.delete("ResourceClaim", "c", "default", API)
        await cluster.create(using(pod("q"), "d"))
        await cluster.create(using(pod("r"), "e"))
        await cluster.clock.advance(60.0)
        assert not on(cluster, "p")
        assert on(cluster, "q")
        # As in kube-scheduler, no event reports that the device of a deleted claim is free.
        await cluster.clock.advance(300.0)
        assert on(cluster, "r")
        settle(cluster)


async def test_a_slice_that_is_withdrawn_in_flight() -> None:
    """As in Kubernetes, the pod is bound; what its driver no longer has, the kubelet refuses."""
    async with virtual_cluster(late=0.5) as cluster:
        await furnish(cluster, claim("c"), claim("d"))
        await cluster.create(using(pod("p"), "c"))
        await cluster.clock.advance(0.3)
        for name in ("a", "b"):
            await cluster.delete("ResourceSlice", f"{name}-gpus", "", API)
        await cluster.create(using(pod("q"), "d"))
        await cluster.clock.advance(60.0)
        assert on(cluster, "p")
        assert not on(cluster, "q")
        settle(cluster)


async def test_a_pod_that_cannot_be_bound_gives_its_reservation_back() -> None:
    def refuse(method: str, path: str, body: object) -> Fault:
        return Fault.REFUSED if path.endswith("/binding") else Fault.NONE

    async with virtual_cluster(fault=refuse) as cluster:
        await furnish(cluster, claim("c"))
        await cluster.create(using(pod("p"), "c"))
        await cluster.clock.advance(0.5)
        stored = read(cluster)
        assert stored.status.reserved_for == ()
        assert stored.status.allocation is not None
        settle(cluster)


# ------------------------------------------------------------------------------- binding conditions

ATTACHED = {"name": "gpu-0", "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


async def prepare(cluster: VirtualCluster, condition: str) -> None:
    """Reports a condition of the device of claim c, as the driver does."""
    allocation = read(cluster).status.allocation
    assert allocation is not None
    (result,) = allocation.devices.results
    device = {
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
        "conditions": [{"type": condition, "status": "True", "reason": "why", "message": "m"}],
    }
    await change(cluster, "c", {"status": {"devices": [device]}})


def waits(cluster: VirtualCluster) -> dict[tuple[str, ...], float]:
    """Returns the numbers of waits for binding conditions, by profile, driver and outcome."""
    read = Reader(cluster.instruments.registry)
    waited = read.numbers("dra_bindingconditions_wait_duration_seconds")
    assert waited == read.numbers("dra_bindingconditions_allocations_total")
    return waited


async def attachable(cluster: VirtualCluster, nodes: str = "a") -> None:
    for name in nodes:
        await cluster.create(node(name, 1000))
        await cluster.create(resource_slice(name, ATTACHED))
    await cluster.create(device_class())
    await cluster.create(claim("c"))
    await cluster.clock.advance(1.0)
    await cluster.create(using(pod("p"), "c"))
    await cluster.clock.advance(10.0)


async def test_a_device_is_prepared_before_the_pod_is_bound() -> None:
    async with virtual_cluster() as cluster:
        await attachable(cluster)
        assert not on(cluster)
        await prepare(cluster, "ready")
        await cluster.clock.advance(1.0)
        assert on(cluster) == "a"
        assert waits(cluster) == {("default-scheduler", "gpu.example.com", "success"): 1}
        settle(cluster)


async def test_a_device_that_fails_is_replaced() -> None:
    async with virtual_cluster() as cluster:
        await attachable(cluster)
        await cluster.create(node("b", 1000))
        await cluster.create(resource_slice("b", "gpu-9"))
        await cluster.delete("ResourceSlice", "a-gpus", "", API)
        await prepare(cluster, "broken")
        await cluster.clock.advance(60.0)
        assert on(cluster) == "b"
        assert waits(cluster) == {("default-scheduler", "gpu.example.com", "failure"): 1}
        settle(cluster)


async def test_messages_about_devices_that_are_never_prepared() -> None:
    args = {"DynamicResources": {"bindingTimeout": "60s"}}
    async with virtual_cluster(args=args) as cluster:
        await attachable(cluster)
        await cluster.clock.advance(30.0)
        await cluster.create(using(pod("q"), "c"))
        messages: dict[str, set[str]] = {"p": set(), "q": set()}
        for _ in range(50):
            await cluster.clock.advance(0.5)
            for name, current in cluster.pods().items():
                messages[name] |= {condition.message for condition in current.status.conditions}
        late = 'running PreBind plugin "DynamicResources": device binding timeout'
        assert f"{late}: context deadline exceeded" in messages["p"]
        assert f"{late}: claim=c" not in messages["p"]
        assert f"{late}: claim=c" in messages["q"]


@pytest.mark.parametrize("hours", [-1, 1])
async def test_the_time_to_prepare_a_device_does_not_follow_the_time_of_day(hours: int) -> None:
    args = {"DynamicResources": {"bindingTimeout": "60s"}}
    async with virtual_cluster(args=args) as cluster:
        await attachable(cluster)
        cluster.clock.wall_step = timedelta(hours=hours)
        await prepare(cluster, "unknown")  # The claim changes, and the plugin looks at it.
        await cluster.clock.advance(30.0)
        assert not waits(cluster)
        await cluster.clock.advance(30.0)
        assert set(waits(cluster)) == {("default-scheduler", "gpu.example.com", "timeout")}


async def test_the_time_to_prepare_a_device_begins_with_its_allocation() -> None:
    """A pod that comes later to the claim does not wait longer than the first one."""
    args = {"DynamicResources": {"bindingTimeout": "60s"}}
    async with virtual_cluster(args=args) as cluster:
        await attachable(cluster)
        await cluster.create(node("b", 1000))
        await cluster.create(resource_slice("b", "gpu-9"))
        await cluster.delete("ResourceSlice", "a-gpus", "", API)
        await cluster.clock.advance(30.0)
        await cluster.create(using(pod("q"), "c"))
        await cluster.clock.advance(45.0)
        assert (on(cluster, "p"), on(cluster, "q")) == ("b", "b")
        settle(cluster)


# ------------------------------------------------------------------------------- extended resources


async def test_a_pod_gets_devices_for_an_extended_resource() -> None:
    async with virtual_cluster(late=0.2) as cluster:
        await furnish(cluster)
        await cluster.create(device_class("ext", extendedResourceName="example.com/gpu"))
        for name in ("p", "q", "r"):
            document = pod(name)
            document["spec"]["containers"][0]["name"] = "main"
            document["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
            await cluster.create(document)
        await cluster.clock.advance(60.0)
        placed = [name for name in ("p", "q", "r") if on(cluster, name)]
        assert len(placed) == 2
        claims = cluster.objects(CLAIMS).values()
        assert sorted(each.metadata.owner_references[0].name for each in claims) == sorted(placed)
        assert held(cluster).keys() == {("a", "gpu-0"), ("b", "gpu-0")}
        created = Reader(cluster.instruments.registry).numbers("resourceclaim_creates_total")
        assert created == {("success",): 2}
        settle(cluster)


async def create_with_extended_resource(cluster: VirtualCluster) -> None:
    """Creates the pod p, which requests a device by the resource of its class."""
    await cluster.create(device_class("ext", extendedResourceName="example.com/gpu"))
    document = pod("p")
    document["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    await cluster.create(document)


async def test_what_was_made_for_a_pod_that_cannot_be_bound_is_deleted() -> None:
    def refuse(method: str, path: str, body: object) -> Fault:
        return Fault.REFUSED if path.endswith("/binding") else Fault.NONE

    async with virtual_cluster(fault=refuse) as cluster:
        await furnish(cluster)
        await create_with_extended_resource(cluster)
        await cluster.clock.advance(0.5)
        assert cluster.objects(CLAIMS) == {}
        settle(cluster)


async def test_a_claim_for_an_extended_resource_that_is_refused() -> None:
    def refuse(method: str, path: str, body: object) -> Fault:
        return Fault.REFUSED if method == "POST" and "resourceclaims" in path else Fault.NONE

    async with virtual_cluster(fault=refuse) as cluster:
        await furnish(cluster)
        await create_with_extended_resource(cluster)
        await cluster.clock.advance(0.5)
        assert message(cluster).startswith(
            'running PreBind plugin "DynamicResources": create claim for extended resources '
            "default/: "
        )
        settle(cluster)


async def test_pods_ask_for_the_same_devices_under_different_names() -> None:
    async with virtual_cluster(late=0.2) as cluster:
        await furnish(cluster)
        for number in range(2):
            config = [{"opaque": {"driver": "gpu.example.com", "parameters": {"mode": number}}}]
            name = f"example.com/gpu-{number}"
            await cluster.create(
                device_class(f"ext-{number}", extendedResourceName=name, config=config)
            )
        for number in range(2):
            document = pod(f"p{number}")
            container = document["spec"]["containers"][0]
            container["name"] = "main"
            container["resources"]["requests"][f"example.com/gpu-{number}"] = "1"
            await cluster.create(document)
        await cluster.clock.advance(60.0)
        by_pod = {c.metadata.owner_references[0].name: c for c in cluster.objects(CLAIMS).values()}
        for number in range(2):
            of_pod = by_pod[f"p{number}"]
            (request,) = of_pod.spec.devices.requests
            assert request.exactly is not None
            assert request.exactly.device_class_name == f"ext-{number}"
            assert of_pod.status.allocation is not None
            (config,) = of_pod.status.allocation.devices.config
            assert config.opaque is not None
            assert config.opaque.parameters == {"mode": number}
        settle(cluster)


# ---------------------------------------------------------------------------- answers that are lost


async def test_a_pod_that_may_be_bound_keeps_its_devices() -> None:
    """The binding is not answered, and neither are the questions for it."""

    def unanswered(_method: str, path: str, _body: object) -> Fault:
        return Fault.UNANSWERED if path.endswith("/binding") else Fault.NONE

    async with virtual_cluster(late=0.1, fault=unanswered) as cluster:
        cluster.fails_read = lambda path: "/pods/" in path
        await furnish(cluster, claim("c"))
        await cluster.create(using(pod("p"), "c"))
        await cluster.clock.advance(200.0)
        assert on(cluster)
        assert [user.name for user in read(cluster).status.reserved_for] == ["p"]
        settle(cluster)


@pytest.mark.parametrize(("extended", "minutes"), [(True, 0.1), (False, 0.1), (False, 4)])
async def test_devices_are_kept_until_it_is_known_whether_they_were_given(
    extended: bool, minutes: float
) -> None:
    """The allocation is written, but neither its answer nor a watch says so, nor can it be read."""
    lags = {ResourceClaim: max(8.0, 80 * minutes)}
    fault = at_first_status(Fault.UNANSWERED)
    async with virtual_cluster(late=0.1, fault=fault, lags=lags) as cluster:
        await furnish(cluster, *([] if extended else [claim("c")]), claim("d"), claim("e"))
        await cluster.create(device_class("ext", extendedResourceName=GPU))
        await cluster.clock.advance(400.0)
        cluster.fails_read = lambda path: "/resourceclaims/" in path
        document = pod("p")
        if extended:
            document["spec"]["containers"][0]["resources"]["requests"][GPU] = "1"
        await cluster.create(document if extended else using(document, "c"))
        await cluster.clock.advance(1.0)
        await cluster.create(using(pod("q"), "d"))
        await cluster.create(using(pod("r"), "e"))
        for _ in range(30):
            await cluster.clock.advance(2.0 * minutes)
            assert all(number == 1 for number in held(cluster).values())
        cluster.fails_read = lambda _path: False
        # As in kube-scheduler, no event reports that a claim for extended resources is deleted.
        await cluster.clock.advance(800.0)
        assert sum(bool(on(cluster, name)) for name in "pqr") == 2
        settle(cluster)


@pytest.mark.parametrize("extended", [True, False])
async def test_a_write_that_arrives_late_is_refused(extended: bool) -> None:
    """By then, the device has been given to another claim. There is one device."""
    async with virtual_cluster(late=0.02, fault=at_first_status(Fault.DELAYED, 2)) as cluster:
        await cluster.create(node("a", 1000))
        await cluster.create(resource_slice("a", "gpu-0"))
        await cluster.create(device_class("gpu", extendedResourceName=GPU))
        document = pod("p")
        if extended:
            document["spec"]["containers"][0]["resources"]["requests"][GPU] = "1"
        else:
            await cluster.create(claim("c"))
        await cluster.create(claim("d"))
        await cluster.create(document if extended else using(document, "c"))
        while not any(write.fault is Fault.DELAYED for write in cluster.writes):
            await cluster.clock.advance(0.01)
        await cluster.delete_pod("p")
        # It waits while the device may still be given to the other claim, and is tried again then.
        await cluster.create(using(pod("q"), "d"))
        await cluster.clock.advance(400.0 if extended else 3.0)
        assert on(cluster, "q") == "a"
        for _ in range(20):
            await cluster.clock.advance(0.5)
            assert held(cluster) == {("a", "gpu-0"): 1}
        settle(cluster)


async def test_a_device_is_free_again_if_somebody_else_binds_its_pod() -> None:
    failing = [True]

    def refuse(_method: str, path: str, _body: object) -> Fault:
        return Fault.REFUSED if failing and path.endswith("claims/c/status") else Fault.NONE

    async with virtual_cluster(late=0.5, fault=refuse) as cluster:
        await furnish(cluster, claim("c"), claim("d"), claim("e"))
        await cluster.create(using(pod("p"), "c"))
        await cluster.clock.advance(0.8)
        uid = cluster.pods()["p"].metadata.uid
        await cluster.api.bind("default", "p", uid, "a")
        await cluster.clock.advance(3.0)
        assert len(cluster.decisions) == 1
        failing.clear()
        for name, of in (("q", "d"), ("r", "e")):
            await cluster.create(using(pod(name), of))
        await cluster.clock.advance(5.0)
        assert on(cluster, "q")
        assert on(cluster, "r")
        settle(cluster)


async def test_a_pod_that_is_found_to_be_bound_is_not_tried_again() -> None:
    def unanswered(_method: str, path: str, _body: object) -> Fault:
        return Fault.UNANSWERED if path.endswith("/binding") else Fault.NONE

    failures = [True]
    lags = {Pod: 20.0}
    async with virtual_cluster(late=0.1, fault=unanswered, lags=lags) as cluster:
        cluster.fails_read = lambda path: "/pods/" in path and bool(failures and failures.pop())
        await furnish(cluster)
        await cluster.create(device_class("ext", extendedResourceName=GPU))
        document = pod("p")
        document["spec"]["containers"][0]["resources"]["requests"][GPU] = "1"
        await cluster.create(document)
        await cluster.clock.advance(100.0)
        assert on(cluster)
        assert len(cluster.decisions) == 1
        (stored,) = cluster.objects(CLAIMS).values()
        assert stored.status.allocation is not None
        settle(cluster)

"""Dynamic resources in workloads: the devices of a driver, and allocations without the scheduler.

The slices are those of scheduler_perf's test driver. An allocation takes the first devices that
match, on nodes in random order. It ignores counters and capacities, since no claim that a workload
allocates in this way needs them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from random import Random

import msgspec

from berth.actors.scheduling.cel import (
    CelError,
    selector,
)
from berth.actors.scheduling.kube.core import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from berth.actors.scheduling.kube.devices import (
    EXACT_COUNT,
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from berth.actors.scheduling.kube.meta import key
from berth.actors.scheduling.kube.node_selector import node_selector_matches

from ..kubernetes.api.types.resources import BY_KIND
from .objects import NODES
from .opcodes import CreateResourceDriver
from .pod_waits import UnsupportedError
from .templates import Document
from .workload_cluster import ClusterError, WorkloadCluster

API = "resource.k8s.io/v1"
CLASSES = BY_KIND[API, "DeviceClass"]
CLAIMS = BY_KIND[API, "ResourceClaim"]
SLICES = BY_KIND[API, "ResourceSlice"]

DeviceName = tuple[str, str, str]  # driver, pool and device
SliceDevice = tuple[ResourceSlice, Device]
Selects = Callable[[str, str, Device], bool]  # called with a CEL expression, a driver and a device


def resource_slice(driver: str, node: str, devices: int) -> Document:
    """Returns the devices of a node: a pool of its own, with one slice of the node's name."""
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 0, "resourceSliceCount": 1},
            "devices": [_device(number) for number in range(devices)],
        },
    }


def _device(number: int) -> Document:
    return {
        "name": f"instance-{number}",
        "attributes": {
            "model": {"string": "A100"},
            "family": {"string": "GPU"},
            "driverVersion": {"version": "1.2.3"},
            "dra.example.com/numa": {"int": number},
        },
        "capacity": {"memory": {"value": "1Gi"}},
    }


async def publish(cluster: WorkloadCluster, operation: CreateResourceDriver) -> None:
    """Publishes the driver's devices on the nodes that match, one node after another."""
    for node in await cluster.every(NODES, Node):
        name = node.metadata.name
        if fnmatchcase(name, operation.nodes):
            document = resource_slice(operation.driver_name, name, operation.max_claims_per_node)
            await cluster.create(SLICES, "", name, document)


async def allocate(cluster: WorkloadCluster, namespace: str, rng: Random) -> None:
    """Allocates the namespace's claims that have no allocation; "" is all namespaces.

    Raises ClusterError if a claim fits on no node.
    """
    claims = await cluster.every(CLAIMS, ResourceClaim)
    allocator = FirstFit(
        await cluster.every(NODES, Node),
        await cluster.every(SLICES, ResourceSlice),
        await cluster.every(CLASSES, DeviceClass),
        claims,
        selects,
        rng,
    )
    for claim in claims:
        metadata = claim.metadata
        if namespace not in ("", metadata.namespace) or claim.status.allocation is not None:
            continue
        allocation = allocator.allocate(claim)
        if allocation is None:
            raise ClusterError(f"allocResourceClaims: no node has the devices for {key(claim)}")
        status = {"allocation": msgspec.to_builtins(allocation)}
        await cluster.set_status(CLAIMS, metadata.namespace, metadata.name, status)


def selects(expression: str, driver: str, device: Device) -> bool:
    compiled = selector(expression)
    if compiled.error:
        raise ClusterError(f"the selector {expression} does not compile: {compiled.error}")
    try:
        return compiled.matches(driver, device)
    except CelError as failure:
        raise ClusterError(f"the selector {expression} fails: {failure}") from None


class FirstFit:
    """An allocator of claims for a number of devices each, one claim after another."""

    def __init__(
        self,
        nodes: Iterable[Node],
        slices: Iterable[ResourceSlice],
        classes: Iterable[DeviceClass],
        claims: Iterable[ResourceClaim],
        selects: Selects,
        rng: Random,
    ) -> None:
        self._nodes = list(nodes)
        self._slices = list(slices)
        self._classes = {each.metadata.name: each for each in classes}
        self._selects = selects
        self._rng = rng
        self._on: dict[str, list[int]] = {}
        self._anywhere: list[int] = []
        for index, each in enumerate(self._slices):
            if each.spec.per_device_node_selection:
                raise UnsupportedError("allocResourceClaims with a node selector per device")
            if each.spec.node_name:
                self._on.setdefault(each.spec.node_name, []).append(index)
            else:
                self._anywhere.append(index)
        self._taken: set[DeviceName] = {
            (result.driver, result.pool, result.device)
            for claim in claims
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        }
        self._free: dict[tuple[DeviceSelector, ...], list[deque[Device]]] = {}

    def allocate(self, claim: ResourceClaim) -> AllocationResult | None:
        """Returns the devices of a claim, which are taken from now on; None if no node has them
        all.

        Raises UnsupportedError for anything but a number of devices of one class.
        """
        devices = claim.spec.devices
        exact = [(request.name, request.exactly) for request in devices.requests]
        requests = [(name, request) for name, request in exact if request is not None]
        if devices.constraints or len(requests) < len(exact) or not all(map(_is_simple, exact)):
            raise UnsupportedError(f"allocResourceClaims with a claim such as {key(claim)}")
        for node in self._shuffled():
            picked = self._fits(node, requests)
            if picked is not None:
                self._taken.update(_name(*device) for _, device in picked)
                return _result(picked, node)
        return None

    def _shuffled(self) -> Iterator[Node]:
        nodes = self._nodes
        for at in range(len(nodes)):
            other = self._rng.randrange(at, len(nodes))
            nodes[at], nodes[other] = nodes[other], nodes[at]
            yield nodes[at]

    def _fits(
        self, node: Node, requests: Sequence[tuple[str, ExactDeviceRequest]]
    ) -> list[tuple[str, SliceDevice]] | None:
        devices: list[tuple[str, SliceDevice]] = []
        mine: set[DeviceName] = set()
        for name, request in requests:
            free = (each for each in self._matching(node, request) if _name(*each) not in mine)
            for _ in range(request.count or 1):
                device = next(free, None)
                if device is None:
                    return None
                mine.add(_name(*device))
                devices.append((name, device))
        return devices

    def _matching(self, node: Node, request: ExactDeviceRequest) -> Iterator[SliceDevice]:
        """Yields the free devices that match a request and that the node can use."""
        free = self._free_for(request)
        for index in (*self._on.get(node.metadata.name, ()), *self._anywhere):
            devices, home = free[index], self._slices[index]
            while devices and _name(home, devices[0]) in self._taken:
                devices.popleft()
            if devices and _reaches(home, node):
                for device in devices:
                    if _name(home, device) not in self._taken:
                        yield home, device

    def _free_for(self, request: ExactDeviceRequest) -> list[deque[Device]]:
        """Returns the devices of each slice that match the request; some may be taken by now."""
        device_class = self._classes.get(request.device_class_name)
        if device_class is None:
            raise ClusterError(f"allocResourceClaims: no DeviceClass {request.device_class_name}")
        selectors = (*device_class.spec.selectors, *request.selectors)
        if selectors not in self._free:
            expressions = [each.cel.expression for each in selectors if each.cel is not None]
            self._free[selectors] = [
                deque(
                    device
                    for device in each.spec.devices
                    if all(self._selects(text, each.spec.driver, device) for text in expressions)
                )
                for each in self._slices
            ]
        return self._free[selectors]


def _is_simple(request: tuple[str, ExactDeviceRequest | None]) -> bool:
    exact = request[1]
    return (
        exact is not None
        and exact.allocation_mode in ("", EXACT_COUNT)
        and exact.capacity is None
        and not exact.admin_access
    )


def _name(home: ResourceSlice, device: Device) -> DeviceName:
    return home.spec.driver, home.spec.pool.name, device.name


def _reaches(home: ResourceSlice, node: Node) -> bool:
    spec = home.spec
    if spec.node_selector is not None:
        return node_selector_matches(spec.node_selector.node_selector_terms, node)
    return bool(spec.all_nodes) or spec.node_name == node.metadata.name


def _result(devices: Sequence[tuple[str, SliceDevice]], node: Node) -> AllocationResult:
    results = tuple(
        DeviceRequestAllocationResult(
            request=request, driver=home.spec.driver, pool=home.spec.pool.name, device=device.name
        )
        for request, (home, device) in devices
    )
    return AllocationResult(
        devices=DeviceAllocationResult(results=results),
        node_selector=_node_selector_of([home for _, (home, _) in devices], node),
    )


def _node_selector_of(slices: Sequence[ResourceSlice], node: Node) -> NodeSelector | None:
    """Returns the node selector that all slices share; if they differ, one for this node."""
    first = slices[0].spec.node_selector
    if all(each.spec.node_name is None and each.spec.node_selector == first for each in slices):
        return first
    this = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node.metadata.name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(this,)),))

"""NodeAllocations: the devices that each node gives to pods with the same requests.

The allocator is the costly part of a decision, so its results are kept. A result depends on the
node, on the pools that serve it and on the devices that claims hold. The allocator runs again only
for a node where some of this changed since the last pod with these requests.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np

from berth.plugin import Ints, NodeView, Pod, Snapshot

from ...kube.core import Node
from ...kube.devices import MOST_SUB_REQUESTS, ResourceClaim
from ...kube.meta import key
from ...kube.quantity import value
from ...model.columns import NodeColumns
from ...model.vectors import grown
from ..steps import Steps, TimedOutError
from .allocator import (
    CALL_STEPS,
    AllocatorResult,
    DeviceResult,
    DeviceResults,
    Search,
    UnreadyPool,
    allocate,
)
from .extended import ClassesByResource, RequestMapping, requests_for, with_requests
from .inventory import Inventory
from .pools import NodePools
from .requests import AllocationError, ClaimRequests, ClassByName, claim_requests
from .slices import EVERY_NODE
from .stale_rows import StaleRows

_ENCODER = msgspec.msgpack.Encoder(enc_hook=dict, order="deterministic")
# Bytes of a shape that are encoded in a step, and that are made requests in a step.
ENCODED_PER_STEP, PREPARED_PER_STEP = 64, 8
# The interrupted searches that are kept for a shape.
MOST_INTERRUPTED = 8
# Steps for a container, in a shape with extended resources.
CONTAINER_STEPS = 16
# Estimates of what is kept, in bytes: for a byte of a shape, a row, a node that gives devices, a
# device of a result, a part of an interrupted search.
SHAPE_BYTES, ROW_BYTES, NODE_BYTES, RESULT_BYTES, PART_BYTES = 32, 16, 256, 64, 1024


class AllocationStatus(enum.IntEnum):
    """Whether a node can be given the claims of a pod. FAILED is not kept. UNREADY_POOL stands for
    the pools that `unready_messages` names.
    """

    PASSES = 0
    NOT_ALLOCATED = 1
    INVALID_POOLS = 2
    NO_RESOURCE = 3
    FAILED = 4
    UNREADY_POOL = 5


class NodeDevices(msgspec.Struct, frozen=True):
    """The devices of a node for the claims that are not allocated yet, in order. If devices must
    provide extended resources, those for their claim come last, and `missing` names the resources.
    """

    devices: DeviceResults = ()
    missing: frozenset[str] = frozenset()

    @property
    def number(self) -> int:
        """The number of devices."""
        return sum(map(len, self.devices))

    @property
    def score(self) -> int:
        """The score, which is higher for sub-requests that stand first in their lists."""
        chosen = {
            (claim, result.sub_request.parent, result.sub_request.index)
            for claim, results in enumerate(self.devices)
            for result in results
            if result.sub_request.parent
        }
        return sum(MOST_SUB_REQUESTS - index for _, _, index in chosen)


class NodeRequests(msgspec.Struct, frozen=True):
    """The requests for devices of one node.

    First come the requests of the claims that are not allocated yet, in order, then those of the
    claim for extended resources. `missing` are the resources that the node itself does not have,
    and `mappings` have the requests that provide them to each container.
    """

    claims: tuple[ClaimRequests, ...]
    missing: frozenset[str] = frozenset()
    mappings: tuple[RequestMapping, ...] = ()


class NodeAllocation(msgspec.Struct, frozen=True):
    """The claims of a pod that get devices on a node. The claim for extended resources comes last.

    `devices` has the devices of each claim; `mappings` are for the extended resources of the
    containers.
    """

    claims: tuple[ResourceClaim, ...]
    devices: DeviceResults
    mappings: tuple[RequestMapping, ...] = ()


class PodRequests(msgspec.Struct, frozen=True, dict=True):
    """The devices that one pod requests: by its claims that are not allocated, and as the extended
    resources that a device class provides, with the claim for them.
    """

    pod: Pod
    claims: tuple[ResourceClaim, ...]
    resources: dict[str, int]
    extended: ResourceClaim | None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The extended resources in an order that is the same for all pods of a shape."""
        containers = (*self.pod.spec.init_containers, *self.pod.spec.containers)
        walked = (name for c in containers for name in sorted(c.resources.requests))
        ordered = sorted(self.resources)
        return tuple(dict.fromkeys(name for name in (*walked, *ordered) if name in self.resources))

    def shape(self, columns: NodeColumns, by_resource: ClassesByResource, steps: Steps) -> bytes:
        """Returns a key that is equal for pods that request the same devices. Raises TimedOutError.

        If only devices provide a resource, the selectors of its class replace its name in the key.
        """
        specs = []
        for claim in self.claims:
            specs.append(_ENCODER.encode(claim.spec.devices))
            steps.spend(len(specs[-1]) // ENCODED_PER_STEP)
        if self.extended is None:
            return b"".join(specs)
        containers_of_pod = (*self.pod.spec.init_containers, *self.pod.spec.containers)
        steps.spend(CONTAINER_STEPS * len(containers_of_pod))
        stands_for: dict[str, object] = {name: name for name in self.resources}
        for name in self.resources:
            device_class = by_resource.get(name)
            if device_class is not None and name not in columns.allocatable:
                stands_for[name] = device_class.spec.selectors
        containers = []
        for container in containers_of_pod:
            requests = container.resources.requests
            amounts = [
                (place, stands_for[name], requests[name])
                for place, name in enumerate(sorted(requests))
                if name in stands_for
            ]
            containers.append((amounts, container.restart_policy))
        resources = [(stands_for[name], amount) for name, amount in sorted(self.resources.items())]
        numbers = (len(self.pod.spec.init_containers), resources)
        return b"".join((*specs, _ENCODER.encode((containers, numbers))))


class _Interrupted(msgspec.Struct, frozen=True):
    """A search that has not ended, and all that its result depends on: the node with its pools, the
    requests, and what claims held of devices at a version of the log of changes.
    """

    search: Search
    node: Node
    pools: NodePools
    requests: NodeRequests
    version: int


class NodeAllocations:
    """The devices that all nodes give to the pods of one shape, brought up to date for the nodes of
    a view.

    The argument `pod` of a method has the requests of a pod of this shape. `statuses`, of
    AllocationStatus, and `scores` are by row. `failure` is the problem of the last node that
    FAILED, `failure_in_full` adds its details. `inventory` is up to date after PreFilter.
    `shape_size` is the size of the shape in bytes.
    """

    def __init__(
        self,
        pod: PodRequests,
        inventory: Inventory,
        classes: ClassByName,
        by_resource: ClassesByResource,
        snapshot: Snapshot,
        shape_size: int,
    ) -> None:
        self.failure = self.failure_in_full = ""
        self.inventory = inventory
        self._classes = classes
        self._by_resource = by_resource
        self._first_pod = pod
        self._shape_size = shape_size
        self._results_kept = 0
        self._claims = tuple(self._claim_requests(claim) for claim in pod.claims)
        self._requests: dict[frozenset[str], NodeRequests] = {
            frozenset(): NodeRequests(self._claims)
        }
        rows = snapshot.columns.size
        self.statuses = np.zeros(rows, dtype=np.int8)
        self.scores: Ints = np.zeros(rows, dtype=np.int64)
        self._stale = StaleRows(inventory, snapshot.columns)
        self._devices: dict[int, NodeDevices] = {}
        self._unready: dict[int, UnreadyPool] = {}  # by row
        self._results: dict[tuple[NodePools, int], AllocatorResult] = {}
        self._results_version = -1
        self._interrupted: dict[int, _Interrupted] = {}  # by row
        self._columns = snapshot.columns

    # ------------------------------------------------------------------------------------- reading

    def is_of(self, snapshot: Snapshot) -> bool:
        return self._columns is snapshot.columns

    @property
    def namespace(self) -> str:
        """The namespace of the pod for which the allocations were needed first."""
        return self._first_pod.pod.metadata.namespace

    @property
    def size(self) -> int:
        """About how many bytes are kept."""
        return (
            SHAPE_BYTES * self._shape_size
            + ROW_BYTES * len(self.statuses)
            + NODE_BYTES * (len(self._devices) + len(self._unready))
            + RESULT_BYTES * self._results_kept
            + PART_BYTES * sum(search.search.depth for search in self._interrupted.values())
        )

    def devices_on(self, node: str) -> NodeDevices | None:
        """Returns the devices that a node gives; None if it gives none, or does not pass."""
        row = self._columns.row_of.get(node)
        return None if row is None else self._devices.get(row)

    def unready_messages(self, rows: Sequence[int], pod: PodRequests) -> list[str]:
        """Returns the messages about the pools that keep these rows, all of them with
        UNREADY_POOL, from giving all devices to a request of the pod.
        """
        pools = map(self._unready.__getitem__, rows)
        return [pool.message(key(pod.claims[pool.claim])) for pool in pools]

    def requests_on(self, node: Node, pod: PodRequests) -> NodeRequests | None:
        """Returns the requests for devices of a node; None if neither the node nor devices provide
        one of the extended resources.
        """
        missing = frozenset[str]() if pod.extended is None else self._missing(node, pod)
        if missing is None:
            return None
        if missing:
            first = dict(zip(pod.names, self._first_pod.names, strict=True))
            missing = frozenset(first[name] for name in missing)
        requests = self._requests.get(missing)
        if requests is None:
            assert self._first_pod.extended is not None
            of_containers, mappings = requests_for(self._first_pod.pod, missing, self._by_resource)
            claim = with_requests(self._first_pod.extended, of_containers)
            claims = (*self._claims, self._claim_requests(claim))
            requests = self._requests[missing] = NodeRequests(claims, missing, tuple(mappings))
        return requests

    def allocation_on(self, node: str, pod: PodRequests) -> NodeAllocation | None:
        """Returns the allocation of a pod's claims on a node; None if the node has none."""
        on_node = self.devices_on(node)
        if on_node is None:
            return None
        if not on_node.missing or pod.extended is None:
            return NodeAllocation(pod.claims, on_node.devices)
        # The devices may be from a pod that requests the same under other names.
        own = dict(zip(self._first_pod.names, pod.names, strict=True))
        missing = frozenset(own[name] for name in on_node.missing)
        of_containers, mappings = requests_for(pod.pod, missing, self._by_resource)
        claim = with_requests(pod.extended, of_containers)
        renamed = _for_requests(on_node.devices[-1], self._claim_requests(claim))
        devices = (*on_node.devices[:-1], renamed)
        return NodeAllocation((*pod.claims, claim), devices, tuple(mappings))

    # ----------------------------------------------------------------------------------- keeping up

    def refresh(self, nodes: NodeView, pod: PodRequests, steps: Steps) -> None:
        """Brings the nodes of a view up to date. It stops at a node that FAILED, also if no steps
        are left.
        """
        self._stale.follow()
        if self._stale.size > len(self.statuses):
            self.statuses = grown(self.statuses, self._stale.size)
            self.scores = grown(self.scores, self._stale.size)
        positions = self._stale.positions(nodes)
        if self._interrupted:
            positions.sort(key=lambda position: nodes.row(position) not in self._interrupted)
        for position in positions:
            node, row = nodes.node(position), nodes.row(position)
            if node is None:
                continue
            status = self._allocate(node, row, pod, steps)
            self.statuses[row] = status
            if status is AllocationStatus.FAILED:
                return
            self._stale.renewed(row)

    def _allocate(self, node: Node, row: int, pod: PodRequests, steps: Steps) -> AllocationStatus:
        earlier = self._devices.pop(row, None)
        if earlier is not None:
            self._results_kept -= earlier.number
        self._unready.pop(row, None)
        self.scores[row] = 0
        try:
            steps.spend(CALL_STEPS + len(pod.resources))
            requests = self.requests_on(node, pod)
            if requests is None:
                return AllocationStatus.NO_RESOURCE
            if not requests.claims:
                return AllocationStatus.PASSES
            result = self._result(node, row, requests, pod, steps)
        except TimedOutError:
            late = f"node {node.metadata.name}: timed out trying to allocate devices"
            self.failure = self.failure_in_full = late
            return AllocationStatus.FAILED
        except AllocationError as problem:
            self.failure, self.failure_in_full = str(problem), problem.in_full
            return AllocationStatus.FAILED
        if result.devices is None:
            if result.unready is not None:
                self._unready[row] = result.unready
                return AllocationStatus.UNREADY_POOL
            if result.invalid_pools:
                return AllocationStatus.INVALID_POOLS
            return AllocationStatus.NOT_ALLOCATED
        on_node = self._devices[row] = NodeDevices(result.devices, requests.missing)
        self.scores[row] = on_node.score
        self._results_kept += on_node.number
        return AllocationStatus.PASSES

    def _result(
        self, node: Node, row: int, requests: NodeRequests, pod: PodRequests, steps: Steps
    ) -> AllocatorResult:
        """Returns the allocator's result. It is reused for nodes that see the same pools, until
        something changes.
        """
        version = self.inventory.changed.version
        if version != self._results_version:
            self._results.clear()
            self._results_version = version
        pools = self.inventory.pools(node)
        result = self._results.get((pools, id(requests)))
        if result is not None:
            return result
        search = self._interrupted_search(node, row, requests, pools)
        if search is None:
            search = Search(requests.claims, pools, self.inventory)
        try:
            result = search.run(steps)
        except TimedOutError:
            if len(self._interrupted) >= MOST_INTERRUPTED:
                del self._interrupted[next(iter(self._interrupted))]
            self._interrupted[row] = _Interrupted(search, node, pools, requests, version)
            raise
        except AllocationError:
            if pod is self._first_pod:
                raise
            # The message must name the claims of this pod.
            steps.spend(self._shape_size // PREPARED_PER_STEP)
            own = [self._claim_requests(claim) for claim in pod.claims]
            claims = [*own, *requests.claims[len(own) :]]
            result = allocate(claims, pools, self.inventory, steps)
        self._results[pools, id(requests)] = result
        return result

    def _interrupted_search(
        self, node: Node, row: int, requests: NodeRequests, pools: NodePools
    ) -> Search | None:
        """Returns the search for a node to go on with, unless something has changed since; None if
        there is none.
        """
        interrupted = self._interrupted.pop(row, None)
        if interrupted is None or interrupted.node is not node or interrupted.pools is not pools:
            return None
        changed = self.inventory.changed.since(interrupted.version)
        if changed is None or EVERY_NODE in changed or node.metadata.name in changed:
            return None
        return interrupted.search if interrupted.requests is requests else None

    def _missing(self, node: Node, pod: PodRequests) -> frozenset[str] | None:
        """Returns the extended resources that devices must provide on this node; None if neither
        the node nor devices provide one of them.
        """
        missing = set()
        for resource in pod.resources:
            amount = node.status.allocatable.get(resource)
            if self._by_resource.get(resource) is not None and not (amount and value(amount)):
                missing.add(resource)
            elif amount is None:
                return None
        return frozenset(missing)

    def _claim_requests(self, claim: ResourceClaim) -> ClaimRequests:
        return claim_requests(claim, self._classes, self.inventory.features)


def _for_requests(
    results: tuple[DeviceResult, ...], claim: ClaimRequests
) -> tuple[DeviceResult, ...]:
    """Returns the same devices for the claim's requests: same names, but other classes."""
    requests = {request.name: request.sub_requests[0] for request in claim.requests}
    return tuple(
        [
            DeviceResult(result.device, requests[result.sub_request.name], result.consumed_capacity)
            for result in results
        ]
    )

"""The devices of a pod's claims in words: the devices that each node would give to each request,
and the reasons why other nodes cannot.

The DynamicResources plugin decides; this module asks it about one node at a time, whether or not
another plugin rejects the node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
from msgspec.structs import replace

from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.interface import Plugin
from berth.actors.scheduling.framework.status import (
    Code,
    Status,
)
from berth.actors.scheduling.kube.core import (
    Node,
    NodeSelector,
    PodResourceClaim,
)
from berth.actors.scheduling.kube.devices import (
    AllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from berth.actors.scheduling.kube.meta import key
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.plugins.dynamic_resources.extended import (
    UNWRITTEN,
    any_provides,
)
from berth.actors.scheduling.plugins.dynamic_resources.node_allocations import (
    AllocationStatus,
    NodeAllocations,
    NodeRequests,
    PodRequests,
)
from berth.actors.scheduling.plugins.dynamic_resources.plugin import DynamicResources
from berth.actors.scheduling.plugins.dynamic_resources.pod_claims import (
    BindingFailedError,
    ClaimError,
    claim_name,
    generated_claims,
    is_ready,
    status_of,
)
from berth.actors.scheduling.plugins.dynamic_resources.pools import DeviceID
from berth.actors.scheduling.plugins.dynamic_resources.requests import AllocationError
from berth.actors.scheduling.plugins.dynamic_resources.state import (
    CLAIMS,
    PodClaims,
)

from .shortages import TOGETHER, Shortage, shortages
from .words import affinity_words, listed

EXTENDED = "extended resources"


class RequestDevices(msgspec.Struct, frozen=True):
    """The devices that a request of a claim gets, or has already, on some nodes, sorted."""

    claim: str
    request: str
    devices: tuple[str, ...]
    nodes: tuple[str, ...]


class RequestProblem(msgspec.Struct, frozen=True):
    """A problem of a request of a claim on some nodes, sorted; `nodes` is None if it keeps the pod
    from all nodes. An empty `claim` stands for all claims.
    """

    claim: str
    request: str
    why: str
    nodes: tuple[str, ...] | None


class DeviceSupply(msgspec.Struct, frozen=True):
    """The devices that nodes give to the requests of a pod, and the problems of the others."""

    provided: tuple[RequestDevices, ...] = ()
    short: tuple[RequestProblem, ...] = ()


def supply(info: PodInfo, snapshot: Snapshot, filters: Iterable[Plugin]) -> DeviceSupply:
    """Returns the devices that nodes give to the pod's claims, as DynamicResources decides; nothing
    if it is not among the plugins at Filter.
    """
    plugin = next((each for each in filters if isinstance(each, DynamicResources)), None)
    return DeviceSupply() if plugin is None else _PodInWords(plugin, info, snapshot).supply()


class _PodInWords:
    def __init__(self, plugin: DynamicResources, info: PodInfo, snapshot: Snapshot) -> None:
        self._plugin = plugin
        self._info = info
        self._snapshot = snapshot
        self._holders = _holders(snapshot)
        self._nodes: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
        self._short: dict[tuple[str, str, str], list[str]] = defaultdict(list)

    def supply(self) -> DeviceSupply:
        state = CycleState()
        answer = self._plugin.pre_filter(state, self._info, self._snapshot)
        if isinstance(answer, Status) and not answer.ok:
            refused = () if answer.code is Code.SKIP else tuple(self._refused(answer))
            return DeviceSupply(short=refused)
        pod = state.read(CLAIMS)
        if pod is None:
            return DeviceSupply()
        if pod.is_stale:
            left_over = "a claim is left over from an earlier attempt, and is deleted first"
            return DeviceSupply(short=(RequestProblem(EXTENDED, "", left_over, None),))
        everywhere = [*self._allocated(pod)]
        if pod.requests is not None and pod.node_allocations is not None:
            for row in self._snapshot.columns.order.tolist():
                self._look_at(row, state, pod, pod.requests, pod.node_allocations)
        return DeviceSupply(
            tuple(
                RequestDevices(*what, tuple(sorted(nodes)))
                for what, nodes in self._nodes.items()
                if nodes
            ),
            (
                *everywhere,
                *(
                    RequestProblem(*what, tuple(sorted(nodes)))
                    for what, nodes in self._short.items()
                ),
            ),
        )

    # ------------------------------------------------------------------------- before any node

    def _refused(self, whole: Status) -> Iterator[RequestProblem]:
        """Yields the problems of claims that leave no node to try."""
        refused = False
        for entry in self._info.pod.spec.resource_claims:
            alone = replace(
                self._info.pod, spec=replace(self._info.pod.spec, resource_claims=(entry,))
            )
            answer = self._plugin.pre_filter(CycleState(), PodInfo(alone), self._snapshot)
            if isinstance(answer, Status) and not answer.ok and answer.code is not Code.SKIP:
                refused = True
                why = f"{answer.message}{self._maker(entry)}"
                yield RequestProblem(self._name(entry), "", why, None)
        if not refused:
            yield RequestProblem("", "", whole.message, None)

    def _name(self, entry: PodResourceClaim) -> str:
        try:
            return claim_name(self._info.pod, entry, generated_claims(self._info.pod)) or entry.name
        except ClaimError:
            return entry.name

    def _maker(self, entry: PodResourceClaim) -> str:
        """Returns words for whoever has to make a claim that does not exist yet."""
        try:
            claim_name(self._info.pod, entry, generated_claims(self._info.pod))
        except ClaimError:
            template = entry.resource_claim_template_name
            if template is not None:
                return f": the resource claim controller has to make it from template {template}"
        return ""

    def _allocated(self, pod: PodClaims) -> Iterator[RequestProblem]:
        """Notes the devices of allocated claims, and yields the problems of these claims."""
        nodes = self._snapshot.rows(self._snapshot.columns.order)
        for index, claim in enumerate(pod.claims):
            allocation = claim.status.allocation
            if allocation is None:
                continue
            fits = np.ones(nodes.size, dtype=np.bool_)
            if index in pod.selectors:
                fits = pod.selectors[index].match(nodes)
            there = [nodes.name(i) for i in np.flatnonzero(fits).tolist()]
            elsewhere = [nodes.name(i) for i in np.flatnonzero(~fits).tolist()]
            if elsewhere and allocation.node_selector is not None:
                place = _selector_words(allocation.node_selector)
                only = f"is allocated already, and can only be used {place}"
                self._short[claim.metadata.name, "", only] += elsewhere
            if index in pod.unprepared:
                yield RequestProblem(claim.metadata.name, "", _unprepared(claim), None)
            else:
                for what in _devices(claim.metadata.name, allocation, ", already allocated"):
                    self._nodes[what] += there

    # -------------------------------------------------------------------------------- on one node

    def _look_at(
        self,
        row: int,
        state: CycleState,
        pod: PodClaims,
        requests: PodRequests,
        allocations: NodeAllocations,
    ) -> None:
        view = self._snapshot.rows(np.array([row]))
        node, name = view.node(0), view.name(0)
        if node is None:
            return
        self._plugin.filter(state, self._info, view)
        status = AllocationStatus(allocations.statuses[row])
        if status is AllocationStatus.FAILED:
            self._short["", TOGETHER, allocations.failure_in_full].append(name)
            return
        on_node = allocations.requests_on(node, requests)
        if status is AllocationStatus.NO_RESOURCE or on_node is None:
            self._short[EXTENDED, "", self._lacking(node, requests)].append(name)
        elif status is AllocationStatus.PASSES:
            self._give(name, pod, on_node)
        else:
            inventory = allocations.inventory
            pools = inventory.pools(node)
            for shortage in shortages(on_node.claims, pools, inventory, self._holders):
                self._short[_shown(shortage, on_node)].append(name)

    def _give(self, node: str, pod: PodClaims, requests: NodeRequests) -> None:
        try:
            allocations = pod.allocations_on(node) or ()
        except AllocationError as problem:
            self._short["", TOGETHER, str(problem)].append(node)
            return
        for claim, allocation in allocations:
            for name, request, devices in _devices(claim.metadata.name, allocation):
                self._nodes[_claim(name), _request(name, request, requests), devices].append(node)

    def _lacking(self, node: Node, requests: PodRequests) -> str:
        classes = [*self._snapshot.objects.every(DeviceClass)]
        lacking = [
            resource
            for resource in requests.resources
            if resource not in node.status.allocatable and not any_provides(resource, classes)
        ]
        return f"the node has no {listed(lacking)}, and no class provides it"


def _holders(snapshot: Snapshot) -> dict[DeviceID, list[str]]:
    """Returns, for each device, the claims that hold it."""
    holders: dict[DeviceID, list[str]] = defaultdict(list)
    for claim in snapshot.objects.every(ResourceClaim):
        allocation = claim.status.allocation
        for result in () if allocation is None else allocation.devices.results:
            if not result.admin_access:
                holders[result.driver, result.pool, result.device].append(key(claim))
    return holders


def _devices(
    claim: str, allocation: AllocationResult, remark: str = ""
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Returns each request of a claim, with the claim and the devices of the request."""
    by_request: dict[str, list[str]] = defaultdict(list)
    for result in allocation.devices.results:
        by_request[result.request].append(_device(result) + remark)
    return [(claim, request, tuple(devices)) for request, devices in by_request.items()]


def _device(result: DeviceRequestAllocationResult) -> str:
    name = f"{result.driver}/{result.pool}/{result.device}"
    consumed = [f"{amount} of {capacity}" for capacity, amount in result.consumed_capacity.items()]
    admin = ["admin access"] if result.admin_access else []
    return ", ".join((name, *consumed, *admin))


def _shown(shortage: Shortage, requests: NodeRequests) -> tuple[str, str, str]:
    name = shortage.claim.partition("/")[2]
    return _claim(name), _request(name, shortage.request, requests), shortage.why


def _claim(name: str) -> str:
    return EXTENDED if name == UNWRITTEN else name


def _request(claim: str, request: str, requests: NodeRequests) -> str:
    """Returns the request. A request that the scheduler made for an extended resource is replaced
    by the resource and its container.
    """
    if claim != UNWRITTEN:
        return request
    of = {m.request: f"{m.resource} of {m.container}" for m in requests.mappings}
    return ", ".join(of.get(name, name) for name in request.split(", "))


def _selector_words(selector: NodeSelector) -> str:
    names = [
        name
        for term in selector.node_selector_terms
        for field in term.match_fields
        for name in field.values
    ]
    return f"on node {listed(names)}" if names else affinity_words(selector)


def _unprepared(claim: ResourceClaim) -> str:
    """Returns why the devices of an allocated claim cannot be prepared."""
    try:
        is_ready(claim)
    except BindingFailedError as failed:
        return str(failed)
    allocation = claim.status.allocation
    missing = []
    for result in () if allocation is None else allocation.devices.results:
        status = status_of(claim, result)
        conditions = () if status is None else status.conditions
        met = {condition.type for condition in conditions if condition.status == "True"}
        missing += [
            f"condition {name} of {result.driver}/{result.pool}/{result.device}"
            for name in result.binding_conditions
            if name not in met
        ]
    return f"its devices are not prepared in time: {listed(missing)} is not met"

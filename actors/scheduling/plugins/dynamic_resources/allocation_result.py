"""The AllocationResult of a claim, from the devices that the allocator chose."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from ...kube.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from ...kube.devices import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from .allocator import DeviceResult
from .requests import AllocationError

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


def allocation_result(
    claim: ResourceClaim, devices: Sequence[DeviceResult], node: str, *, briefly: bool = False
) -> AllocationResult:
    """Returns the allocation of a claim on a node. Raises AllocationError. If `briefly`, each
    configuration is there once, and names no requests if it is for all requests of the claim.
    """
    results = tuple(_result(claim, number, device) for number, device in enumerate(devices))
    config = (
        *_class_configuration(claim, devices),
        *_claim_configuration(claim, devices, once=briefly),
    )
    if briefly and config:
        chosen = [full_name for full_name, _ in _chosen(claim, devices)]
        config = tuple(
            replace(each, requests=()) if all(_is_for(each, name) for name in chosen) else each
            for each in config
        )
    return AllocationResult(
        devices=DeviceAllocationResult(results=results, config=config),
        node_selector=_node_selector(claim, devices, node),
    )


def _result(
    claim: ResourceClaim, number: int, result: DeviceResult
) -> DeviceRequestAllocationResult:
    device, sub_request = result.device.device, result.sub_request
    driver, pool, name = result.device.id
    consumed = result.consumed_capacity
    return DeviceRequestAllocationResult(
        request=sub_request.full_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if sub_request.admin_access else None,
        tolerations=sub_request.tolerations,
        binding_conditions=device.binding_conditions or (),
        binding_failure_conditions=device.binding_failure_conditions or (),
        share_id=None if consumed is None else _share_id(claim, number, name),
        consumed_capacity={name: amount.text for name, amount in (consumed or {}).items()},
    )


def _share_id(claim: ResourceClaim, number: int, device: str) -> str:
    """Returns a UUID that no other share of the device has."""
    metadata = claim.metadata
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{metadata.uid}/{number}/{device}"))


def _chosen(claim: ResourceClaim, devices: Sequence[DeviceResult]) -> Iterator[tuple[str, str]]:
    """Yields, for each request of the claim, the full name of the sub-request that was chosen and
    the name of its class.

    A request that got no device is represented by its first sub-request.
    """
    chosen = {result.sub_request.request_name: result.sub_request for result in devices}
    for request in claim.spec.devices.requests:
        sub_request = chosen.get(request.name)
        if sub_request is not None:
            device_class = sub_request.device_class
            yield sub_request.full_name, "" if device_class is None else device_class.metadata.name
        elif request.first_available:
            first = request.first_available[0]
            yield f"{request.name}/{first.name}", first.device_class_name
        elif request.exactly is not None:
            yield request.name, request.exactly.device_class_name


def _class_configuration(
    claim: ResourceClaim, devices: Sequence[DeviceResult]
) -> Iterator[DeviceAllocationConfiguration]:
    """Yields the configuration of each class, once for all requests that got its devices."""
    classes = {
        result.sub_request.device_class.metadata.name: result.sub_request.device_class
        for result in devices
        if result.sub_request.device_class is not None
        and result.sub_request.device_class.spec.config
    }
    if not classes:
        return
    by_class: dict[str, list[str]] = {}
    for request, name in _chosen(claim, devices):
        by_class.setdefault(name, []).append(request)
    for name, requests in by_class.items():
        for config in classes[name].spec.config if name in classes else ():
            yield DeviceAllocationConfiguration(
                source=FROM_CLASS, requests=tuple(requests), opaque=config.opaque
            )


def _claim_configuration(
    claim: ResourceClaim, devices: Sequence[DeviceResult], *, once: bool
) -> Iterator[DeviceAllocationConfiguration]:
    """Yields the claim's configuration that applies to the chosen sub-requests, `once` or for each
    of them.
    """
    if not claim.spec.devices.config:
        return
    chosen = [full_name for full_name, _ in _chosen(claim, devices)]
    for config in claim.spec.devices.config:
        named = DeviceAllocationConfiguration(
            source=FROM_CLAIM, requests=config.requests, opaque=config.opaque
        )
        if not config.requests:
            yield named
            continue
        matches = sum(_is_for(named, full_name) for full_name in chosen)
        yield from [named] * (min(matches, 1) if once else matches)


def _is_for(config: DeviceAllocationConfiguration, full_name: str) -> bool:
    """True if a configuration that names requests is for a chosen sub-request."""
    return full_name in config.requests or full_name.partition("/")[0] in config.requests


def _node_selector(
    claim: ResourceClaim, devices: Iterable[DeviceResult], node: str
) -> NodeSelector | None:
    """Returns the nodes on which all the devices can be used; None for all nodes."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for result in devices:
        device, spec = result.device.device, result.device.slice.spec
        per_device = bool(spec.per_device_node_selection)
        name = device.node_name if per_device else spec.node_name
        selector = device.node_selector if per_device else spec.node_selector
        if name is not None or device.binds_to_node:
            this = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(this,)),))
        terms = () if selector is None else selector.node_selector_terms
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.metadata.name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(term.match_fields, fields)
            _add_new(term.match_expressions, expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _add_new(
    requirements: Iterable[NodeSelectorRequirement], to: list[NodeSelectorRequirement]
) -> None:
    for new in requirements:
        if not any(
            old.key == new.key
            and old.operator == new.operator
            and set(old.values) == set(new.values)
            for old in to
        ):
            to.append(new)

"""The AllocationResult of a claim, from the devices that the search found."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence

from ...kube.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from ...kube.devices import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from .search import Picked
from .wanted import AllocationError

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


def allocation_of(claim: ResourceClaim, picked: Sequence[Picked], node: str) -> AllocationResult:
    """The allocation of a claim on a node. Raises AllocationError."""
    results = tuple(_result(claim, number, one) for number, one in enumerate(picked))
    config = (*_of_classes(claim, picked), *_of_claim(claim, picked))
    return AllocationResult(
        devices=DeviceAllocationResult(results=results, config=config),
        node_selector=_node_selector(claim, picked, node),
    )


def _result(claim: ResourceClaim, number: int, picked: Picked) -> DeviceRequestAllocationResult:
    device, asked = picked.device.device, picked.alternative
    driver, pool, name = picked.device.id
    return DeviceRequestAllocationResult(
        request=asked.full_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if asked.admin_access else None,
        tolerations=asked.tolerations,
        binding_conditions=device.binding_conditions or (),
        binding_failure_conditions=device.binding_failure_conditions or (),
        share_id=None if picked.shares is None else _share_id(claim, number, name),
        consumed_capacity={name: share.text for name, share in (picked.shares or {}).items()},
    )


def _share_id(claim: ResourceClaim, number: int, device: str) -> str:
    """A UUID that no other share of the device has."""
    metadata = claim.metadata
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{metadata.uid}/{number}/{device}"))


def _chosen(claim: ResourceClaim, picked: Sequence[Picked]) -> Iterator[tuple[str, str]]:
    """For each request of the claim, the full name of what was chosen and the name of its class.

    A request that got no device stands with its first alternative.
    """
    by_request = {one.alternative.parent or one.alternative.name: one for one in picked}
    for request in claim.spec.devices.requests:
        one = by_request.get(request.name)
        if one is not None:
            its_class = one.alternative.device_class
            yield one.alternative.full_name, "" if its_class is None else its_class.metadata.name
        elif request.first_available:
            first = request.first_available[0]
            yield f"{request.name}/{first.name}", first.device_class_name
        elif request.exactly is not None:
            yield request.name, request.exactly.device_class_name


def _of_classes(
    claim: ResourceClaim, picked: Sequence[Picked]
) -> Iterator[DeviceAllocationConfiguration]:
    """The configuration of each class, once for all requests that got devices of it."""
    classes = {
        one.alternative.device_class.metadata.name: one.alternative.device_class
        for one in picked
        if one.alternative.device_class is not None
    }
    requests: dict[str, list[str]] = {}
    for request, name in _chosen(claim, picked):
        requests.setdefault(name, []).append(request)
    for name, its in requests.items():
        for config in classes[name].spec.config if name in classes else ():
            yield DeviceAllocationConfiguration(
                source=FROM_CLASS, requests=tuple(its), opaque=config.opaque
            )


def _of_claim(
    claim: ResourceClaim, picked: Sequence[Picked]
) -> Iterator[DeviceAllocationConfiguration]:
    """The configuration of the claim, as far as it holds for what was chosen."""
    chosen = [full_name for full_name, _ in _chosen(claim, picked)]
    for config in claim.spec.devices.config:
        named = DeviceAllocationConfiguration(
            source=FROM_CLAIM, requests=config.requests, opaque=config.opaque
        )
        if not config.requests:
            yield named
            continue
        for full_name in chosen:
            if full_name in config.requests or full_name.partition("/")[0] in config.requests:
                yield named


def _node_selector(
    claim: ResourceClaim, picked: Iterable[Picked], node: str
) -> NodeSelector | None:
    """The nodes on which all the devices can be used; None for all nodes."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for one in picked:
        device, spec = one.device.device, one.device.slice.spec
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

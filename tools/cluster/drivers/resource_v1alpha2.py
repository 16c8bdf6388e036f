"""The objects of resource.k8s.io/v1alpha2 for their driver: the structs of the scheduler's plugin,
with the fields that only the driver writes.
"""

from __future__ import annotations

from berth.actors.scheduling.kube.meta import HasMetadata, Object

from ...kubernetes.api.types.resources import BY_KIND, Kind
from ...kubernetes.objects.structs import Node, Pod
from ..negotiation import kinds
from ..negotiation.kinds import API_VERSION, PodSchedulingContext, ResourceClass


class ConsumerReference(kinds.ResourceClaimConsumerReference, frozen=True, kw_only=True):
    api_group: str = ""


class ResourceHandle(Object, frozen=True, kw_only=True):
    """A driver's data in an allocation; for the hollow driver, the name of the node."""

    data: str = ""


class DriverAllocation(kinds.AllocationResult, frozen=True, kw_only=True):
    resource_handles: tuple[ResourceHandle, ...] = ()


class DriverClaimStatus(kinds.ResourceClaimStatus, frozen=True, kw_only=True):
    driver_name: str = ""
    allocation: DriverAllocation | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()


class ResourceClaim(kinds.ResourceClaim, frozen=True, kw_only=True):
    status: DriverClaimStatus = DriverClaimStatus()


# The path and the type of each kind that the driver follows.
FOLLOWED: dict[str, tuple[Kind, type[HasMetadata]]] = {
    type_.__name__: (BY_KIND[version, type_.__name__], type_)
    for version, type_ in (
        ("v1", Pod),
        ("v1", Node),
        (API_VERSION, ResourceClass),
        (API_VERSION, ResourceClaim),
        (API_VERSION, PodSchedulingContext),
    )
}

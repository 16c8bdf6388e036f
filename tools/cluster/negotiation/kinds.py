"""resource.k8s.io/v1alpha2: claims that drivers allocate, after negotiating a node with the
scheduler.

Kubernetes 1.27 to 1.30 had these kinds, and 1.31 kept them as v1alpha3. Mirrors the API types of
the same names.
"""

from __future__ import annotations

import msgspec

from berth.plugin import NodeSelector, ObjectMeta, WatchedKind

API_VERSION = "resource.k8s.io/v1alpha2"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
# Limits of the API.
MOST_POTENTIAL_NODES = 128


class Object(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of every struct of the API: camelCase on the wire, fields with defaults left out."""


class ResourceClass(Object, frozen=True, kw_only=True):
    """A class. Without `suitable_nodes`, the driver may have resources on every node."""

    metadata: ObjectMeta = ObjectMeta()
    driver_name: str = ""
    suitable_nodes: NodeSelector | None = None


class ResourceClaimConsumerReference(Object, frozen=True, kw_only=True):
    """Who a claim is reserved for: for a pod, "pods" without a group."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimSpec(Object, frozen=True, kw_only=True):
    resource_class_name: str = ""
    allocation_mode: str = ""


class ResourceHandle(Object, frozen=True, kw_only=True):
    """A driver's own data about an allocation."""

    data: str = ""


class AllocationResult(Object, frozen=True, kw_only=True):
    """An allocation. Without `available_on_nodes`, its resource can be used on every node."""

    resource_handles: tuple[ResourceHandle, ...] = ()
    available_on_nodes: NodeSelector | None = None
    shareable: bool = False


class ResourceClaimStatus(Object, frozen=True, kw_only=True):
    driver_name: str = ""
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    deallocation_requested: bool = False


class ResourceClaim(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class PodSchedulingContextSpec(Object, frozen=True, kw_only=True):
    """The nodes that the scheduler proposes."""

    selected_node: str = ""
    potential_nodes: tuple[str, ...] = ()


class ResourceClaimSchedulingStatus(Object, frozen=True, kw_only=True):
    """The answer for a claim; `name` is the name of its entry in the pod's spec.resourceClaims."""

    name: str = ""
    unsuitable_nodes: tuple[str, ...] = ()


class PodSchedulingContextStatus(Object, frozen=True, kw_only=True):
    """The answers of the drivers."""

    resource_claims: tuple[ResourceClaimSchedulingStatus, ...] = ()


class PodSchedulingContext(Object, frozen=True, kw_only=True):
    """The negotiation for a pod. It has the name of its pod, which owns it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSchedulingContextSpec = PodSchedulingContextSpec()
    status: PodSchedulingContextStatus = PodSchedulingContextStatus()


def _watched_kind(kind: type[Object], plural: str) -> WatchedKind:
    return WatchedKind(API_VERSION, kind.__name__, f"/apis/{API_VERSION}/{plural}", kind)


RESOURCE_CLASSES = _watched_kind(ResourceClass, "resourceclasses")
RESOURCE_CLAIMS = _watched_kind(ResourceClaim, "resourceclaims")
POD_SCHEDULING_CONTEXTS = _watched_kind(PodSchedulingContext, "podschedulingcontexts")

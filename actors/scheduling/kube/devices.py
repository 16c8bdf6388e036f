"""resource.k8s.io/v1: devices and the rules that taint them, claims for devices, and classes.

Claims are changed with patches, or their status is replaced; they are never written back whole.
Opaque configuration is passed on unchanged. Mirrors the API types of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from .core import NodeSelector, Taint, Toleration
from .meta import Int64, Object, SchedulersOwn, WholeObject
from .quantity import nano_value
from .reading import ReadBy
from .times import Time

Amount = Annotated[str | Int64 | float, ReadBy(nano_value)]

EXACT_COUNT, ALL = "ExactCount", "All"
NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
# Limits of the API.
MOST_RESULTS = 32
MOST_SUB_REQUESTS = 8
# The finalizer of a claim with an allocation.
FINALIZER = "resource.kubernetes.io/delete-protection"
# A claim that the scheduler creates for a pod's extended resources has this annotation, "true".
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
# Every class provides an extended resource whose name begins with this.
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def may_be_devices(resource: str) -> bool:
    """True if a device class may provide the resource.

    Such a resource is an extended resource, or has the name that stands for the class.
    """
    if resource.startswith(DEVICE_CLASS_PREFIX):
        return True
    is_native = "/" not in resource or "kubernetes.io/" in resource
    return not is_native and not resource.startswith("requests.")


# ------------------------------------------------------------------------------------ configuration


class OpaqueDeviceConfiguration(Object, frozen=True, kw_only=True):
    driver: str = ""
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)


class DeviceConfiguration(Object, frozen=True, kw_only=True):
    """The configuration of a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaimConfiguration(Object, frozen=True, kw_only=True):
    """The configuration of devices of a claim; without `requests`, of all requests."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class CELDeviceSelector(Object, frozen=True, kw_only=True):
    expression: str = ""


class DeviceSelector(Object, frozen=True, kw_only=True):
    cel: CELDeviceSelector | None = None


# ------------------------------------------------------------------------------------------ classes


class DeviceClassSpec(Object, frozen=True, kw_only=True):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(WholeObject, frozen=True, kw_only=True):
    spec: DeviceClassSpec = DeviceClassSpec()


# ------------------------------------------------------------------------------------------- slices


class DeviceAttribute(Object, frozen=True, kw_only=True):
    """An attribute, with one value set. Lists need a feature gate that is off by default."""

    int_: Int64 | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: tuple[Int64, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityRequestPolicyRange(Object, frozen=True, kw_only=True):
    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class CapacityRequestPolicy(Object, frozen=True, kw_only=True):
    default: Amount | None = None
    valid_values: tuple[Amount, ...] | None = None
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Object, frozen=True, kw_only=True):
    value: Amount = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(Object, frozen=True, kw_only=True):
    value: Amount = 0


class CounterSet(Object, frozen=True, kw_only=True):
    name: str = ""
    counters: Mapping[str, Counter] = msgspec.field(default_factory=dict)


class DeviceCounterConsumption(Object, frozen=True, kw_only=True):
    counter_set: str = ""
    counters: Mapping[str, Counter] = msgspec.field(default_factory=dict)


class DeviceTaint(Taint, frozen=True, kw_only=True):
    """A taint of a device."""


class Device(Object, frozen=True, kw_only=True):
    """A device. An attribute or capacity without a domain in the name is in the driver's domain."""

    name: str = ""
    attributes: Mapping[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: Mapping[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None


class ResourcePool(Object, frozen=True, kw_only=True):
    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Object, frozen=True, kw_only=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(WholeObject, frozen=True, kw_only=True):
    spec: ResourceSliceSpec = ResourceSliceSpec()


# -------------------------------------------------------------------------------------- taint rules


class DeviceTaintSelector(Object, frozen=True, kw_only=True):
    """The devices that a rule taints: those that meet every criterion that is set."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Object, frozen=True, kw_only=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(WholeObject, frozen=True, kw_only=True):
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


# ------------------------------------------------------------------------------------------- claims


class DeviceToleration(Toleration, frozen=True, kw_only=True):
    """A toleration of taints of devices."""


class CapacityRequirements(Object, frozen=True, kw_only=True):
    requests: Mapping[str, Amount] = msgspec.field(default_factory=dict)


class ExactDeviceRequest(Object, frozen=True, kw_only=True):
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Object, frozen=True, kw_only=True):
    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Object, frozen=True, kw_only=True):
    """A request of a claim. Either `exactly` or `first_available` is set."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Object, frozen=True, kw_only=True):
    """A constraint on devices of a claim; without `requests`, on all requests."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Object, frozen=True, kw_only=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Object, frozen=True, kw_only=True):
    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Object, frozen=True, kw_only=True):
    """An allocated device. `request` is `<request>/<sub-request>` for an alternative."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Mapping[str, Amount] = msgspec.field(default_factory=dict)


class DeviceAllocationConfiguration(Object, frozen=True, kw_only=True):
    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Object, frozen=True, kw_only=True):
    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Object, frozen=True, kw_only=True):
    """An allocation. Without `node_selector`, the devices can be used on every node."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: Time | None = None


class ResourceClaimConsumerReference(Object, frozen=True, kw_only=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(Object, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class AllocatedDeviceStatus(Object, frozen=True, kw_only=True):
    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: tuple[DeviceCondition, ...] = ()


class ResourceClaimStatus(Object, frozen=True, kw_only=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(WholeObject, frozen=True, kw_only=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class InFlightAllocation(SchedulersOwn, frozen=True, kw_only=True):
    """An allocation that is decided but not written: other pods must not get its devices.

    Its name is the uid of the claim.
    """

    results: tuple[DeviceRequestAllocationResult, ...] = ()

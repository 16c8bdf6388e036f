"""The requests of claims, checked and prepared once for all pods with equal claims.

Mirrors the first half of the allocator's Allocate, which checks claims before it searches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from berth.plugin import DeviceClass

from ...kube.devices import (
    ALL,
    EXACT_COUNT,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from ...kube.meta import key
from .features import EVERY_FEATURE, Features

ClassByName = Callable[[str], DeviceClass | None]


class AllocationError(Exception):
    """No node can be tried, or a node cannot be judged.

    The message is kube-scheduler's. `detail` says what the message leaves out, such as the device.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail

    @property
    def in_full(self) -> str:
        return f"{self} ({self.detail})" if self.detail else str(self)


class SubRequest:
    """A sub-request: of the sub-requests of a request, the first that is available is allocated.
    `index` is its place among them. A request without sub-requests is represented by one
    sub-request without a `parent`. `request_name` and `sub_request_name` are for constraints.

    `capacity` has the amounts that it requests of a shared device. `selectors` are expressions,
    each with the beginning of the message if it fails. `problem` is set if the sub-request is
    invalid.
    """

    def __init__(
        self,
        claim: str,
        name: str,
        parent: str,
        spec: ExactDeviceRequest | DeviceSubRequest,
        classes: ClassByName,
        features: Features,
        index: int = 0,
    ) -> None:
        self.index = index
        self.name = name
        self.parent = parent
        self.request_name = parent or name
        self.sub_request_name = name if parent else ""
        self.full_name = f"{parent}/{name}" if parent else name
        self.all_devices = spec.allocation_mode == ALL
        self.count = spec.count
        self.admin_access = isinstance(spec, ExactDeviceRequest) and bool(spec.admin_access)
        self.tolerations = spec.tolerations
        self.capacity = () if spec.capacity is None else (*spec.capacity.requests.items(),)
        self.device_class = classes(spec.device_class_name)
        self.selectors: tuple[tuple[str, str], ...] = ()
        self.problem = self._problem_of(claim, spec, features)
        if self.device_class is not None and not self.problem:
            self.selectors = (
                *_expressions(
                    self.device_class.spec.selectors, f"class {self.device_class.metadata.name}"
                ),
                *_expressions(spec.selectors, f"claim {claim}"),
            )

    def _problem_of(
        self, claim: str, spec: ExactDeviceRequest | DeviceSubRequest, features: Features
    ) -> str:
        if spec.capacity is not None and not features.consumable_capacity:
            request = "subrequest" if self.parent else "request"
            disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
            return f"claim {claim}, {request} {self.name}: {disabled}"
        where = f"claim {claim}, request {self.name}"
        for number, selector in enumerate(spec.selectors):
            if selector.cel is None:
                unknown = "CEL expression empty (unsupported selector type?)"
                return f"{where}, selector #{number}: {unknown}"
        if not spec.device_class_name:
            return f"{where}: missing device class name (unsupported request type?)"
        if self.device_class is None:
            name = spec.device_class_name
            missing = f'deviceclass.resource.k8s.io "{name}" not found'
            return f"{where}: could not retrieve device class {name}: {missing}"
        if spec.allocation_mode not in (EXACT_COUNT, ALL):
            return f"{where}: unsupported count mode {spec.allocation_mode}"
        return ""

    def tolerates(self, taint: DeviceTaint) -> bool:
        return any(tolerates(toleration, taint) for toleration in self.tolerations)


def _expressions(selectors: Iterable[DeviceSelector], owner: str) -> list[tuple[str, str]]:
    return [
        (selector.cel.expression if selector.cel is not None else "", f"{owner}: selector #{i}")
        for i, selector in enumerate(selectors)
    ]


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """True if a toleration covers a taint, whatever the effect of the taint is."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


class Request(msgspec.Struct, frozen=True):
    """A request for devices. With `is_list`, it needs the first sub-request that is available;
    otherwise it has just one sub-request.
    """

    name: str
    sub_requests: tuple[SubRequest, ...]
    is_list: bool


class ClaimRequests(msgspec.Struct, frozen=True):
    """The requests of a claim, and the constraints among their devices.

    `name` is the name of the claim, with its namespace.
    """

    name: str
    requests: tuple[Request, ...]
    constraints: tuple[DeviceConstraint, ...]


def claim_requests(
    claim: ResourceClaim, classes: ClassByName, features: Features = EVERY_FEATURE
) -> ClaimRequests:
    """Returns the requests of a claim, prepared for the allocator."""
    name, devices = key(claim), claim.spec.devices
    requests = tuple(_request(name, request, classes, features) for request in devices.requests)
    return ClaimRequests(name, requests, devices.constraints)


def _request(
    claim: str, request: DeviceRequest, classes: ClassByName, features: Features
) -> Request:
    if request.first_available:
        subs: Sequence[DeviceSubRequest] = request.first_available
        sub_requests = tuple(
            SubRequest(claim, sub.name, request.name, sub, classes, features, index)
            for index, sub in enumerate(subs)
        )
        return Request(request.name, sub_requests, is_list=True)
    exactly = request.exactly or ExactDeviceRequest()
    itself = SubRequest(claim, request.name, "", exactly, classes, features)
    return Request(request.name, (itself,), False)

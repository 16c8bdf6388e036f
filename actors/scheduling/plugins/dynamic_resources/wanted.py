"""What claims ask for, prepared once for all pods that ask for the same.

Mirrors the first half of the allocator's Allocate, which checks claims before it searches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from berth.plugin import DeviceClass

from ...kube.devices import (
    ALL,
    EXACT_COUNT,
    Amount,
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
from .amounts import Share
from .features import EVERY_FEATURE, Features

ClassByName = Callable[[str], DeviceClass | None]
_NOTHING: Mapping[str, Amount] = {}


class AllocationError(Exception):
    """No node can be tried, or a node cannot be judged. The message is kube-scheduler's."""


class Alternative:
    """One request for devices, or one of the sub-requests of which a request needs the first that
    is available, at its `index` among them. `selectors` are expressions, with what is said of
    their failure.

    `problem` is set if the request cannot be understood. `demands` is for the search to remember
    what the request consumes of devices, by their content.
    """

    def __init__(
        self,
        claim: str,
        name: str,
        parent: str,
        asked: ExactDeviceRequest | DeviceSubRequest,
        classes: ClassByName,
        features: Features,
        index: int = 0,
    ) -> None:
        self.index = index
        self.name = name
        self.parent = parent
        self.full_name = f"{parent}/{name}" if parent else name
        self.all_devices = asked.allocation_mode == ALL
        self.count = asked.count
        self.admin_access = isinstance(asked, ExactDeviceRequest) and bool(asked.admin_access)
        self.tolerations = asked.tolerations
        self.capacity = _NOTHING if asked.capacity is None else asked.capacity.requests
        self.device_class = classes(asked.device_class_name)
        self.demands: dict[int, dict[str, Share] | None] = {}
        self.selectors: tuple[tuple[str, str], ...] = ()
        self.problem = self._problem_of(claim, asked, features)
        if self.device_class is not None and not self.problem:
            self.selectors = (
                *_expressions(
                    self.device_class.spec.selectors, f"class {self.device_class.metadata.name}"
                ),
                *_expressions(asked.selectors, f"claim {claim}"),
            )

    def _problem_of(
        self, claim: str, asked: ExactDeviceRequest | DeviceSubRequest, features: Features
    ) -> str:
        if asked.capacity is not None and not features.consumable_capacity:
            request = "subrequest" if self.parent else "request"
            disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
            return f"claim {claim}, {request} {self.name}: {disabled}"
        where = f"claim {claim}, request {self.name}"
        for number, selector in enumerate(asked.selectors):
            if selector.cel is None:
                unknown = "CEL expression empty (unsupported selector type?)"
                return f"{where}, selector #{number}: {unknown}"
        if not asked.device_class_name:
            return f"{where}: missing device class name (unsupported request type?)"
        if self.device_class is None:
            name = asked.device_class_name
            missing = f'deviceclass.resource.k8s.io "{name}" not found'
            return f"{where}: could not retrieve device class {name}: {missing}"
        if asked.allocation_mode not in (EXACT_COUNT, ALL):
            return f"{where}: unsupported count mode {asked.allocation_mode}"
        return ""

    def tolerates(self, taint: DeviceTaint) -> bool:
        return any(tolerates(toleration, taint) for toleration in self.tolerations)


def _expressions(selectors: Iterable[DeviceSelector], whose: str) -> list[tuple[str, str]]:
    return [
        (selector.cel.expression if selector.cel is not None else "", f"{whose}: selector #{i}")
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
    """`is_list` if the first alternative that is available is taken; else there is just one."""

    name: str
    alternatives: tuple[Alternative, ...]
    is_list: bool


class Wanted(msgspec.Struct, frozen=True):
    """The devices that one claim asks for. `name` is the claim's, with its namespace."""

    name: str
    requests: tuple[Request, ...]
    constraints: tuple[DeviceConstraint, ...]


def wanted_by(
    claim: ResourceClaim, classes: ClassByName, features: Features = EVERY_FEATURE
) -> Wanted:
    name = key(claim)
    requests = tuple(
        _request(name, asked, classes, features) for asked in claim.spec.devices.requests
    )
    return Wanted(name, requests, claim.spec.devices.constraints)


def _request(claim: str, asked: DeviceRequest, classes: ClassByName, features: Features) -> Request:
    if asked.first_available:
        subs: Sequence[DeviceSubRequest] = asked.first_available
        alternatives = tuple(
            Alternative(claim, sub.name, asked.name, sub, classes, features, index)
            for index, sub in enumerate(subs)
        )
        return Request(asked.name, alternatives, is_list=True)
    exactly = asked.exactly or ExactDeviceRequest()
    only = Alternative(claim, asked.name, "", exactly, classes, features)
    return Request(asked.name, (only,), False)

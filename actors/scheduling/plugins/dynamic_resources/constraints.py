"""The constraints of a claim: attributes that must be equal, or different, among its devices.

A constraint counts the devices of the allocator as they are added and removed. Constraints are
monotonic: devices that break one break it with more devices too. Devices are removed in the
opposite order. Mirrors the allocator's constraints, but keeps the values of all devices of a
request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from ...kube.devices import Device, DeviceAttribute, DeviceConstraint

AttributeValue = tuple[str, bool | int | str]


def attribute_of(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """Returns the attribute with a fully qualified name, if the device has it. A name without a
    domain in the device's list gets the driver's domain.
    """
    attribute = device.attributes.get(name)
    if attribute is None:
        domain, separator, short = name.partition("/")
        if separator and domain == driver:
            attribute = device.attributes.get(short)
    return attribute


def value_of(attribute: DeviceAttribute) -> AttributeValue | None:
    if attribute.string is not None:
        return "string", attribute.string
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    if attribute.version is not None:
        return "version", attribute.version
    return None


class Constraint(ABC):
    """A constraint among the devices of a claim. `requests` are the names of the requests and
    sub-requests that it applies to; all if empty.
    """

    def __init__(self, requests: Iterable[str], attribute: str) -> None:
        self._requests = frozenset(requests)
        self._attribute = attribute
        self._devices = 0

    def add(self, request: str, sub_request: str, device: Device, driver: str) -> bool:
        """Counts a device and returns True, unless the device would break the constraint."""
        if not self._holds_for(request, sub_request):
            return True
        attribute = attribute_of(device, driver, self._attribute)
        if attribute is None or not self._allows(attribute, first=self._devices == 0):
            return False
        self._keep(attribute, first=self._devices == 0)
        self._devices += 1
        return True

    def remove(self, request: str, sub_request: str) -> None:
        """Undoes the last `add` for these requests."""
        if self._holds_for(request, sub_request):
            self._drop()
            self._devices -= 1

    def _holds_for(self, request: str, sub_request: str) -> bool:
        requests = self._requests
        return (
            not requests
            or request in requests
            or (sub_request != "" and f"{request}/{sub_request}" in requests)
        )

    @abstractmethod
    def _allows(self, attribute: DeviceAttribute, *, first: bool) -> bool: ...

    @abstractmethod
    def _keep(self, attribute: DeviceAttribute, *, first: bool) -> None: ...

    @abstractmethod
    def _drop(self) -> None: ...


class MatchAttribute(Constraint):
    """A constraint by which all devices have the same value."""

    _value: AttributeValue | None = None

    def _allows(self, attribute: DeviceAttribute, *, first: bool) -> bool:
        if first:
            return True
        value = value_of(attribute)
        return value is not None and value == self._value

    def _keep(self, attribute: DeviceAttribute, *, first: bool) -> None:
        if first:
            self._value = value_of(attribute)

    def _drop(self) -> None:
        """Keeps the value: the next first device will replace it."""


class DistinctAttribute(Constraint):
    """A constraint by which all devices have different values."""

    def __init__(self, requests: Iterable[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: list[AttributeValue | None] = []

    def _allows(self, attribute: DeviceAttribute, *, first: bool) -> bool:
        if first:
            return True
        value = value_of(attribute)
        return value is not None and value not in self._values

    def _keep(self, attribute: DeviceAttribute, *, first: bool) -> None:
        self._values.append(value_of(attribute))

    def _drop(self) -> None:
        self._values.pop()


def constraint_of(constraint: DeviceConstraint) -> Constraint | None:
    """Returns the constraint before any device is counted; None if its type is unknown."""
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.requests, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(constraint.requests, constraint.distinct_attribute)
    return None

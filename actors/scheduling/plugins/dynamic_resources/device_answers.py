"""What selectors and requests for capacity say of devices, kept by the devices' content."""

from __future__ import annotations

import sys
from collections.abc import Callable

import msgspec

from ...cel import CelError, selector
from ...kube.devices import Amount, Device
from ..steps import NO_LIMIT, Steps
from .consumed_capacity import CapacityAmount, consumed_capacity
from .features import EVERY_FEATURE, Features
from .pools import SliceDevice
from .requests import SubRequest

# How many results of selectors are kept, and how many capacities that requests consume.
MOST_MATCHES, MOST_CONSUMED = 1 << 20, 1 << 16
# The devices of different content that have a number.
MOST_CONTENTS = 1 << 16
# Steps to compute the consumed capacity, for each capacity of the device.
CAPACITY_STEPS = 10
_ENCODER = msgspec.msgpack.Encoder(enc_hook=dict, order="deterministic")
Requested = tuple[tuple[str, Amount], ...]
_NO_MATCHES: dict[int, bool | str] = {}


RUNTIME_ERROR = "CEL runtime error: "


class DeviceAnswers:
    def __init__(self, features: Features = EVERY_FEATURE) -> None:
        self._features = features
        self._contents: dict[bytes, int] = {}
        self._next_content = 0
        self._matches: dict[str, dict[int, bool | str]] = {}
        self._number_of_matches = 0
        self._consumed: dict[tuple[Requested, int], dict[str, CapacityAmount] | None] = {}

    def content_of(self, driver: str, device: Device) -> int:
        """Returns the number of what selectors and policies see of a device."""
        seen = (driver, device.attributes, device.capacity, bool(device.allow_multiple_allocations))
        content = _ENCODER.encode(seen)
        number = self._contents.get(content)
        if number is None:
            if len(self._contents) >= MOST_CONTENTS:
                self._contents.clear()
            number = self._contents[content] = self._next_content
            self._next_content += 1
        return number

    def consumed_capacity(
        self, sub_request: SubRequest, device: SliceDevice, steps: Steps
    ) -> dict[str, CapacityAmount] | None:
        """Returns the capacity that a sub-request consumes of a device; None if it cannot."""
        request = sub_request.capacity, device.content
        try:
            return self._consumed[request]
        except KeyError:
            if len(self._consumed) >= MOST_CONSUMED:
                self._consumed.clear()
            capacity = device.device.capacity
            steps.take(CAPACITY_STEPS * len(capacity))
            consumed = consumed_capacity(capacity, dict(sub_request.capacity), self._features)
            self._consumed[request] = consumed
            return consumed

    def matches(self, expression: str, device: SliceDevice, steps: Steps = NO_LIMIT) -> bool:
        """True if a selector accepts the device. Raises CelError, also if it does not compile, and
        TimedOutError if it has to be evaluated and no steps are left.
        """
        matches = self._matches.get(expression, _NO_MATCHES)
        match = matches.get(device.content)
        if match is None:
            match = self._matches_of(expression)[device.content] = self._match(
                expression, device, steps
            )
        if isinstance(match, str):
            raise CelError(match)
        return match

    def _matches_of(self, expression: str) -> dict[int, bool | str]:
        """Returns the results that are kept of a selector, to add one."""
        self._number_of_matches += 1
        while self._number_of_matches > MOST_MATCHES:
            dropped = self._matches.pop(next(iter(self._matches)))
            self._number_of_matches -= len(dropped)
        return self._matches.setdefault(expression, {})

    def _match(self, expression: str, device: SliceDevice, steps: Steps) -> bool | str:
        """Returns a selector's result, or its error. Raises TimedOutError if no steps are left."""
        steps.spend(0)
        spent: list[int] = []
        try:
            return self._evaluate(expression, device, spent.append)
        except CelError as failure:
            return sys.intern(str(failure))
        finally:
            steps.take(sum(spent))

    def _evaluate(self, expression: str, device: SliceDevice, spend: Callable[[int], None]) -> bool:
        compiled = selector(expression, spend, lists=self._features.list_attributes)
        if compiled.error:
            raise CelError(f"CEL compile error: {compiled.error}")
        try:
            return compiled.matches(device.id[0], device.device, spend)
        except CelError as failure:
            raise CelError(f"{RUNTIME_ERROR}{failure}") from None

"""The capacity of a device that one allocation consumes, by the device's request policies.

Amounts are in billionths, so that quantities are exact. Mirrors consumable_capacity.go.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...kube.devices import Amount, CapacityRequestPolicyRange, DeviceCapacity
from ...kube.quantity import nano_value, value

NANO = 10**9
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class CapacityAmount(msgspec.Struct, frozen=True):
    """An amount in billionths, and the quantity that represents it in the API."""

    nano: int
    text: Amount


def capacity_amount(amount: Amount) -> CapacityAmount:
    return CapacityAmount(nano_value(amount), amount)


def consumed_capacity(
    capacity: Mapping[str, DeviceCapacity], requested: Mapping[str, Amount]
) -> dict[str, CapacityAmount] | None:
    """Returns the amount that a request consumes of each capacity of a device; None if the device
    lacks a requested capacity, or if a policy does not allow an amount.
    """
    if any(name not in capacity for name in requested):
        return None
    amounts = {}
    for name, total in capacity.items():
        amount = _amount(requested.get(name), total)
        if _violates(amount.nano, total):
            return None
        amounts[name] = amount
    return amounts


def _amount(requested: Amount | None, total: DeviceCapacity) -> CapacityAmount:
    """Returns the amount that a request for a capacity consumes, if its policy allows it."""
    policy = total.request_policy
    if requested is None:
        default = None if policy is None else policy.default
        return capacity_amount(total.value if default is None else default)
    amount = capacity_amount(requested)
    if policy is None:
        return amount
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_up(amount, policy.valid_range, capacity_amount(policy.valid_range.min))
    for valid in policy.valid_values or ():
        if amount.nano <= nano_value(valid):
            return capacity_amount(valid)
    return amount


def _rounded_up(
    amount: CapacityAmount, valid: CapacityRequestPolicyRange, least: CapacityAmount
) -> CapacityAmount:
    """Returns the amount, rounded up to the least amount plus whole steps."""
    if amount.nano < least.nano:
        return least
    step = 0 if valid.step is None else value(valid.step)
    if step <= 0:
        return amount
    start = value(least.text)
    steps = -(-(value(amount.text) - start) // step)
    whole = start + step * steps
    return CapacityAmount(whole * NANO, _binary_text(whole))


def _violates(nano: int, total: DeviceCapacity) -> bool:
    policy = total.request_policy
    if policy is None or (policy.default is not None and nano == nano_value(policy.default)):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and nano > nano_value(valid.max):
            return True
        step = 0 if valid.step is None else value(valid.step)
        least = 0 if valid.min is None else value(valid.min)
        return step > 0 and (-(-nano // NANO) - least) % step != 0
    return bool(policy.valid_values) and all(
        nano != nano_value(valid_value) for valid_value in policy.valid_values or ()
    )


def _binary_text(whole: int) -> str:
    """Returns a whole number as a quantity with the largest binary suffix that keeps it exact;
    below 1024, quantities have decimal suffixes.
    """
    if whole == 1000:
        return "1k"
    power = 0
    while whole and whole % 1024 == 0 and power < len(_BINARY) - 1:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY[power]}"

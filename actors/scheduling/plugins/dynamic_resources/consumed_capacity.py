"""The capacity of a device that one allocation consumes, by the device's request policies.

Amounts are in billionths, so that quantities are exact. Mirrors consumable_capacity.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

import msgspec

from ...kube.devices import Amount, CapacityRequestPolicyRange, DeviceCapacity
from ...kube.quantity import (
    MAX_INT64,
    binary_text,
    decimal_text,
    exponent_text,
    nano_value,
    value,
)
from .features import EVERY_FEATURE, Features

NANO, MILLI = 10**9, 10**6  # billionths in one, and in a thousandth


class Format(Enum):
    """The form in which the API writes a quantity: with SI suffixes, with binary ones, or with an
    exponent.
    """

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


class CapacityAmount(msgspec.Struct, frozen=True):
    """An amount in billionths, and the quantity that represents it in the API."""

    nano: int
    text: Amount


def capacity_amount(amount: Amount) -> CapacityAmount:
    return CapacityAmount(nano_value(amount), amount)


def consumed_capacity(
    capacity: Mapping[str, DeviceCapacity],
    requested: Mapping[str, Amount],
    features: Features = EVERY_FEATURE,
) -> dict[str, CapacityAmount] | None:
    """Returns the amount that a request consumes of each capacity of a device; None if the device
    lacks a requested capacity, or if a policy does not allow an amount.
    """
    if any(name not in capacity for name in requested):
        return None
    amounts = {}
    for name, total in capacity.items():
        amount = _amount(requested.get(name), total, features)
        if _violates(amount.nano, total, features):
            return None
        amounts[name] = amount
    return amounts


def _amount(requested: Amount | None, total: DeviceCapacity, features: Features) -> CapacityAmount:
    """Returns the amount that a request for a capacity consumes, if its policy allows it."""
    policy = total.request_policy
    if requested is None:
        default = None if policy is None else policy.default
        return capacity_amount(total.value if default is None else default)
    amount = capacity_amount(requested)
    if policy is None:
        return amount
    if policy.valid_range is not None and policy.valid_range.min is not None:
        least = capacity_amount(policy.valid_range.min)
        return _rounded_up(amount, policy.valid_range, least, features)
    for valid in policy.valid_values or ():
        if amount.nano <= nano_value(valid):
            return capacity_amount(valid)
    return amount


def _rounded_up(
    amount: CapacityAmount,
    valid: CapacityRequestPolicyRange,
    least: CapacityAmount,
    features: Features,
) -> CapacityAmount:
    """Returns the amount, rounded up to the least amount plus whole steps."""
    if amount.nano < least.nano:
        return least
    if valid.step is None:
        return amount
    form = format_of(valid.step) if features.capacity_in_format_of_step else Format.BINARY
    if _in_thousandths(valid, features):
        if not _is_exact(amount.nano):
            return amount  # which the range does not allow
        start, step = least.nano // MILLI, nano_value(valid.step) // MILLI
        steps = -(-(amount.nano // MILLI - start) // step)
        milli = min(start + step * steps, MAX_INT64)
        return CapacityAmount(milli * MILLI, _text(milli, form))
    step = value(valid.step)
    if step <= 0:
        return amount
    start = value(least.text)
    steps = -(-(value(amount.text) - start) // step)
    whole = start + step * steps
    return CapacityAmount(whole * NANO, _text(whole * 1000, form))


def _in_thousandths(valid: CapacityRequestPolicyRange, features: Features) -> bool:
    """True if the steps of a range are counted in thousandths: if all of its amounts are exact in
    them, and the step is at least one.
    """
    if not features.fractional_ranges:
        return False
    amounts = [nano_value(each) for each in (valid.min, valid.max, valid.step) if each is not None]
    return all(map(_is_exact, amounts)) and (valid.step is None or nano_value(valid.step) >= MILLI)


def _is_exact(nano: int) -> bool:
    """True if the number of thousandths is whole, and an int64."""
    return nano % MILLI == 0 and nano // MILLI <= MAX_INT64


def _violates(nano: int, total: DeviceCapacity, features: Features) -> bool:
    policy = total.request_policy
    if policy is None or (policy.default is not None and nano == nano_value(policy.default)):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and nano > nano_value(valid.max):
            return True
        if valid.step is not None and _in_thousandths(valid, features):
            start = 0 if valid.min is None else nano_value(valid.min)
            return not _is_exact(nano) or (nano - start) % nano_value(valid.step) != 0
        step = 0 if valid.step is None else value(valid.step)
        least = 0 if valid.min is None else value(valid.min)
        return step > 0 and (-(-nano // NANO) - least) % step != 0
    return bool(policy.valid_values) and all(
        nano != nano_value(valid_value) for valid_value in policy.valid_values or ()
    )


def format_of(amount: Amount) -> Format:
    """Returns the format of a quantity, as its text or number shows it."""
    text = str(amount)
    if text.endswith("i"):
        return Format.BINARY
    return Format.EXPONENT if re.search(r"[eE][-+]?\d+$", text) else Format.DECIMAL


def _text(milli: int, form: Format) -> str:
    """Returns an amount in thousandths as the shortest quantity that is exact. Amounts that are not
    whole have no binary suffix.
    """
    if form is Format.BINARY and milli % 1000 == 0:
        return binary_text(milli // 1000)
    return (exponent_text if form is Format.EXPONENT else decimal_text)(milli * MILLI)

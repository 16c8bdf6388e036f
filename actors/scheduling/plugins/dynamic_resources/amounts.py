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


class Share(msgspec.Struct, frozen=True):
    """An amount in billionths, and the quantity that stands for it in the API."""

    nano: int
    text: Amount


def share_of(amount: Amount) -> Share:
    return Share(nano_value(amount), amount)


def consumed(
    capacity: Mapping[str, DeviceCapacity], requested: Mapping[str, Amount]
) -> dict[str, Share] | None:
    """What a request takes of each capacity of a device; None if the device cannot meet it because
    it has no such capacity, or because a policy does not allow the amount.
    """
    if any(name not in capacity for name in requested):
        return None
    taken = {}
    for name, offered in capacity.items():
        share = _share(requested.get(name), offered)
        if _violates(share.nano, offered):
            return None
        taken[name] = share
    return taken


def _share(requested: Amount | None, offered: DeviceCapacity) -> Share:
    policy = offered.request_policy
    if requested is None:
        without = None if policy is None else policy.default
        return share_of(offered.value if without is None else without)
    share = share_of(requested)
    if policy is None:
        return share
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_up(share, policy.valid_range, share_of(policy.valid_range.min))
    for valid in policy.valid_values or ():
        if share.nano <= nano_value(valid):
            return share_of(valid)
    return share


def _rounded_up(share: Share, valid: CapacityRequestPolicyRange, least: Share) -> Share:
    """The amount, rounded up to whole steps from the least amount."""
    if share.nano < least.nano:
        return least
    step = 0 if valid.step is None else value(valid.step)
    if step <= 0:
        return share
    start = value(least.text)
    steps = -(-(value(share.text) - start) // step)
    whole = start + step * steps
    return Share(whole * NANO, _binary_text(whole))


def _violates(nano: int, offered: DeviceCapacity) -> bool:
    policy = offered.request_policy
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
        nano != nano_value(one) for one in policy.valid_values or ()
    )


def _binary_text(whole: int) -> str:
    """A whole number as a quantity with the largest binary suffix that keeps it exact; below 1024,
    quantities have decimal suffixes.
    """
    if whole == 1000:
        return "1k"
    power = 0
    while whole and whole % 1024 == 0 and power < len(_BINARY) - 1:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY[power]}"

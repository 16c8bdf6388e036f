"""The DeviceTaintRules of the cluster, merged into its slices.

A rule taints the devices that its selector names by driver, pool and name; without a selector, it
taints every device. Mirrors the tracker of k8s.io/dynamic-resource-allocation/resourceslice, which
leaves the order of the taints of several rules open: here it is that of their names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from berth.plugin import ResourceSlice

from ...kube.devices import Device, DeviceTaint, DeviceTaintRule, DeviceTaintSelector
from .pools import PoolID

# The driver and the pool that a rule names, None for any.
Place = tuple[str | None, str | None]


class TaintRules:
    """The rules by name and by place, and the slices that they taint."""

    def __init__(self) -> None:
        self._by_name: dict[str, DeviceTaintRule] = {}
        self._by_place: dict[Place, dict[str, DeviceTaintRule]] = {}
        # The slices with taints of rules, by name: as they are published, and with the taints.
        self._tainted: dict[str, tuple[ResourceSlice, ResourceSlice]] = {}

    def names(self) -> list[tuple[str, str]]:
        return [("", name) for name in self._by_name]

    def put(self, name: str, new: DeviceTaintRule | None) -> list[Place]:
        """Takes the rule of this name, None if it is gone. Returns the places that it taints
        otherwise than before.
        """
        old = self._by_name.pop(name, None)
        if new is not None:
            self._by_name[name] = new
        if old is not None and new is not None and old.spec == new.spec:
            self._by_place[_place(new)][name] = new
            return []
        places = []
        if old is not None:
            places.append(_place(old))
            rules = self._by_place[places[0]]
            del rules[name]
            if not rules:
                del self._by_place[places[0]]
        if new is not None:
            places.append(_place(new))
            self._by_place.setdefault(places[-1], {})[name] = new
        return places

    def merged(self, name: str, slice_: ResourceSlice | None) -> ResourceSlice | None:
        """Returns the slice of this name with the taints of the rules; the same object as before if
        it has the same taints.
        """
        published, before = self._tainted.pop(name, (None, None))
        if slice_ is None:
            return None
        merged = _with_rules(slice_, self._rules_for((slice_.spec.driver, slice_.spec.pool.name)))
        if merged is slice_:
            return slice_
        if published is slice_ and before is not None and _taints(before) == _taints(merged):
            merged = before
        self._tainted[name] = slice_, merged
        return merged

    def _rules_for(self, pool: PoolID) -> list[DeviceTaintRule]:
        if not self._by_place:
            return []
        driver, name = pool
        places: tuple[Place, ...] = ((None, None), (driver, None), (None, name), pool)
        found = [rules for place in places if (rules := self._by_place.get(place))]
        merged = {name: rule for rules in found for name, rule in rules.items()}
        return [rule for _, rule in sorted(merged.items())]


def _with_rules(slice_: ResourceSlice, rules: Collection[DeviceTaintRule]) -> ResourceSlice:
    """Returns the slice with the taints of the rules for its pool after those of its devices; the
    same object if they select no device.
    """
    spec = slice_.spec
    added = [_taints_of(rules, device) for device in spec.devices] if rules else ()
    if not any(added):
        return slice_
    devices = tuple(
        msgspec.structs.replace(device, taints=(*device.taints, *taints)) if taints else device
        for device, taints in zip(spec.devices, added, strict=True)
    )
    return msgspec.structs.replace(slice_, spec=msgspec.structs.replace(spec, devices=devices))


def _taints_of(rules: Iterable[DeviceTaintRule], device: Device) -> list[DeviceTaint]:
    return [rule.spec.taint for rule in rules if _selector(rule).device in (None, device.name)]


def _selector(rule: DeviceTaintRule) -> DeviceTaintSelector:
    return rule.spec.device_selector or DeviceTaintSelector()


def _place(rule: DeviceTaintRule) -> Place:
    selector = _selector(rule)
    return selector.driver, selector.pool


def _taints(slice_: ResourceSlice) -> list[tuple[DeviceTaint, ...]]:
    return [device.taints for device in slice_.spec.devices]

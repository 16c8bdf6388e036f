"""Suggestions to ask for other devices: of a class that exists, fewer of them, or also tainted
ones; and to delete the rules that taint devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from berth.actors.scheduling.kube.devices import (
    NO_EXECUTE,
    NO_SCHEDULE,
    DeviceTaintRule,
    ResourceSlice,
)

from .change import ProposedChange, Who
from .device_selectors import Path, requests_of
from .edit import Action, Document, Edit, patch_of, put
from .kind_of_change import Way
from .tolerations import worded
from .world import World

MOST_CLASSES = 3
_SELECTING = ("driver", "pool", "device")


def openings(world: World) -> Iterator[Edit]:
    """Yields a toleration of every taint, for each request that taints keep from devices."""
    if not _taints(world):
        return
    for claim, path, _, _ in _open_requests(world):
        yield patch_of(claim, put([{"operator": "Exists"}], *path, "tolerations"))


def changes(world: World) -> Iterator[ProposedChange]:
    if world.info.template.asks_devices:
        yield from _rule_deletion(world)
    classes = [str(each["metadata"]["name"]) for each in world.every("DeviceClass")]
    for claim, path, name, request in _open_requests(world):
        what = f"request {name} of the claim {claim['metadata']['name']}"
        of = request.get("deviceClassName") or ""
        if of not in classes:
            yield from _another_class(claim, path, what, of, classes)
        else:
            yield from _fewer_devices(world, claim, path, what, request)
            yield from _new_toleration(world, claim, path, what, request)


def _open_requests(world: World) -> Iterator[tuple[Document, Path, str, Document]]:
    """Yields the requests of the claims that have no devices yet, as `requests_of` does."""
    for each in requests_of(world):
        if not (each[0].get("status") or {}).get("allocation"):
            yield each


def _taints(world: World) -> set[tuple[str, str, str]]:
    """Returns the taints of devices, whether a driver or a rule set them."""
    taints = {
        taint
        for each in world.objects(ResourceSlice)
        for device in each.spec.devices
        for taint in device.taints
    }
    taints.update(rule.spec.taint for rule in world.objects(DeviceTaintRule))
    return {(each.key, each.value, each.effect) for each in taints}


def _another_class(
    claim: Document, path: Path, what: str, of: str, classes: list[str]
) -> Iterator[ProposedChange]:
    near = get_close_matches(of, classes, 1)
    for name in near or sorted(classes)[:MOST_CLASSES]:
        edit = patch_of(claim, put(name, *path, "deviceClassName"))
        sentence = f"Name the class {name} instead of {of} in {what}"
        yield ProposedChange("deviceClass", Who.OWNER, 0.1 if near else 0.5, sentence, (edit,))


def _fewer_devices(
    world: World, claim: Document, path: Path, what: str, request: Document
) -> Iterator[ProposedChange]:
    """Yields the largest number of devices with which the pod fits, unless it asks for all."""
    number = request.get("count") or 1
    fits, too_many = 0, number
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        with world.changed([patch_of(claim, put(middle, *path, "count"))]):
            fits, too_many = (middle, too_many) if world.fits() else (fits, middle)
    if fits:
        edit = patch_of(claim, put(fits, *path, "count"))
        sentence = f"Ask for {fits} instead of {number} devices in {what}"
        yield ProposedChange("deviceCount", Who.OWNER, 0.4, sentence, (edit,))


def _new_toleration(
    world: World, claim: Document, path: Path, what: str, request: Document
) -> Iterator[ProposedChange]:
    """Yields a toleration for each taint of devices."""
    for key, value, effect in sorted(_taints(world)):
        match = {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
        toleration = {"key": key, "effect": effect, **match}
        tolerations = [*(request.get("tolerations") or ()), toleration]
        edit = patch_of(claim, put(tolerations, *path, "tolerations"))
        sentence = f"Tolerate the device taint {worded((key, value, effect))} in {what}"
        yield ProposedChange("deviceToleration", Who.OWNER, 0.3, sentence, (edit,))


def _rule_deletion(world: World) -> Iterator[ProposedChange]:
    """Yields the deletion of each rule whose taint keeps pods from devices."""
    for document in world.every("DeviceTaintRule"):
        name, spec = document["metadata"]["name"], document.get("spec") or {}
        taint, selector = spec.get("taint") or {}, spec.get("deviceSelector") or {}
        effect = taint.get("effect") or ""
        if effect not in (NO_SCHEDULE, NO_EXECUTE):
            continue
        words = worded((taint.get("key") or "", taint.get("value") or "", effect))
        chosen = [f"{field} {selector[field]}" for field in _SELECTING if selector.get(field)]
        what = f"devices of {', '.join(chosen)}" if chosen else "every device"
        sentence = f"Delete the DeviceTaintRule {name}, which taints {what} with {words}"
        edit = Edit(Action.DELETE, "DeviceTaintRule", name)
        yield ProposedChange("deviceTaintRule", Who.ADMIN, 0.3, sentence, (edit,))


WAY = Way(changes, openings)

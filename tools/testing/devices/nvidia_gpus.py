"""NVIDIA's GPUs as dra-driver-nvidia-gpu publishes them: whole, as parts that share counters (its
gate DynamicMIG), or divided beforehand. Their NUMA node is published since June 2026.

The figures of a part are those that `nvidia-smi mig -lgip` and `-lgipp` list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

from ...kubernetes.api.rules.device_rules import MOST_COUNTER_SETS
from .pci_slots import slot

Document = dict[str, Any]
DRIVER = "gpu.nvidia.com"
MEMORY = "81559Mi"
MEMORY_SLICES = 8
PRODUCT: Document = {
    "productName": {"string": "NVIDIA H100 80GB HBM3"},
    "brand": {"string": "Nvidia"},
    "architecture": {"string": "Hopper"},
    "cudaComputeCapability": {"version": "9.0.0"},
    "driverVersion": {"version": "550.54.15"},
    "cudaDriverVersion": {"version": "12.4.0"},
}
# Names of capacities, and what the driver calls their counters.
_COUNTERS = {
    "multiprocessors": "multiprocessors",
    "copyEngines": "copy-engines",
    "decoders": "decoders",
    "encoders": "encoders",
    "jpegEngines": "jpeg-engines",
    "ofaEngines": "ofa-engines",
    "memory": "memory",
}


class MigProfile(msgspec.Struct, frozen=True):
    """A form of parts: its amounts in the order of `_COUNTERS`, how many memory slices it takes,
    and from which slices on it may begin.
    """

    name: str
    number: int
    amounts: tuple[str, ...]
    size: int
    starts: tuple[int, ...]

    @property
    def capacity(self) -> dict[str, str]:
        return dict(zip(_COUNTERS, self.amounts, strict=True))

    def slices(self, start: int) -> range:
        return range(start, start + self.size)


def _profile(name: str, number: int, amounts: str, size: int, *starts: int) -> MigProfile:
    return MigProfile(name, number, tuple(amounts.split()), size, starts)


H100 = (
    _profile("1g.10gb", 19, "16 1 1 0 1 0 9984Mi", 1, *range(7)),
    _profile("1g.10gb+me", 20, "16 1 1 0 1 1 9984Mi", 1, *range(7)),
    _profile("1g.20gb", 15, "26 1 1 0 1 0 20096Mi", 2, 0, 2, 4, 6),
    _profile("2g.20gb", 14, "32 2 2 0 2 0 20096Mi", 2, 0, 2, 4),
    _profile("3g.40gb", 9, "60 3 3 0 3 0 40448Mi", 4, 0, 4),
    _profile("4g.40gb", 5, "64 4 4 0 4 0 40448Mi", 4, 0),
    _profile("7g.80gb", 0, "132 8 7 0 7 1 81152Mi", 8, 0),
)
_WHOLE = H100[-1]
_BY_NAME = {profile.name: profile for profile in H100}


def classes() -> list[Document]:
    """Returns the classes of the driver's chart."""
    extended = {"extendedResourceName": "nvidia.com/gpu"}
    return [
        _class("gpu.nvidia.com", "gpu", extended),
        _class("mig.nvidia.com", "mig", {}),
        _class("vfio.gpu.nvidia.com", "vfio", {}),
    ]


def _class(name: str, kind: str, more: Document) -> Document:
    chosen = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": chosen}}], **more},
    }


def whole_gpus(node: str, count: int) -> list[Document]:
    """Returns the slices of GPUs that are given whole."""
    return [{"devices": [_gpu(node, number, {"memory": MEMORY}) for number in range(count)]}]


def divisible_gpus(node: str, count: int) -> list[Document]:
    """Returns the slices of GPUs that are given whole or in parts: first the counters, then a slice
    for each GPU.
    """
    counters = [
        {"name": _counter_set(number), "counters": _consumed(_WHOLE, 0)} for number in range(count)
    ]
    starts = range(0, count, MOST_COUNTER_SETS)
    return [
        *({"sharedCounters": counters[start : start + MOST_COUNTER_SETS]} for start in starts),
        *({"devices": _whole_and_parts(node, number)} for number in range(count)),
    ]


def divided_gpus(node: str, count: int, profiles: Sequence[str]) -> list[Document]:
    """Returns the slice of GPUs that were divided like this. Raises ValueError."""
    placed = list(_placed(profiles))
    return [
        {
            "devices": [
                _divided(node, number, profile, start)
                for number in range(count)
                for profile, start in placed
            ]
        }
    ]


def _placed(profiles: Iterable[str]) -> Iterable[tuple[MigProfile, int]]:
    """Yields each profile with its first free place on a GPU. Raises ValueError."""
    taken: set[int] = set()
    for name in profiles:
        profile = _BY_NAME.get(name)
        if profile is None:
            raise ValueError(f"mig: expected one of {', '.join(_BY_NAME)}, got {name!r}")
        start = next((at for at in profile.starts if taken.isdisjoint(profile.slices(at))), None)
        if start is None:
            raise ValueError(f"mig: no room for {name} beside the others on a GPU")
        taken.update(profile.slices(start))
        yield profile, start


def _gpu(node: str, number: int, capacity: dict[str, str]) -> Document:
    place = slot(number)
    attributes = {
        "type": {"string": "gpu"},
        "uuid": {"string": _uuid(node, number)},
        **PRODUCT,
        "resource.kubernetes.io/pciBusID": {"string": place.gpu},
        **place.common_attributes,
    }
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": _values(capacity)}


def _whole_and_parts(node: str, number: int) -> list[Document]:
    whole = _gpu(node, number, _WHOLE.capacity)
    whole["consumesCounters"] = _consumption(number, _WHOLE, 0)
    parts = [
        {
            **_part(node, number, profile, start),
            "consumesCounters": _consumption(number, profile, start),
        }
        for profile in H100
        for start in profile.starts
    ]
    return sorted([whole, *parts], key=lambda device: str(device["name"]))


def _part(node: str, number: int, profile: MigProfile, start: int) -> Document:
    place, form = slot(number), profile.name.replace(".", "").replace("+", "-")
    attributes = {
        "type": {"string": "mig"},
        "parentUUID": {"string": _uuid(node, number)},
        "profile": {"string": profile.name},
        **PRODUCT,
        "resource.kubernetes.io/pciBusID": {"string": place.gpu},
        **place.common_attributes,
    }
    return {
        "name": f"gpu-{number}-mig-{form}-{profile.number}-{start}",
        "attributes": attributes,
        "capacity": _values(profile.capacity),
    }


def _divided(node: str, number: int, profile: MigProfile, start: int) -> Document:
    part = _part(node, number, profile, start)
    own = uuid5(NAMESPACE_URL, f"{node}/{part['name']}")
    part["attributes"]["uuid"] = {"string": f"MIG-{own}"}
    part["capacity"] |= {f"memorySlice{at}": {"value": "1"} for at in profile.slices(start)}
    return part


def _consumption(number: int, profile: MigProfile, start: int) -> list[Document]:
    return [{"counterSet": _counter_set(number), "counters": _consumed(profile, start)}]


def _consumed(profile: MigProfile, start: int) -> Document:
    amounts = {_COUNTERS[name]: amount for name, amount in profile.capacity.items()}
    return _values(amounts | {f"memory-slice-{at}": "1" for at in profile.slices(start)})


def _counter_set(number: int) -> str:
    return f"gpu-{number}-counter-set"


def _uuid(node: str, number: int) -> str:
    return f"GPU-{uuid5(NAMESPACE_URL, f'{node}/gpu-{number}')}"


def _values(amounts: dict[str, str]) -> Document:
    return {name: {"value": amount} for name, amount in amounts.items()}

"""The unused images that a kubelet removes when the image disk is nearly full.

Mirrors pkg/kubelet/images/image_gc_manager.go: the images that were used longest ago go first,
until the disk is filled to the low mark only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from berth.actors.scheduling.kube.core import ContainerImage

from ...objects.structs import Pod
from .kubelet_settings import Settings
from .thresholds import Observation

PERIOD_SECONDS = 300.0
_FAILED = (
    "Insufficient free disk space on the node's image filesystem ({}% of {} used). Failed to free "
    "sufficient space by deleting unused images (freed {} bytes). Investigate disk usage, as it "
    "could be used by active images, logs, volumes, or other data."
)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Collection(msgspec.Struct, frozen=True):
    """The images that are left, and why the disk is still too full; "" if it is not."""

    images: tuple[ContainerImage, ...]
    problem: str = ""


class Collector:
    """The collector of a node's images. It remembers when each image came, and when it was last
    used.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._detected: dict[tuple[str, ...], float] = {}
        self._used: dict[str, float] = {}  # when a pod last ended that used an image, by name

    def detect(self, images: Sequence[ContainerImage], now: float) -> None:
        """Stores the images of the node."""
        self._detected = {image.names: self._detected.get(image.names, now) for image in images}
        names = {name for image in images for name in image.names}
        self._used = {name: at for name, at in self._used.items() if name in names}

    def note_end(self, pod: Pod, now: float) -> None:
        """Records the end of a pod, whose images are no longer in use."""
        if self._detected:
            self._used |= dict.fromkeys(names_of((pod,)), now)

    def is_due(self, disk: Observation | None) -> bool:
        """True if the disk is filled up to the high mark."""
        high = self._settings.image_high
        return disk is not None and high < 100 and _percent(disk) >= high

    def collect(
        self,
        images: Sequence[ContainerImage],
        pods: Iterable[Pod],
        disk: Observation | None,
        now: float,
    ) -> Collection:
        """Removes images that none of the pods uses, if the disk is filled up to the high mark."""
        if disk is None or not self.is_due(disk):
            return Collection(tuple(images))
        used = set(used_images(images, pods))
        excess = disk.capacity * (100 - self._settings.image_low) // 100 - disk.available
        gone: set[tuple[str, ...]] = set()
        freed = 0
        for image in sorted((image for image in images if image not in used), key=self._age):
            if freed >= excess:
                break
            if now - self._detected.get(image.names, 0.0) >= self._settings.image_least_age:
                gone.add(image.names)
                freed += image.size_bytes
        left = tuple(image for image in images if image.names not in gone)
        if freed >= excess:
            return Collection(left)
        return Collection(left, _FAILED.format(_percent(disk), _size(disk.capacity), freed))

    def _age(self, image: ContainerImage) -> tuple[float, float]:
        used = max((self._used.get(name, 0.0) for name in image.names), default=0.0)
        return used, self._detected.get(image.names, 0.0)


def used_images(
    images: Iterable[ContainerImage], pods: Iterable[Pod]
) -> tuple[ContainerImage, ...]:
    names = names_of(pods)
    return tuple(image for image in images if not names.isdisjoint(image.names))


def names_of(pods: Iterable[Pod]) -> set[str]:
    """Returns the names of the images of pods, each also with its implied tag."""
    names = {
        container.image
        for pod in pods
        for container in (*pod.spec.containers, *pod.spec.init_containers)
    }
    return names | {f"{name}:latest" for name in names}


def _percent(disk: Observation) -> int:
    return 100 - disk.available * 100 // disk.capacity if disk.capacity else 0


def _size(amount: float) -> str:
    """Returns a size as text, in the largest unit that it fills."""
    unit = 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{amount:.0f} B"

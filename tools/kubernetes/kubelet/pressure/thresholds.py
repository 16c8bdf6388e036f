"""The signals of pressure, and the thresholds below which too little is available.

Mirrors the thresholds of pkg/kubelet/eviction/helpers.go. A hard threshold has no grace period. Go
keeps thresholds in the random order of its maps; here they have the order of the configuration.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from berth.actors.scheduling.kube.quantity import QuantityError, binary_text, nano_value, value
from berth.config.types import Duration

from .quantities import canonical

MEMORY, ALLOCATABLE_MEMORY = "memory.available", "allocatableMemory.available"
NODEFS, NODEFS_INODES = "nodefs.available", "nodefs.inodesFree"
IMAGEFS, IMAGEFS_INODES = "imagefs.available", "imagefs.inodesFree"
CONTAINERFS, CONTAINERFS_INODES = "containerfs.available", "containerfs.inodesFree"
PIDS = "pid.available"
MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE = "MemoryPressure", "DiskPressure", "PIDPressure"
DISK = "ephemeral-storage"

# The node condition and the resource of each signal.
CONDITIONS = {
    MEMORY: MEMORY_PRESSURE,
    ALLOCATABLE_MEMORY: MEMORY_PRESSURE,
    IMAGEFS: DISK_PRESSURE,
    IMAGEFS_INODES: DISK_PRESSURE,
    CONTAINERFS: DISK_PRESSURE,
    CONTAINERFS_INODES: DISK_PRESSURE,
    NODEFS: DISK_PRESSURE,
    NODEFS_INODES: DISK_PRESSURE,
    PIDS: PID_PRESSURE,
}
RESOURCES = {
    MEMORY: "memory",
    ALLOCATABLE_MEMORY: "memory",
    IMAGEFS: DISK,
    IMAGEFS_INODES: "inodes",
    CONTAINERFS: DISK,
    CONTAINERFS_INODES: "inodes",
    NODEFS: DISK,
    NODEFS_INODES: "inodes",
    PIDS: "pids",
}
DEFAULT_HARD = {
    MEMORY: "100Mi",
    NODEFS: "10%",
    NODEFS_INODES: "5%",
    IMAGEFS: "15%",
    IMAGEFS_INODES: "5%",
}
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class ThresholdError(ValueError):
    """A threshold that cannot be used; the message begins with its field."""


class Amount(msgspec.Struct, frozen=True):
    """An amount: a quantity, or a share of the capacity."""

    quantity: str = ""
    share: float = 0.0

    def of(self, capacity: int) -> int:
        return value(self.quantity) if self.quantity else int(capacity * self.share)

    def text(self, capacity: int) -> str:
        return canonical(self.quantity) if self.quantity else binary_text(self.of(capacity))


class Threshold(msgspec.Struct, frozen=True):
    """A limit: less than `value` is too little. `grace` is in seconds."""

    signal: str
    value: Amount
    grace: float = 0.0
    min_reclaim: Amount | None = None

    @property
    def is_hard(self) -> bool:
        return self.grace == 0

    @property
    def identity(self) -> tuple[object, ...]:
        """The fields that tell thresholds apart."""
        return self.signal, self.value, self.grace


class Observation(msgspec.Struct, frozen=True):
    available: int
    capacity: int


Observations = Mapping[str, Observation]


# --------------------------------------------------------------------------------------- reading


def parse_thresholds(
    hard: Mapping[str, str],
    soft: Mapping[str, str],
    soft_grace: Mapping[str, str],
    min_reclaim: Mapping[str, str],
) -> list[Threshold]:
    """Reads the thresholds of a KubeletConfiguration. Raises ThresholdError."""
    graces = {signal: _grace(signal, text) for signal, text in soft_grace.items()}
    reclaims = {signal: _reclaim(signal, text) for signal, text in min_reclaim.items()}
    read: list[Threshold] = []
    for field, statements in (("evictionHard", hard), ("evictionSoft", soft)):
        for signal, text in statements.items():
            amount = _stated_amount(f"{field}[{signal}]", signal, text)
            if amount is None:
                continue
            if field == "evictionSoft" and signal not in graces:
                raise ThresholdError(
                    f"evictionSoftGracePeriod[{signal}]: expected a grace period for the soft "
                    "threshold, got nothing"
                )
            grace = graces[signal] if field == "evictionSoft" else 0.0
            read.append(Threshold(signal, amount, grace, reclaims.get(signal)))
    return read


def with_allocatable(thresholds: Iterable[Threshold]) -> list[Threshold]:
    """Adds thresholds for the memory that pods may use: a copy of each hard threshold for the
    node's memory.
    """
    read = list(thresholds)
    return read + [
        msgspec.structs.replace(threshold, signal=ALLOCATABLE_MEMORY)
        for threshold in read
        if threshold.signal == MEMORY and threshold.is_hard
    ]


def with_containerfs(
    thresholds: Iterable[Threshold], *, containers_on_imagefs: bool
) -> list[Threshold]:
    """Replaces the thresholds of containerfs with the thresholds of the file system that holds
    containers.
    """
    read = [t for t in thresholds if t.signal not in (CONTAINERFS, CONTAINERFS_INODES)]
    of = {NODEFS: CONTAINERFS, NODEFS_INODES: CONTAINERFS_INODES}
    if containers_on_imagefs:
        of = {IMAGEFS: CONTAINERFS, IMAGEFS_INODES: CONTAINERFS_INODES}
    return read + [
        msgspec.structs.replace(threshold, signal=of[threshold.signal])
        for threshold in read
        if threshold.signal in of
    ]


def _stated_amount(path: str, signal: str, text: str) -> Amount | None:
    """Returns the amount that a threshold states; None for 0% and 100%, which disable it."""
    _check_signal(path, signal)
    if text in ("0%", "100%"):
        return None
    if text.endswith("%"):
        share = _percentage(path, text)
        if not 0 <= share <= 1:
            raise ThresholdError(f"{path}: expected a percentage from 0% to 100%, got {text!r}")
        return Amount(share=share)
    if _quantity(path, text) <= 0:
        raise ThresholdError(f"{path}: expected a quantity above 0, got {text!r}")
    return Amount(text)


def _grace(signal: str, text: str) -> float:
    path = f"evictionSoftGracePeriod[{signal}]"
    _check_signal(path, signal)
    try:
        seconds = float(Duration.parse(text))
    except ValueError as problem:
        raise ThresholdError(f"{path}: {problem}") from None
    if seconds < 0:
        raise ThresholdError(f"{path}: expected a duration of at least 0, got {text!r}")
    return seconds


def _reclaim(signal: str, text: str) -> Amount:
    path = f"evictionMinimumReclaim[{signal}]"
    _check_signal(path, signal)
    if text.endswith("%"):
        share = _percentage(path, text)
        if share <= 0:
            raise ThresholdError(f"{path}: expected a percentage above 0%, got {text!r}")
        return Amount(share=share)
    if _quantity(path, text) < 0:
        raise ThresholdError(f"{path}: expected a quantity of at least 0, got {text!r}")
    return Amount(text)


def _check_signal(path: str, signal: str) -> None:
    if signal not in RESOURCES:
        raise ThresholdError(f"{path}: expected a signal ({', '.join(RESOURCES)}), got {signal!r}")


def _quantity(path: str, text: str) -> int:
    try:
        return nano_value(text)
    except QuantityError as problem:
        raise ThresholdError(f"{path}: {problem}") from None


def _percentage(path: str, text: str) -> float:
    """Returns a percentage as a share, with the precision that the kubelet has: 32 bits."""
    number = text.rstrip("%")
    problem = ThresholdError(f"{path}: expected a percentage such as 10%, got {text!r}")
    if not _NUMBER.fullmatch(number):  # float() reads more than that, such as nan and 1_0
        raise problem
    try:
        return _float32(_float32(float(number)) / 100)
    except OverflowError:
        raise problem from None


def _float32(number: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    return rounded


# -------------------------------------------------------------------------------------- comparing


def thresholds_met(
    thresholds: Iterable[Threshold], observations: Observations, *, enforce_min_reclaim: bool
) -> list[Threshold]:
    """Returns the thresholds that are met, regardless of their grace periods.

    With `enforce_min_reclaim`, a threshold is also met until its minimum has been reclaimed.
    """
    met = []
    for threshold in thresholds:
        observed = observations.get(threshold.signal)
        if observed is None:
            continue
        least = threshold.value.of(observed.capacity)
        if enforce_min_reclaim and threshold.min_reclaim is not None:
            least += threshold.min_reclaim.of(observed.capacity)
        if least > observed.available:
            met.append(threshold)
    return met


def union_of_thresholds(some: Sequence[Threshold], more: Iterable[Threshold]) -> list[Threshold]:
    """Returns the thresholds of both lists, each once."""
    by_identity = {threshold.identity: threshold for threshold in some}
    for threshold in more:
        by_identity.setdefault(threshold.identity, threshold)
    return list(by_identity.values())


def first_observed(
    thresholds: Iterable[Threshold], before: Mapping[Threshold, float], now: float
) -> dict[Threshold, float]:
    return {threshold: before.get(threshold, now) for threshold in thresholds}


def past_grace(observed: Mapping[Threshold, float], now: float) -> list[Threshold]:
    """Returns the thresholds that have been met for their grace periods."""
    return [threshold for threshold, since in observed.items() if now - since >= threshold.grace]


def conditions_of(thresholds: Iterable[Threshold]) -> list[str]:
    return list(dict.fromkeys(CONDITIONS[threshold.signal] for threshold in thresholds))


def by_priority(thresholds: Iterable[Threshold]) -> list[Threshold]:
    """Returns the thresholds in the order in which resources are reclaimed: memory first."""
    return sorted(thresholds, key=lambda t: t.signal not in (MEMORY, ALLOCATABLE_MEMORY))

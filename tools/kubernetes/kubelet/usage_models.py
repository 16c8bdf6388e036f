"""The resource usage of a pod's containers, as a pure function of the pod, the time and a scenario.

    usage_of(pod, now, scenario=NO_SCENARIO, ahead=0.0) -> PodUsage | None

`usage_of` returns None for a pod that says nothing about its usage, and raises UsageError for one
that says it wrongly. `PodUsage` has `.cpu` (billionths of a core), `.memory` and
`.ephemeral_storage` (bytes), `.inodes` and `.pids` of the whole pod, and the same by container in
`.containers`, bytes and inodes by local volume in `.volumes`, and what ended containers left on the
disk in `.dead`. Two calls with the same arguments return the same, noise included. With `ahead`,
each amount is the most that it can be from `now` until so many seconds later.

A pod says what it uses in the annotation berth.dev/usage, a list separated by commas:

    memory=1Gi+10Mi/s                          a leak: 1Gi at the start, then 10Mi more each second
    memory=1Gi+10Mi/s to 4Gi after 5m          a ramp: begins after 5 minutes, ends at 4Gi
    cpu=100m spike 2 every 10m for 30s         2 cores more for 30 seconds, every 10 minutes
    memory=200Mi spike 1Gi at 1h for 5m        once, an hour after the start
    cpu=250m noise 20%                         up to 20% more or less, drawn anew every 15 seconds
    sidecar/memory=64Mi                        of the container `sidecar`; without a name, the first

Resources are cpu, memory, pids, ephemeral-storage and inodes (the container's writable layer), logs
(bytes), and volume.<name> and volume.<name>.inodes of an emptyDir. The time of a container counts
from its last start, so that a restart ends a leak; that of a volume counts from the pod's start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b

import msgspec

from berth.actors.scheduling.kube.core import Container
from berth.actors.scheduling.kube.labels import EVERYTHING, Selector
from berth.actors.scheduling.kube.quantity import QuantityError, nano_value
from berth.actors.scheduling.kube.times import seconds_of
from berth.config.types import Duration

from ..objects.properties import is_finished
from ..objects.structs import Pod, Terminated, Volume

ANNOTATION = "berth.dev/usage"
# The resources of containers, with their fields in ContainerUsage.
_FIELDS = {
    "cpu": "cpu",
    "memory": "memory",
    "pids": "pids",
    "ephemeral-storage": "rootfs",
    "inodes": "inodes",
    "logs": "logs",
}
OF_CONTAINERS = tuple(_FIELDS)
NOISE_SECONDS = 15.0
MOST = 2**63 - 1
_SHOWN = 200  # characters of a wrong description in an error
EXPECTED = (
    "expected <resource>=<amount>, optionally with +<amount>/s to <amount> after <duration>, "
    "spike <amount> every|at <duration> for <duration>, noise <number>%, such as memory=1Gi+10Mi/s"
)
_AMOUNT = r"[0-9.]+(?:[eE][0-9]+|[A-Za-z]{0,2})"
_DURATION = r"[0-9][0-9.a-zµ]*"
_TERM = re.compile(
    rf"(?:(?P<container>[a-z0-9-]+)/)?(?P<resource>[a-z0-9.-]+)\s*=\s*(?P<base>{_AMOUNT})"
    rf"(?:\s*(?P<sign>[+-])\s*(?P<rate>{_AMOUNT})/(?P<unit>[smhd])"
    rf"(?:\s+to\s+(?P<bound>{_AMOUNT}))?(?:\s+after\s+(?P<after>{_DURATION}))?)?"
    rf"(?:\s+spike\s+(?P<spike>{_AMOUNT})\s+(?P<repeats>every|at)\s+(?P<period>{_DURATION})"
    rf"\s+for\s+(?P<width>{_DURATION}))?"
    r"(?:\s+noise\s+(?P<noise>[0-9]{1,3})%)?"
)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class UsageError(ValueError):
    """A description of usage that cannot be used; the message says where it is."""


class Curve(msgspec.Struct, frozen=True):
    """An amount over time: a base, growth up to a bound, one spike or one in each period, and
    noise.

    Amounts are in units (cores, bytes, numbers), times in seconds.
    """

    base: float
    rate: float = 0.0
    bound: float | None = None
    after: float = 0.0
    spike: float = 0.0
    period: float = 0.0
    width: float = 0.0
    repeats: bool = False
    noise: float = 0.0

    def at(self, seconds: float, draw: Callable[[int], float]) -> float:
        """Returns the amount. `draw` returns a number from -1 to 1 for the number of an
        interval.
        """
        amount = self._base_and_growth(seconds)
        if self.spike and seconds >= self.period:
            phase = seconds % self.period if self.repeats else seconds - self.period
            amount += self.spike if phase < self.width else 0.0
        if self.noise:
            amount *= 1.0 + self.noise * draw(int(seconds // NOISE_SECONDS))
        return max(amount, 0.0)

    @property
    def is_constant(self) -> bool:
        return not (self.rate or self.spike or self.noise)

    def _base_and_growth(self, seconds: float) -> float:
        """Returns the amount without spikes and noise."""
        amount = self.base + self.rate * max(seconds - self.after, 0.0)
        if self.bound is not None:
            amount = min(amount, self.bound) if self.rate > 0 else max(amount, self.bound)
        return amount

    def most(self, seconds: float, ahead: float) -> float:
        """Returns an upper bound of the amount for this many seconds from this time on."""
        amount = max(self._base_and_growth(seconds), self._base_and_growth(seconds + ahead), 0.0)
        if self._can_spike(seconds, ahead):
            amount += self.spike
        return amount * (1.0 + self.noise)

    def _can_spike(self, seconds: float, ahead: float) -> bool:
        if seconds + ahead < self.period:
            return False
        phase = seconds % self.period if self.repeats else seconds - self.period
        return phase < self.width or (self.repeats and phase + ahead >= self.period)


Curves = dict[tuple[str, str], Curve]  # by container, "" for the first one, and resource
Amounts = Mapping[str, float]
# Returns the amounts of a pod by `[container/]resource`, given the seconds since its start.
Model = Callable[[Pod, float], Amounts]


class ContainerUsage(msgspec.Struct, frozen=True):
    """The usage of a container: cpu in billionths of a core, bytes of memory, of the writable layer
    and of logs, numbers of inodes in the writable layer and of processes.
    """

    name: str
    cpu: int = 0
    memory: int = 0
    rootfs: int = 0
    logs: int = 0
    inodes: int = 0
    pids: int = 0


class VolumeUsage(msgspec.Struct, frozen=True):
    """The bytes and inodes of an emptyDir volume. One in memory uses no disk."""

    name: str
    used: int = 0
    inodes: int = 0
    in_memory: bool = False


class DeadContainer(msgspec.Struct, frozen=True):
    """The remains of an ended container: bytes and inodes in its writable layer, and bytes
    of logs.
    """

    name: str
    ended: str
    rootfs: int = 0
    logs: int = 0
    inodes: int = 0


class PodUsage(msgspec.Struct, frozen=True):
    containers: tuple[ContainerUsage, ...] = ()
    volumes: tuple[VolumeUsage, ...] = ()
    dead: tuple[DeadContainer, ...] = ()

    @property
    def cpu(self) -> int:
        return sum(container.cpu for container in self.containers)

    @property
    def memory(self) -> int:
        of_containers = sum([container.memory for container in self.containers])
        if not self.volumes:
            return of_containers
        return of_containers + sum(volume.used for volume in self.volumes if volume.in_memory)

    @property
    def ephemeral_storage(self) -> int:
        on_disk = sum(volume.used for volume in self.volumes if not volume.in_memory)
        return on_disk + sum(container.rootfs + container.logs for container in self.containers)

    @property
    def inodes(self) -> int:
        on_disk = sum(volume.inodes for volume in self.volumes if not volume.in_memory)
        return on_disk + sum(container.inodes for container in self.containers)

    @property
    def pids(self) -> int:
        return sum(container.pids for container in self.containers)


def with_most_pids(usage: PodUsage, most: int | None) -> PodUsage:
    """Returns the usage of a pod that may have at most this many processes; None for no limit."""
    if most is None or usage.pids <= most:
        return usage
    containers = []
    for container in usage.containers:
        containers.append(msgspec.structs.replace(container, pids=min(container.pids, most)))
        most -= containers[-1].pids
    return msgspec.structs.replace(usage, containers=tuple(containers))


class Rule(msgspec.Struct, frozen=True):
    """The usage of the pods that a selector selects, as curves or as a model."""

    usage: Curves | Model
    selector: Selector = EVERYTHING
    namespaces: tuple[str, ...] = ()

    def concerns(self, pod: Pod) -> bool:
        namespace = pod.metadata.namespace
        return (not self.namespaces or namespace in self.namespaces) and self.selector.matches(
            pod.metadata.labels
        )


class Scenario(msgspec.Struct, frozen=True):
    """The usage of pods without an annotation. The first rule that selects a pod applies.

    Noise is a function of the seed, the pod's name and the time.
    """

    rules: Sequence[Rule] = ()
    seed: int = 0

    def usage_of(self, pod: Pod) -> Curves | Model | None:
        return next((rule.usage for rule in self.rules if rule.concerns(pod)), None)


NO_SCENARIO = Scenario()


def usage_of(
    pod: Pod, now: datetime, scenario: Scenario = NO_SCENARIO, ahead: float = 0.0
) -> PodUsage | None:
    """Returns the usage of a pod, or the most that it can use in this many seconds from now; None
    if nothing describes it.

    A model cannot be asked about the future. Raises UsageError.
    """
    text = pod.metadata.annotations.get(ANNOTATION)
    try:
        usage = parse_usage(text) if text is not None else scenario.usage_of(pod)
        if usage is None:
            return None
        if not isinstance(usage, dict):
            usage = _curves_of_model(pod, usage, now)
        _check_names(pod, usage)
    except UsageError as problem:
        where = "usage of the scenario" if text is None else f"annotation {ANNOTATION}"
        raise UsageError(f"{where}: {problem}") from None
    return _Reading(pod, usage, now, scenario.seed, ahead).whole()


def is_foreseeable(pod: Pod, scenario: Scenario = NO_SCENARIO) -> bool:
    """False for a pod whose usage is a model, which does not know the future."""
    return ANNOTATION in pod.metadata.annotations or not callable(scenario.usage_of(pod))


def is_constant(pod: Pod, scenario: Scenario = NO_SCENARIO) -> bool:
    """True if `usage_of` is the same at all times for this version of a pod."""
    text = pod.metadata.annotations.get(ANNOTATION)
    usage = parse_usage(text) if text is not None else scenario.usage_of(pod)
    if not isinstance(usage, dict):
        return False  # a model may say anything
    return is_finished(pod) or all(curve.is_constant for curve in usage.values())


def is_described(pod: Pod, scenario: Scenario = NO_SCENARIO) -> bool:
    """True if there is a description of the pod's usage, even an invalid one."""
    return ANNOTATION in pod.metadata.annotations or scenario.usage_of(pod) is not None


@lru_cache(maxsize=1 << 12)
def parse_usage(text: str) -> Curves:
    """Reads a description of usage. Raises UsageError."""
    curves: Curves = {}
    for term in filter(None, map(str.strip, re.split(r"[,;\n]", text))):
        match = _TERM.fullmatch(term) if len(term) <= _SHOWN else None
        if match is None:
            raise UsageError(f"{term[:_SHOWN]!r}: {EXPECTED}")
        place = (match["container"] or "", match["resource"])
        if place in curves:
            raise UsageError(f"{term!r}: expected each resource once")
        if match["resource"] not in OF_CONTAINERS and not _volume_in(match["resource"]):
            names = f"{', '.join(OF_CONTAINERS)}, volume.<name> or volume.<name>.inodes"
            raise UsageError(f"{term!r}: expected the resource {names}")
        if match["container"] and _volume_in(match["resource"]):
            raise UsageError(f"{term!r}: expected no container before a volume")
        try:
            curves[place] = _curve(match)
        except (QuantityError, ValueError) as problem:
            raise UsageError(f"{term!r}: {problem}") from None
    if not curves:
        raise UsageError(EXPECTED)
    return curves


def _curve(match: re.Match[str]) -> Curve:
    sign = -1.0 if match["sign"] == "-" else 1.0
    period, width = _seconds(match["period"]), _seconds(match["width"])
    if match["spike"] and match["repeats"] == "every" and not 0 < width <= period:
        raise ValueError("expected a spike that is not longer than its period")
    return Curve(
        base=_amount(match["base"]),
        rate=sign * _amount(match["rate"]) / _UNITS[match["unit"] or "s"],
        bound=None if match["bound"] is None else _amount(match["bound"]),
        after=_seconds(match["after"]),
        spike=_amount(match["spike"]),
        period=period,
        width=width,
        repeats=match["repeats"] == "every",
        noise=int(match["noise"] or 0) / 100,
    )


def _amount(text: str | None) -> float:
    nanos = 0 if text is None else nano_value(text)
    if nanos > MOST * 10**9:
        raise ValueError(f"expected amounts of at most {MOST}")
    return nanos / 1e9


def _seconds(text: str | None) -> float:
    return 0.0 if text is None else float(Duration.parse(text))


def _volume_in(resource: str) -> str:
    """Returns the name of the volume in a resource's name; "" if there is none."""
    prefix, _, name = resource.removesuffix(".inodes").partition(".")
    return name if prefix == "volume" and "." not in name else ""


def _curves_of_model(pod: Pod, model: Model, now: datetime) -> Curves:
    """Returns the amounts of a model as constant curves. Raises UsageError."""
    try:
        amounts = model(pod, _since(pod.status.start_time, now))
    except Exception as problem:
        raise UsageError(f"the model failed: {problem!r}") from problem
    curves: Curves = {}
    for place, amount in amounts.items():
        container, _, resource = place.rpartition("/")
        if resource not in OF_CONTAINERS and not _volume_in(resource):
            raise UsageError(f"the model returned the unknown resource {place!r}")
        if not isinstance(amount, int | float) or not 0 <= amount <= MOST:
            raise UsageError(f"{place}: expected a number from 0 to {MOST}, got {amount!r}")
        curves[container, resource] = Curve(float(amount))
    return curves


def _check_names(pod: Pod, usage: Curves) -> None:
    for container, resource in usage:
        volume = "" if resource in _FIELDS else _volume_in(resource)
        if container:
            _check_name("a container", container, {each.name for each in _containers(pod)})
        if volume:
            own = {each.name for each in pod.spec.volumes if each.empty_dir is not None}
            _check_name("an emptyDir", volume, own)


def _check_name(what: str, name: str, own: set[str]) -> None:
    if name not in own:
        expected = ", ".join(sorted(own)) or "it has none"
        raise UsageError(f"expected {what} of the pod ({expected}), got {name!r}")


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.containers, *pod.spec.init_containers)


def _since(time: str | None, now: datetime) -> float:
    return max(now.timestamp() - seconds_of(time), 0.0) if time else 0.0


class _Reading:
    """The curves of a pod, evaluated at one time, or for the seconds after it."""

    def __init__(
        self, pod: Pod, curves: Curves, now: datetime, seed: int, ahead: float = 0.0
    ) -> None:
        self._pod = pod
        self._curves = curves
        self._now = now
        self._seed = seed
        self._ahead = ahead
        self._first = pod.spec.containers[0].name if pod.spec.containers else ""
        reported = (*pod.status.container_statuses, *pod.status.init_container_statuses)
        self._statuses = {status.name: status for status in reported}
        self._by_container: dict[str, dict[str, Curve]] = {}
        for (container, resource), curve in curves.items():
            if resource in _FIELDS:
                self._by_container.setdefault(container, {})[resource] = curve

    def whole(self) -> PodUsage:
        left = () if is_finished(self._pod) else self._pod.spec.volumes
        return PodUsage(
            tuple(map(self._container, _containers(self._pod))),
            tuple(self._volume(volume) for volume in left if volume.empty_dir is not None),
            tuple(
                self._dead_container(status.name, state.terminated)
                for status in self._statuses.values()
                for state in (status.state, status.last_state)
                if state.terminated is not None
            ),
        )

    def _container(self, container: Container) -> ContainerUsage:
        name = container.name
        status = self._statuses.get(name)
        if status is None or status.state.running is None or is_finished(self._pod):
            return ContainerUsage(name)
        started = status.state.running.started_at or self._pod.status.start_time
        seconds = _since(started, self._now)

        amounts = {
            _FIELDS[resource]: int(
                (10**9 if resource == "cpu" else 1)
                * self._read(name, resource, curve, seconds, self._ahead)
            )
            for resource, curve in self._container_curves(name).items()
        }
        return ContainerUsage(name, **amounts)

    def _container_curves(self, container: str) -> dict[str, Curve]:
        """Returns the curves of a container by resource."""
        mine = self._by_container.get(container, {})
        unnamed = self._by_container.get("", {}) if container == self._first else {}
        return unnamed | mine

    def _dead_container(self, name: str, ended: Terminated) -> DeadContainer:
        """Returns the disk usage that a container leaves when it ends."""
        started_at, finished_at = ended.started_at or "", ended.finished_at or ""
        if not started_at or not finished_at:
            return DeadContainer(name, finished_at)
        seconds = max(seconds_of(finished_at) - seconds_of(started_at), 0.0)
        rootfs, logs, inodes = (
            int(self._amount(name, resource, seconds))
            for resource in ("ephemeral-storage", "logs", "inodes")
        )
        return DeadContainer(name, finished_at, rootfs, logs, inodes)

    def _volume(self, volume: Volume) -> VolumeUsage:
        seconds = _since(self._pod.status.start_time, self._now)
        used, inodes = (
            int(self._amount("", f"volume.{volume.name}{part}", seconds, self._ahead))
            for part in ("", ".inodes")
        )
        in_memory = volume.empty_dir is not None and volume.empty_dir.medium == "Memory"
        return VolumeUsage(volume.name, used, inodes, in_memory)

    def _amount(self, container: str, resource: str, seconds: float, ahead: float = 0.0) -> float:
        curve = self._curves.get((container, resource))
        if curve is None and container == self._first:
            curve = self._curves.get(("", resource))
        return 0.0 if curve is None else self._read(container, resource, curve, seconds, ahead)

    def _read(
        self, container: str, resource: str, curve: Curve, seconds: float, ahead: float
    ) -> float:
        if ahead:
            return curve.most(seconds, ahead)
        return curve.at(seconds, lambda interval: self._draw(container, resource, interval))

    def _draw(self, container: str, resource: str, interval: int) -> float:
        metadata = self._pod.metadata
        place = f"{self._seed}/{metadata.namespace}/{metadata.name}/{container}/{resource}"
        digest = blake2b(f"{place}/{interval}".encode(), digest_size=7).digest()
        return int.from_bytes(digest) / (1 << 55) - 1.0

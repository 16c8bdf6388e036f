"""A whole cluster in one event loop: API server, controllers, kubelets and scheduler.

In a loop in virtual time a minute of the cluster takes about a millisecond, and the same seed gives
the same run. In any other loop it runs in real time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from math import inf
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from berth.actors.runtime.clock import Clock, SystemClock
from berth.actors.runtime.exceptions import ungrouped
from berth.config.feature_gates import with_defaults
from berth.config.options import Options
from berth.config.types import Duration
from berth.config.versions import CURRENT, emulated

from ..cluster.apiserver.namespace_controller import end_namespaces
from ..cluster.controllers.controller_manager import Plans
from ..cluster.controllers.embedded_access import EmbeddedAccess
from ..cluster.drivers.device_driver import PoolPublisher
from ..cluster.faults.fault_files import check_all
from ..cluster.faults.vocabulary import Fault, FaultPlace
from ..kubernetes.api.requests.field_managers import SERVER
from ..kubernetes.api.store import Store, StoreEvent
from ..kubernetes.api.time_and_chance import TimeAndChance
from ..kubernetes.api.types.releases import release_of
from ..kubernetes.api.types.resources import BY_KIND, KINDS, Kind
from ..kubernetes.api.writes.registry import Api
from ..kubernetes.work_items import Item
from .added_objects import check_json, manifests_of
from .builders import nodes as many_nodes
from .conditions import answer_of
from .configuration import (
    NO_ARGS,
    Args,
    Configuration,
    Plugins,
    configuration_of,
    refuse_text,
    with_plugins,
)
from .demo.creation import FIRST, needs_class, standard_class
from .devices.known_devices import Devices, pools
from .dumps import load_dump
from .first_writes import first_writes
from .garbage import SELDOM_COLLECTED
from .history import EVENT, PodHistory, PodLife
from .livelock import MANY_TRIES, MOST_TRIES, Tries
from .own_loop import OwnLoop, asked_anywhere
from .own_task import OwnTask
from .parts import Parts
from .pods import UNSAID, Pods, condition, why_pending
from .recorded_calls import PluginCall, RecordedCalls
from .virtual_time import BEGAN, LoopClock, VirtualLoop, loop_of_cluster

Document = dict[str, Any]
Objects = Document | Path | Devices | Iterable[Document]
Seconds = float | str
Observer = Callable[[Kind, StoreEvent], None]

# No timer of a scheduler, a controller or a kubelet that has work to do is longer, but those that
# objects set: a scheduler flushes pods that cannot be placed after five minutes, and a crashing
# container waits as long.
STILL_SECONDS = 330.0
STILL_REAL_SECONDS = 2.0
LOOKS = 0.05  # seconds between two looks at a condition
NAMESPACES, NODES = BY_KIND["v1", "Namespace"], BY_KIND["v1", "Node"]
CLASSES = BY_KIND["storage.k8s.io/v1", "StorageClass"]
CLAIMS = BY_KIND["resource.k8s.io/v1", "ResourceClaim"]
KINDS_BY_NAME = {kind.kind: kind for kind in KINDS if kind.stored_as is None}
_MOST_TOLD = 10


class NotReachedError(AssertionError):
    """A cluster did not come to what a test waited for; the message says what it was doing."""


class Livelock(NotReachedError):  # noqa: N818 - pods do it, and are named by it
    """A pod was tried again and again, and nothing came of it; the message says by which plugin."""


class Cluster:
    """A cluster for the duration of an `async with`.

    It has this many `nodes` (8 CPUs, 32Gi), and the `objects`: documents, or a path of manifests.
    It begins with what is in the `dump`, a file or a folder, with the status and the uids there.
    `config` is a KubeSchedulerConfiguration, as a mapping (its apiVersion and kind may be missing)
    or as a file; no leader is elected unless it says so. `version` is that of Kubernetes, "1.36" or
    "1.37". `plugins` are classes, which are enabled in every profile that does not name them, and
    `args` their arguments by name. Without a `scheduler`, `controllers`, `kubelets` or `drivers`,
    the test does their work. The `observers` are called with the kind and the event of each write,
    before it is done.

    `faults` lie between these parts and the API server from the beginning, and
    `cluster.faults.add(...)` adds others. The test's own calls meet none.

    It begins once, in asyncio's event loop; its methods may be used in the block alone.

    Raises ConfigError, RegistryError, FeatureGateError, TypeError or ValueError for what cannot be
    used, and RuntimeError without such a loop.
    """

    def __init__(
        self,
        *objects: Objects,
        nodes: int = 0,
        config: Configuration = None,
        feature_gates: Mapping[str, bool] | None = None,
        version: str = CURRENT.text,
        scheduler: bool = True,
        controllers: bool = True,
        kubelets: bool = True,
        drivers: bool = True,
        seed: int = 1,
        faults: Sequence[Fault] = (),
        dump: Path | None = None,
        observers: Sequence[Observer] = (),
        plugins: Plugins = (),
        args: Args = NO_ARGS,
    ) -> None:
        refuse_text(dump, "None")
        release = emulated(version)
        gates = with_defaults(feature_gates or {}, release)
        self._configuration = with_plugins(configuration_of(config, gates, plugins), plugins, args)
        self._calls = RecordedCalls()
        self._plugins = self._calls.recording(plugins)
        self._tries = Tries(self._calls)
        self._options = Options(feature_gates=gates, version=release)
        self._first: tuple[Objects, ...] = (many_nodes(nodes, zones=3), *objects)
        self._wanted = scheduler, controllers, kubelets
        self._has_drivers = drivers
        self._devices: list[Devices] = []
        self._publisher: PoolPublisher | None = None
        self._seed = seed
        check_all(faults, FaultPlace.SIMULATION)
        self._faults = faults
        self._dump = dump
        self._observers = observers
        self._stack = AsyncExitStack()
        self._life: OwnTask | None = None  # in real time
        self._has_begun = self._is_running = False
        self._clock: Clock = SystemClock()
        self._is_due: Callable[[str], bool] = lambda _: False
        self._plans: Plans = list
        self._sorted_out: tuple[int, dict[str, list[Document]]] = (0, {})  # events, by revision

    # ------------------------------------------------------------------------------ its beginning

    async def __aenter__(self) -> Self:
        loop = loop_of_cluster()
        if self._has_begun:
            raise RuntimeError("a cluster begins once: make another one")
        self._has_begun = True
        self.own_loop = OwnLoop(loop)
        self._is_virtual = isinstance(loop, VirtualLoop)
        if self._is_virtual:
            self._clock = LoopClock(loop)
        self._began = self._clock.now()
        self.history = PodHistory(lambda: self.now)
        chance = TimeAndChance(self._clock.wall, Random(self._seed))
        self.store = Store(chance, journal=self._note)
        self.store.release = release_of(self._options.version)
        self._fill()
        self.access = EmbeddedAccess(self.store)
        with ungrouped():  # of the task group, which would hide what cannot be used
            if self._is_virtual:
                self._stack = await self._begin()
            else:
                self._life = await self._stack.enter_async_context(OwnTask(self._living()))
        return self

    @asynccontextmanager
    async def _living(self) -> AsyncGenerator[None]:
        async with await self._begin():
            yield

    async def _begin(self) -> AsyncExitStack:
        async with AsyncExitStack() as stack:
            stack.enter_context(SELDOM_COLLECTED)
            for objects in self._first:
                await self.add(objects)
            group = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(group.cancel_scope.cancel)
            group.start_soon(end_namespaces, self.store)
            self.parts = self._parts_in(group)
            self.faults = self.parts.faults
            await self._start_parts()
            self._is_running = True
            if self._devices:
                await self._publish()
            return stack.pop_all()

    def _fill(self) -> None:
        """Makes the objects that the cluster begins with: of the dump, or of every cluster."""
        if self._dump is not None:
            load_dump(self.store, self._dump)
            self.history.begin(self.store)
        elif self._clock.wall() == BEGAN:
            for kind, event in first_writes(self.store.release):
                self.store.repeat(kind, event)
        else:
            Api(self.store, manager=SERVER).seed()

    def _note(self, kind: Kind, event: StoreEvent) -> None:
        for note in (self.history.note, *self._observers):
            note(kind, event)

    def _parts_in(self, group: TaskGroup) -> Parts:
        return Parts(self.store, self._faults, self._clock, self._seed, group)

    async def _start_parts(self) -> None:
        scheduler, controllers, kubelets = self._wanted
        if kubelets:
            self._is_due = await self.parts.start_kubelets()
        if controllers:
            self._plans = await self.parts.start_controllers()
        if scheduler:
            await self.parts.start_scheduler(
                self._configuration,
                self._options,
                plugins=self._plugins,
                observer=self._tries,
            )

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        try:
            return await self._stack.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if group.exceptions == (error,):  # it is the test's own, and no part has failed
                return False
            raise

    # ------------------------------------------------------------------------------------ objects

    async def add(self, *objects: Objects) -> None:
        """Creates objects: documents, lists of them, and paths of manifests or of folders.

        Namespaces that are missing are created, and a default storage class for claims without a
        class, as in a toy cluster. Of custom kinds, their definitions were added by earlier calls.
        Raises ApiError for what the API server refuses, ManifestError for what is no object, and
        TypeError for what JSON does not have.
        """
        added = self.store.catalog.added
        read = [manifests_of(self._plain(each), added) for each in objects]
        manifests = [manifest for each in read for manifest in each]
        if any(needs_class(each.document) for each in manifests) and not self.store.has(CLASSES):
            manifests += standard_class(manifests)
        for kind, document, _ in sorted(manifests, key=lambda each: each.kind.kind not in FIRST):
            namespace = document["metadata"].get("namespace") or "default"
            if kind.namespaced and self.store.find(NAMESPACES, "", namespace) is None:
                await self._send("POST", NAMESPACES.path(), {"metadata": {"name": namespace}})
            await self._send("POST", kind.path(namespace), document)
        if self._has_drivers and (offered := [each for each in objects if type(each) is Devices]):
            self._devices += offered
            if self._is_running:
                await self._publish()

    def _plain(self, objects: Objects) -> Document | Path | Iterable[Document]:
        """Returns objects without devices: of those the classes and, without drivers, the slices
        of the nodes that are there.
        """
        if not isinstance(objects, Devices):
            return objects
        return objects.classes if self._has_drivers else objects.on(self.all("Node"))

    async def _publish(self) -> None:
        """Makes the drivers publish all devices; starts them for the first."""
        if self._publisher is not None:
            self._publisher.changed()
            return
        self._publisher = await self.parts.start_drivers(partial(pools, self._devices))

    async def patch(
        self,
        kind: str,
        name: str,
        body: Document,
        namespace: str = "default",
        subresource: str = "",
    ) -> Document:
        """Applies a strategic merge patch, or to a custom kind a JSON merge patch, to an object or
        a subresource of it, such as status. Returns the object. Raises ApiError, and TypeError for
        what JSON does not have.
        """
        self.own_loop.check()
        patched = self._kind(kind)
        check_json(body, "body")
        path = f"{patched.path(namespace, name)}{'/' * bool(subresource)}{subresource}"
        way = "strategic" if patched.custom is None else "merge"
        return await self.access.patch(path, body, dict, way)

    async def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Deletes an object as kubectl does: what it owns follows. Raises ApiError."""
        path = self._kind(kind).path(namespace, name)
        await self._send("DELETE", path, {"propagationPolicy": "Background"})

    async def scale(
        self, kind: str, name: str, replicas: int, namespace: str = "default"
    ) -> Document:
        """Sets the replicas of a workload. Raises ApiError."""
        return await self.patch(kind, name, {"spec": {"replicas": replicas}}, namespace)

    async def evict(self, name: str, namespace: str = "default") -> None:
        """Evicts a pod as a drain does. Raises ApiError with 429 if a budget does not allow it."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        path = f"{self._kind('Pod').path(namespace, name)}/eviction"
        await self._send("POST", path, eviction)

    def _kind(self, name: str) -> Kind:
        """Returns the kind of a name such as Pod, or Kind.group for one of several groups. Raises
        LookupError.
        """
        if (kind := KINDS_BY_NAME.get(name)) is not None:
            return kind
        for kind in self.store.catalog.added:
            if name in (kind.kind, f"{kind.kind}.{kind.group}"):
                return kind
        raise LookupError(f"expected the name of a kind, such as Pod, got {name!r}")

    async def _send(self, method: str, path: str, body: Document) -> None:
        self.own_loop.check()
        await self.access.call(method, path, dict, body)

    @asked_anywhere
    def get(self, kind: str, name: str, namespace: str = "default") -> Document:
        """Returns an object, which must not be changed. Raises LookupError without it."""
        served = self._kind(kind)
        found = self.store.find(served, namespace if served.namespaced else "", name)
        if found is None:
            raise LookupError(f"expected {kind} {name}, got none")
        return found

    @asked_anywhere
    def all(self, kind: str, namespace: str = "") -> list[Document]:
        """Returns the objects of a kind, by default of all namespaces; not to be changed."""
        return [stored.document for stored in self.store.list(self._kind(kind), namespace)]

    # --------------------------------------------------------------------------------------- time

    @property
    def now(self) -> float:
        """The seconds since the cluster began."""
        return self._clock.now() - self._began

    async def run_for(self, time: Seconds) -> None:
        """Lets this time pass, in seconds or as "10m" or "1h30m". Raises ValueError for less than
        none, and for one without an end.
        """
        self._check()
        seconds = _seconds(time)
        if seconds == inf:
            raise ValueError(f"expected 0 seconds or more, got {time!r}, which has no end")
        await self._sleep(seconds)

    async def until(self, condition: Callable[[], object], limit: Seconds = "10m") -> None:
        """Runs until a condition holds. Raises NotReachedError after the limit, and TypeError for
        one whose answer is a coroutine or a method.
        """
        self._check()
        ends = self.now + _seconds(limit)
        while not (found := answer_of(condition)):
            if self.now >= ends:
                shown = f": {found}" if found is not None and found is not False else ""
                raise NotReachedError(f"not reached after {limit}{shown}\n{self.report()}")
            await self._sleep(LOOKS)

    async def settled(self, limit: Seconds = "1h", still: Seconds | None = None) -> None:
        """Runs until nothing is left to do: nothing but leases, heartbeats and events was written
        for a time that is longer than the timers of all parts, and no kubelet has work at a time
        to come. Timers that objects set, such as ttlSecondsAfterFinished, may be longer: `still`
        sets another time. In real time it is two seconds.

        Raises NotReachedError if the cluster has not settled within the limit, and Livelock if a
        pod was tried a thousand times meanwhile, or a hundred times in the end.
        """
        self._check()
        self._tries.begin()
        usual = STILL_SECONDS if self._is_virtual else STILL_REAL_SECONDS
        quiet, began = usual if still is None else _seconds(still), self.now
        ends = began + _seconds(limit)
        while True:
            rests_at = max(self.history.moved, began) + quiet
            rests, late = self.now >= rests_at and not self._has_work(), self.now >= ends
            if story := self._tries.story(MANY_TRIES if rests or late else MOST_TRIES):
                raise Livelock(f"{story}\n{self.report()}")
            if rests:
                return
            if late:
                raise NotReachedError(f"not settled after {limit}\n{self.report()}")
            wait = rests_at - self.now if rests_at > self.now else quiet
            await self._tries.sleep(min(wait, ends - self.now) or LOOKS)
            self._check()

    def _check(self) -> None:
        """Raises RuntimeError in another loop, and what a part of the cluster has raised."""
        self.own_loop.check()
        if self._life is not None:
            self._life.check()

    async def _sleep(self, seconds: float) -> None:
        if self._life is None:
            await anyio.sleep(seconds)
        else:
            await self._life.sleep(seconds)

    def _has_work(self) -> bool:
        return any(
            life.gone is None
            and ("deletionTimestamp" in life.document["metadata"] or self._is_due(uid))
            for uid, life in self.history.lives.items()
        )

    # -------------------------------------------------------------------------------- its answers

    def pod(self, name: str, namespace: str = "default") -> Pods:
        """Returns the pod of this name, or else the pods of the workload of this name. Each
        question to it looks anew.
        """
        return Pods(partial(self._named, name, namespace), self._events_about)

    @asked_anywhere
    def _named(self, name: str, namespace: str) -> tuple[str, list[PodLife]]:
        lives = self.history.in_namespace(namespace)
        if named := [life for life in lives if life.name == name]:
            return f"pod {name}", named
        owned = [life for life in lives if name in self.history.owners(life)]
        return f"pods of {name}", owned

    def pods(self, namespace: str = "default", **labels: str) -> Pods:
        """Returns the pods of a namespace with these labels."""
        return Pods(partial(self._labelled, namespace, labels), self._events_about)

    @asked_anywhere
    def _labelled(self, namespace: str, labels: Document) -> tuple[str, list[PodLife]]:
        told = ", ".join(f"{key}={value}" for key, value in labels.items())
        return f"pods with {told}" if told else f"pods in {namespace}", [
            life
            for life in self.history.in_namespace(namespace)
            if labels.items() <= (life.document["metadata"].get("labels") or {}).items()
        ]

    @asked_anywhere
    def devices_of(self, name: str, namespace: str = "default") -> list[str]:
        """Returns the devices that the claims of a pod were given, as pool/device. Raises
        LookupError without the pod.
        """
        pod = self.get("Pod", name, namespace)
        statuses = pod.get("status", {}).get("resourceClaimStatuses") or ()
        made = {each["name"]: each.get("resourceClaimName") for each in statuses}
        claims = [
            self.store.find(CLAIMS, namespace, claim)
            for each in pod["spec"].get("resourceClaims") or ()
            if (claim := each.get("resourceClaimName") or made.get(each["name"]))
        ]
        allocations = [(each or {}).get("status", {}).get("allocation") or {} for each in claims]
        return sorted(
            f"{result['pool']}/{result['device']}"
            for allocation in allocations
            for result in allocation.get("devices", {}).get("results") or ()
        )

    @asked_anywhere
    def calls(self, plugin: str, method: str) -> list[PluginCall]:
        """Returns the calls of a method of a plugin that this cluster was given, oldest first."""
        return self._calls.of(plugin, method)

    @asked_anywhere
    def events(self, reason: str = "") -> list[str]:
        """Returns the events, oldest first, as "Kind/name Reason: message"; those of one reason
        if it is given.
        """
        return [
            f"{event['involvedObject']['kind']}/{event['involvedObject']['name']} {_told(event)}"
            for event in self._all_events()
            if reason in ("", event.get("reason"))
        ]

    @asked_anywhere
    def report(self) -> str:
        """Returns the cluster in a few lines: nodes, pods that do not run, what controllers work
        on, the last writes, and the last events.
        """
        lines = [f"the cluster after {self.now:g} s:"]
        lines += _cut([self._node_line(node) for node in self.all("Node")])
        idle = (life for life in self.history.lives.values() if life.gone is None)
        lines += _cut([line for life in idle if (line := self._pod_line(life))])
        lines += _cut(
            [_plan_line(item, seconds) for item, seconds in self._plans() if item.kind != "Node"]
        )
        lines += [f"  write: {self.now - at:.1f} s ago: {what}" for at, what in self.history.last()]
        lines += [f"  event: {text}" for text in self.events()[-_MOST_TOLD:]]
        return "\n".join(lines)

    def _pod_line(self, life: PodLife) -> str:
        """Returns a line about a pod that does not run; "" for one that does or has finished."""
        document, name = life.document, f"  pod {life.namespace}/{life.name}:"
        status = document.get("status") or {}
        node = document["spec"].get("nodeName")
        if "deletionTimestamp" in document["metadata"]:
            return f"{name} is being deleted, on {node or 'no node'}"
        if status.get("phase") in ("Succeeded", "Failed"):
            return ""
        if not node:
            attempts = self._attempts_for(life)
            tried = f" after {attempts} attempt{'s' * (attempts > 1)}" if attempts else ""
            return f"{name} is pending{tried}: {why_pending(document) or UNSAID}"
        acts = ", its kubelet acts later" if self._is_due(document["metadata"]["uid"]) else ""
        return (
            ""
            if condition(document, "Ready") == "True"
            else f"{name} is not ready, on {node}{acts}"
        )

    def _attempts_for(self, life: PodLife) -> int:
        """Returns how many attempts for a pod have failed, as events count them."""
        return sum(
            (event.get("series") or {}).get("count") or event.get("count") or 1
            for event in self._events_of(life)
            if event.get("reason") == "FailedScheduling"
        )

    def _node_line(self, node: Document) -> str:
        name = node["metadata"]["name"]
        held = sum(
            life.gone is None and life.document["spec"].get("nodeName") == name
            for life in self.history.lives.values()
        )
        ready = "" if condition(node, "Ready") == "True" else ", not ready"
        taints = [taint["key"] for taint in (node.get("spec") or {}).get("taints") or ()]
        tainted = f", tainted {', '.join(taints)}" if taints else ""
        return f"  node {name}: {held} pods{ready}{tainted}"

    @asked_anywhere
    def _events_about(self, life: PodLife) -> list[str]:
        return [_told(event) for event in self._events_of(life)]

    def _events_of(self, life: PodLife) -> list[Document]:
        """Returns the events about a pod, oldest first; those of all are sorted out at once."""
        latest = self.store.latest(EVENT)
        if self._sorted_out[0] != latest:
            by_uid: dict[str, list[Document]] = {}
            for event in self._all_events():
                by_uid.setdefault(event["involvedObject"].get("uid", ""), []).append(event)
            self._sorted_out = latest, by_uid
        return self._sorted_out[1].get(life.document["metadata"]["uid"], [])

    def _all_events(self) -> list[Document]:
        stored = sorted(self.store.list(EVENT), key=lambda each: each.revision)
        return [each.document for each in stored]


def _seconds(time: Seconds) -> float:
    """Returns a time in seconds. Raises ValueError for one that is negative, and for a text that is
    no duration, and TypeError for what is no time.
    """
    given: object = time
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise TypeError(f"expected seconds, or a duration such as 15s, got {given!r:.80}")
    seconds = float(Duration.parse(given) if isinstance(given, str) else given)
    if not seconds >= 0:
        raise ValueError(f"expected 0 seconds or more, got {given!r}")
    return seconds


def _told(event: Document) -> str:
    return f"{event.get('reason')}: {event.get('message')}"


def _plan_line(item: Item, seconds: float) -> str:
    when = f"looks at it again in {seconds:.1f} s" if seconds else "works on it"
    return f"  {item.kind} {item.namespace}/{item.name}: the controller {item.controller} {when}"


def _cut(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_TOLD
    return lines if more <= 0 else [*lines[:_MOST_TOLD], f"  and {more} more"]

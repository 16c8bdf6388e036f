"""Carries out the operations of a workload one after another, as scheduler_perf does.

A createPods waits for its pods unless it says otherwise; a barrier waits for those that no
operation has waited for. A wait without progress ends the workload with an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count, islice
from random import Random
from typing import TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup

from berth.actors.scheduling.kube.core import Pod
from berth.config.feature_gates import GATES, NOT_IMPLEMENTED

from ..kubernetes.api.types.resources import Kind
from . import device_objects, objects
from .measure import Meter, Result
from .opcodes import (
    AllocResourceClaims,
    Barrier,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreatePodSets,
    CreateResourceClaims,
    CreateResourceDriver,
    DeletePods,
    Operation,
    Sleep,
    StartCollectingMetrics,
    StartCollectingProfile,
    StopCollectingMetrics,
    StopCollectingProfile,
    UpdateAny,
    seconds,
)
from .pod_counts import PodTracker
from .pod_waits import POLL_SECONDS, StalledError, UnsupportedError, Waiting, ticks
from .templates import Document, Template, Value
from .window import Window
from .workload import WorkloadRun
from .workload_cluster import ClusterError, ExistsError, WorkloadCluster

# The gates that a workload may turn on.
ACCEPTED = GATES.keys() - NOT_IMPLEMENTED
CHURN_SECONDS = 0.5
MOST_PREPARED = 64
T = TypeVar("T")
Report = Callable[
    [str, int, int], None
]  # called with the step, the number of bound pods and the number of all pods


class Executor:
    """A run of a workload. `stall` is the longest wait without progress, in seconds."""

    def __init__(
        self,
        run: WorkloadRun,
        cluster: WorkloadCluster,
        pods: PodTracker,
        meter: Meter,
        stall: float,
        report: Report,
    ) -> None:
        self._run = run
        self._cluster = cluster
        self._pods = pods
        self._meter = meter
        self._waiting = Waiting(pods, stall)
        self._report = report
        self._rng = Random(0)
        self._serial = count()
        self._templates: dict[str, Template] = {}
        self._namespaces: set[str] = set()
        self._classes: dict[int, str] = {}
        self._prepared: dict[int, tuple[Document, Document]] = {}
        self._for_barrier: dict[str, int] = {}  # pods that a barrier must wait for, by namespace
        self._bound: dict[str, int] = {}  # pods that their own operations waited for
        self._window: Window | None = None
        self._results: list[Result] = []
        self._group: TaskGroup | None = None
        self._expected = sum(map(_pods_of, run.operations))
        self._step = ""

    async def run(self) -> list[Result]:
        """Carries out the operations. Raises UnsupportedError, StalledError, ClusterError,
        TemplateError or WorkloadError.
        """
        unknown = [
            gate for gate, on in self._run.feature_gates.items() if on and gate not in ACCEPTED
        ]
        if unknown:
            raise UnsupportedError(f"feature gate {unknown[0]}")
        async with anyio.create_task_group() as group:
            self._group = group
            for index, operation in enumerate(self._run.operations):
                opcode = str(operation.__struct_config__.tag)
                self._step = f"{opcode} ({index + 1} of {len(self._run.operations)})"
                self._report_progress()
                await self._carry_out(index, operation)
            self._step = "done"
            self._report_progress()
            group.cancel_scope.cancel()
        return self._results

    async def _carry_out(self, index: int, operation: Operation) -> None:
        match operation:
            case CreateNodes():
                await self._create_nodes(operation)
            case CreateNamespaces():
                await self._create_namespaces(operation)
            case CreatePods():
                await self._create_pods(operation, operation.namespace or f"namespace-{index}")
            case CreatePodSets():
                await self._create_pod_sets(operation)
            case CreateAny():
                await self._create_any(operation)
            case UpdateAny():
                await self._update_any(operation)
            case DeletePods():
                await self._delete_pods(operation)
            case Churn():
                await self._churn(operation, operation.namespace or f"namespace-{index}")
            case Barrier():
                await self._barrier(operation)
            case Sleep():
                await anyio.sleep(seconds(operation.duration))
            case StartCollectingMetrics():
                await self._open_window(
                    operation.name, operation.namespaces, operation.label_selector
                )
            case StopCollectingMetrics():
                await self._close_window()
            case CreateResourceDriver() | CreateResourceClaims() | AllocResourceClaims():
                await self._prepare_devices(operation)
            case StartCollectingProfile() | StopCollectingProfile():
                pass  # --profile profiles every window
            case _:
                raise UnsupportedError(f"operation {operation.__struct_config__.tag}")

    # -------------------------------------------------------------------------------------- objects

    async def _create_nodes(self, operation: CreateNodes) -> None:
        template = self._template(operation.node_template_path, objects.BASE_NODE)

        async def create(index: int) -> None:
            metadata = template.document(
                {**operation.template_params, "Index": index, "Count": operation.count}
            )
            name = self._name(metadata)
            document = objects.node(operation, template, index, {"name": name})
            limits = objects.csi_node(operation, name)
            if limits is not None:
                await self._cluster.create(objects.CSI_NODES, "", name, limits)
            await self._cluster.create(objects.NODES, "", name, document)

        await self._each(range(operation.count), create)

    async def _create_namespaces(self, operation: CreateNamespaces) -> None:
        base = objects.NAMESPACE
        if operation.namespace_template_path:
            base = self._template(operation.namespace_template_path).document({})
        for number in range(operation.count):
            await self._namespace(f"{operation.prefix}-{number}", base)

    async def _namespace(self, name: str, document: Document | None = None) -> None:
        if name not in self._namespaces:
            self._namespaces.add(name)
            with suppress(ExistsError):
                await self._cluster.create(
                    objects.NAMESPACES, "", name, document or objects.NAMESPACE
                )

    async def _create_any(self, operation: CreateAny) -> None:
        if operation.namespace:
            await self._namespace(operation.namespace)
        template = self._template(operation.template_path)
        total = 1 if operation.count is None else operation.count
        for index in range(total):
            document = template.document(
                {**operation.template_params, "Index": index, "Count": total}
            )
            if not objects.is_unread(document):
                await self._create(document, operation.namespace)

    async def _update_any(self, operation: UpdateAny) -> None:
        template = self._template(operation.template_path)
        total = 1 if operation.count is None else operation.count
        pace = ticks(1 / operation.update_per_second if operation.update_per_second else 0.0)
        for index in range(total):
            await anext(pace)
            document = template.document(
                {**operation.template_params, "Index": index, "Count": total}
            )
            kind, document = objects.served(document)
            document = await self._with_class(document) if kind == objects.PODS else document
            name = (document.get("metadata") or {}).get("name", "")
            await self._cluster.update(
                kind, operation.namespace, name, document, operation.subresources
            )
        await pace.aclose()

    async def _create(self, document: Document, namespace: str) -> tuple[Kind, str, str]:
        """Creates an object of any kind; returns its kind, namespace and name."""
        kind, document = objects.served(document)
        document = await self._with_class(document) if kind == objects.PODS else document
        where, name = namespace if kind.namespaced else "", self._name(document)
        await self._cluster.create(kind, where, name, document)
        return kind, where, name

    async def _with_class(self, pod: Document) -> Document:
        """Returns the pod with its bare priority replaced by a priority class."""
        cached = self._prepared.get(id(pod))
        if cached is not None and cached[0] is pod:
            return cached[1]
        changed, value = pod, (pod.get("spec") or {}).get("priority")
        if value is not None:
            if value not in self._classes:
                self._classes[value], definition = objects.priority_class(value)
                with suppress(ExistsError):
                    await self._cluster.create(
                        objects.CLASSES, "", self._classes[value], definition
                    )
            spec = {key: field for key, field in pod["spec"].items() if key != "priority"}
            changed = {**pod, "spec": {**spec, "priorityClassName": self._classes[value]}}
        if len(self._prepared) == MOST_PREPARED:
            self._prepared.clear()
        self._prepared[id(pod)] = (pod, changed)
        return changed

    async def _prepare_devices(
        self, operation: CreateResourceDriver | CreateResourceClaims | AllocResourceClaims
    ) -> None:
        match operation:
            case CreateResourceDriver():
                await device_objects.publish(self._cluster, operation)
                await self._cluster.delivered()
            case CreateResourceClaims(namespace=namespace, template_path=path, count=total):
                await self._namespace(namespace)
                document = self._template(path).document({})  # a pod set has no parameters
                await self._each(range(total), lambda _: self._create(document, namespace))
            case AllocResourceClaims(namespace=namespace):
                await device_objects.allocate(self._cluster, namespace, self._rng)

    # ----------------------------------------------------------------------------------------- pods

    async def _create_pod_sets(self, operation: CreatePodSets) -> None:
        for number in range(operation.count):
            namespace = f"{operation.namespace_prefix}-{number}"
            await self._create_pods(operation.create_pods_op, namespace)

    async def _create_pods(self, operation: CreatePods, namespace: str) -> None:
        await self._namespace(namespace)
        if operation.collect_metrics:
            await self._open_window(namespace, [namespace], {})
        make = self._pod_maker(operation, namespace)
        if operation.steady_state:
            await self._create_in_turns(operation, namespace, make)
        else:
            await self._each(range(operation.count), make)
            if operation.skip_wait_to_completion:
                self._for_barrier[namespace] = self._for_barrier.get(namespace, 0) + operation.count
            else:
                await self._until_bound(namespace, operation.count)
        if operation.collect_metrics:
            await self._close_window()

    def _pod_maker(self, operation: CreatePods, namespace: str) -> Callable[[int], Awaitable[None]]:
        path = operation.pod_template_path or self._run.default_pod_template
        template = self._template(path, objects.BASE_POD)
        claim_path = operation.persistent_volume_claim_template_path
        claim = self._template(claim_path).document({}) if claim_path else None
        volume_path = operation.persistent_volume_template_path
        volume = self._template(volume_path).document({}) if volume_path else {}

        async def make(index: int) -> None:
            values: dict[str, Value] = {
                **operation.template_params,
                "Index": index,
                "Count": operation.count,
            }
            pod = await self._with_class(template.document(values))
            if operation.signature_batch_size:
                metadata = pod.get("metadata") or {}
                signature = {
                    "signature": f"signature-label-{index // operation.signature_batch_size}"
                }
                labels = {**(metadata.get("labels") or {}), **signature}
                pod = {**pod, "metadata": {**metadata, "labels": labels}}
            if claim is not None:
                for kind, where, name, document in objects.volume_and_claim(
                    volume, claim, namespace, index
                ):
                    await self._cluster.create(kind, where, name, document)
                pod = objects.with_claim(pod, index)
            await self._cluster.create(objects.PODS, namespace, self._name(pod), pod)

        return make

    async def _create_in_turns(
        self, operation: CreatePods, namespace: str, make: Callable[[int], Awaitable[None]]
    ) -> None:
        """Creates a batch of pods; once all are bound, deletes them and creates the next batch."""
        placed, goal, arrived = 0, operation.count, anyio.Event()

        def note(pod: Pod) -> None:
            nonlocal placed
            placed += pod.metadata.namespace == namespace
            if placed >= goal:
                arrived.set()

        async def delete(name: str) -> None:
            await self._cluster.delete(objects.PODS, namespace, name, grace=0)

        self._pods.on_bound.append(note)
        serial = count()
        with anyio.move_on_after(seconds(operation.duration)):
            while True:
                await self._each(islice(serial, operation.count), make)
                while placed < goal:
                    with anyio.move_on_after(POLL_SECONDS):
                        await arrived.wait()
                    self._report_progress()
                goal, arrived = goal + operation.count, anyio.Event()
                await self._each(self._pods.names(namespace, {}), delete)
        self._pods.on_bound.remove(note)
        if not placed:
            raise StalledError(
                f"stalled: no pod was placed in {operation.duration}: {self._pods.why([namespace])}"
            )

    async def _delete_pods(self, operation: DeletePods) -> None:
        names = self._pods.names(operation.namespace, operation.label_selector)

        async def delete() -> None:
            pace = ticks(
                1 / operation.delete_pods_per_second if operation.delete_pods_per_second else 0.0
            )
            for name in names:
                await anext(pace)
                await self._cluster.delete(objects.PODS, operation.namespace, name)
            await pace.aclose()

        if operation.skip_wait_to_completion:
            assert self._group is not None
            self._group.start_soon(delete)
        else:
            await delete()

    async def _churn(self, operation: Churn, namespace: str) -> None:
        await self._namespace(namespace)
        documents = [self._template(path).document({}) for path in operation.template_paths]
        interval = operation.interval_milliseconds / 1000 or CHURN_SECONDS

        async def create() -> None:
            pace = ticks(interval)
            for _ in range(operation.number) if operation.number else count():
                await anext(pace)
                for document in documents:
                    await self._create(document, namespace)

        async def recreate() -> None:
            """Creates an object in each place in one round, and deletes it in the next."""
            places: list[list[tuple[Kind, str, str] | None]] = [
                [None] * operation.number for _ in documents
            ]
            pace = ticks(interval)
            for turn in count():
                await anext(pace)
                for document, place in zip(documents, places, strict=True):
                    there = place[turn % operation.number]
                    if there is None:
                        place[turn % operation.number] = await self._create(document, namespace)
                    else:
                        await self._cluster.delete(*there)
                        place[turn % operation.number] = None

        assert self._group is not None
        self._group.start_soon(create if operation.mode == "create" else recreate)

    # -------------------------------------------------------------------------------------- waiting

    async def _barrier(self, operation: Barrier) -> None:
        unknown = [name for name in operation.namespaces if name not in self._namespaces]
        if unknown:
            raise ClusterError(f"barrier: namespaces: {unknown[0]} is not one of this workload's")
        names = operation.namespaces or list(self._for_barrier)
        numbers = {name: self._for_barrier.get(name, 0) for name in names}
        attempted = operation.stage_requirement == "Attempted"

        def have(namespace: str) -> int:
            tally = self._pods.tally(namespace, operation.label_selector)
            return min(tally.bound + (tally.attempted if attempted else 0), numbers[namespace])

        await self._waiting.until(
            numbers, have, "tried" if attempted else "placed", self._step, self._report_progress
        )
        if not attempted:
            for name in names:
                self._for_barrier.pop(name, None)

    async def _until_bound(self, namespace: str, number: int) -> None:
        """Waits for the pods of an operation.

        Earlier pods of the namespace do not count again. In scheduler_perf they do, so that its
        next measurement begins with a backlog.
        """
        goal = self._bound[namespace] = self._bound.get(namespace, 0) + number

        def have(namespace: str) -> int:
            return min(max(number - (goal - self._pods.ever_bound[namespace]), 0), number)

        await self._waiting.until(
            {namespace: number}, have, "placed", self._step, self._report_progress
        )

    async def _open_window(
        self, name: str, namespaces: Sequence[str], selector: Mapping[str, str]
    ) -> None:
        if self._window is not None:
            raise ClusterError(f"{self._step}: metrics are already being collected")
        await self._meter.start()
        self._window = Window(name, namespaces, selector, self._pods)

    async def _close_window(self) -> None:
        if self._window is None:
            raise ClusterError(f"{self._step}: no metrics are being collected")
        result = await self._window.close(self._run, self._meter)
        if self._results:
            result = msgspec.structs.replace(result, name=f"{result.name}/{self._window.name}")
        self._results.append(result)
        self._window = None

    # -------------------------------------------------------------------------------------- details

    def _report_progress(self) -> None:
        self._report(self._step, self._pods.ever_bound.total(), self._expected)

    def _template(self, path: str, otherwise: str = "") -> Template:
        key = path or otherwise
        if key not in self._templates:
            read = (
                Template.read(self._run.folder / path) if path else Template("built in", otherwise)
            )
            self._templates[key] = read
        return self._templates[key]

    def _name(self, document: Document) -> str:
        """Returns the object's name, made unique here if it has only a generateName."""
        metadata = document.get("metadata") or {}
        return str(
            metadata.get("name") or f"{metadata.get('generateName', 'bench-')}{next(self._serial)}"
        )

    async def _each(self, items: Iterable[T], work: Callable[[T], Awaitable[object]]) -> None:
        """Runs as many calls at a time as the cluster allows, and lets other tasks run too."""
        waiting = iter(items)

        async def worker() -> None:
            for done, item in enumerate(waiting, 1):
                await work(item)
                if not done % 100:
                    self._report_progress()
                    await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            for _ in range(self._cluster.parallel):
                group.start_soon(worker)


def _pods_of(operation: Operation) -> int:
    match operation:
        case CreatePods():
            return operation.count
        case CreatePodSets():
            return operation.count * operation.create_pods_op.count
        case _:
            return 0

"""Plays stages: waits for the end of the stage of a pod or node, and performs its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from math import inf
from typing import Protocol, assert_never

from anyio.abc import TaskGroup

from berth.actors.runtime.backoff import Rng
from berth.actors.runtime.clock import Clock
from berth.actors.runtime.workers import Line, Workers
from berth.actors.scheduling.framework.logger import get_logger
from berth.actors.scheduling.kube.times import rfc3339

from ...kubernetes.kubelet.container_events import Allowance
from ...kubernetes.kubelet.stages.actions import (
    Action,
    DeleteObject,
    PatchObject,
    PostHeartbeat,
    RecordEvent,
    actions_of,
)
from ...kubernetes.kubelet.stages.go_builtins import Functions
from ...kubernetes.kubelet.stages.lives import Due, Lives, uid_of, version_of
from ...kubernetes.kubelet.stages.stage import Stage, StageError
from ...kubernetes.objects.structs import Document
from ..controllers.alarm import Alarm
from .write_retries import AT_ONCE, PATCHES, RETRY_SECONDS, ConflictError, Writer

log = get_logger(__name__)
MOST_REPORTED = 100  # problems of stages
LEAST_SECONDS = 0.001  # times of the day have no finer steps that all clocks agree on


class Steps(Protocol):
    """The steps in Python for the objects of one kind. Times are seconds of the epoch."""

    def due(self, step: str, document: Document, since: float) -> float | None:
        """Returns when a step is due for an object that has not changed since a time.

        Returns infinity if only changes of other objects make it due, None if it is never due.
        """
        ...

    def run(self, step: str, document: Document, now: float) -> Iterator[Action]:
        """Yields the actions of a step."""
        ...

    def functions(self, document: Document, now: float) -> Functions:
        """Returns the functions of templates that depend on the object or the time."""
        ...


class Player:
    """The stages of the pods or of the nodes."""

    def __init__(
        self,
        stages: Sequence[Stage],
        steps: Steps,
        writer: Writer,
        clock: Clock,
        rng: Rng,
        group: TaskGroup,
    ) -> None:
        self._steps = steps
        self._lives = Lives(stages, rng, steps.due)
        self._writer = writer
        self._clock = clock
        self._due = Line[Due]()
        self._workers = Workers(group, self._due, self._carry_out, inf, most_idle=AT_ONCE)
        self._events = Allowance()
        self._alarm = Alarm(
            group, clock.sleep, self._now, self._next_due, self._start_due, LEAST_SECONDS
        )
        self._reported: set[str] = set()

    def put(self, document: Document) -> None:
        self._lives.put(document, self._now())
        self._play()

    def replace(self, documents: Iterable[Document]) -> None:
        """Takes over all existing objects, after a list."""
        self._lives.replace(documents, self._now())
        self._play()

    def remove(self, uid: str) -> None:
        self._lives.remove(uid)

    def wake(self, uid: str) -> None:
        self._lives.wake(uid)
        self._play()

    def get(self, uid: str) -> Document | None:
        """Returns the latest version of an object that waits."""
        return self._lives.get(uid)

    def is_due(self, uid: str) -> bool:
        """True if the next step of an object comes at a known time, even if no object changes."""
        return self._lives.is_due(uid)

    def _now(self) -> float:
        return self._clock.wall().timestamp()

    def _play(self) -> None:
        """Starts the steps of the stages that are over, and sets the alarm for the next one."""
        self._start_due()
        self._alarm.set()

    def _next_due(self) -> float:
        due = self._lives.next_due()
        return inf if due is None else due

    def _start_due(self, _: float = 0.0) -> None:
        for due in self._lives.take_due(self._now()):
            self._due.append(due)
            self._workers.wake()

    async def _carry_out(self, due: Due) -> None:
        document = due.document
        latest, refused, deleted = document, False, False
        now = self._now()
        try:
            actions = list(
                actions_of(
                    due.stage,
                    document,
                    lambda: self._steps.functions(document, now),
                    lambda step: self._steps.run(step, document, now),
                )
            )
        except StageError as problem:
            self._report(document, str(problem))
            actions = []
        again = False
        try:
            for action in actions:
                answer = await self._act(action, latest)
                if isinstance(action, PatchObject | PostHeartbeat):
                    if answer is None:
                        refused = True
                        break
                    latest = answer
                elif isinstance(action, DeleteObject):
                    deleted = answer is not None
        except ConflictError:
            refused, again = True, await self._has_read_again(document)
        if deleted:
            self._lives.remove(uid_of(document))  # finalizers may keep it; then the watch says so
        else:
            self._lives.ended(document, None if refused else latest, self._now(), again)
        self._play()

    async def _has_read_again(self, document: Document) -> bool:
        """Reads an object again after a conflict, unless the watch has brought a newer version.
        Returns True if it still exists. If it has not changed, a moment has passed.
        """
        uid = uid_of(document)
        known = self._lives.get(uid)
        if known is None or version_of(known) > version_of(document):
            return known is not None
        present = await self._writer.read(path_of(document))
        if present is None or uid_of(present) != uid:
            return False
        self._lives.put(present, self._now())
        if version_of(present) == version_of(document):
            await self._clock.sleep(RETRY_SECONDS)
        return True

    async def _act(self, action: Action, document: Document) -> Document | None:
        path = path_of(document)
        match action:
            case PostHeartbeat(conditions, time):
                return await self._writer.heartbeat(document, conditions, time)
            case PatchObject(body, subresource, type_):
                if type_ != "json":
                    version = {"resourceVersion": document["metadata"]["resourceVersion"]}
                    body = {**body, "metadata": {**body.get("metadata", {}), **version}}
                target = f"{path}/{subresource}" if subresource else path
                return await self._writer.change("PATCH", target, body, PATCHES[type_])
            case DeleteObject():
                uid = document["metadata"]["uid"]
                options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
                return await self._writer.change("DELETE", path, options)
            case RecordEvent():
                if not self._events.take(self._now()):
                    return None
                namespace = document["metadata"].get("namespace", "default")
                event = event_about(document, action, self._clock.wall())
                return await self._writer.send(
                    "POST", f"/api/v1/namespaces/{namespace}/events", event
                )
            case _:
                assert_never(action)

    def _report(self, document: Document, problem: str) -> None:
        """Warns once of each problem of a stage."""
        if problem not in self._reported and len(self._reported) < MOST_REPORTED:
            self._reported.add(problem)
            log.warning("stage not played", object=path_of(document), error=problem)


def path_of(document: Document) -> str:
    """Returns the path of a pod or node."""
    metadata = document["metadata"]
    if "namespace" in metadata:
        return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    return f"/api/v1/nodes/{metadata['name']}"


def event_about(document: Document, event: RecordEvent, now: datetime) -> Document:
    """Returns an event of the kubelet about a pod or node."""
    metadata = document["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace")
    host = document["spec"].get("nodeName", "") if namespace else name
    about = {"apiVersion": "v1", "kind": "Pod" if namespace else "Node", "name": name}
    about |= {"namespace": namespace} if namespace else {}
    about |= {"fieldPath": event.field} if event.field else {}
    time = rfc3339(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace or "default", "generateName": f"{name}-"},
        "involvedObject": {**about, "uid": metadata["uid"]},
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": "kubelet", "host": host},
        "reportingComponent": "kubelet",
        "reportingInstance": host,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }

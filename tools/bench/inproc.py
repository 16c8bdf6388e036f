"""A cluster in the scheduler's own process, which passes typed objects without HTTP and JSON.

Only the cost of scheduling remains: to create, deliver and bind a pod takes 9 us of 210 us in all,
and would take 70 to 110 us on the embedded API server without HTTP. The API server's rules that a
scheduler can notice apply: defaults and admission of pods, refused bindings, grace periods and
finalizers, a new version for every write. Objects that the scheduler does not follow are in the
embedded API server's own store. Events are accepted and dropped.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import anyio
import msgspec

from berth.actors.client.access import (
    Calls,
    Source,
)
from berth.actors.client.rest import (
    CONTENT_TYPES,
    ApiError,
)
from berth.actors.client.tenure import Tenure
from berth.actors.client.watch import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    WatchUpdate,
)
from berth.actors.runtime.bell import Bell
from berth.actors.scheduling.kube.core import (
    FINISHED,
    Pod,
    PodCondition,
)
from berth.actors.scheduling.kube.devices import ResourceClaim
from berth.actors.scheduling.kube.kinds import BY_KIND as FOLLOWED
from berth.actors.scheduling.kube.kinds import NOT_FINISHED
from berth.actors.scheduling.kube.meta import (
    HasMetadata,
    ObjectMeta,
)
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.scheduling.kube.times import time_of

from ..cluster.apiserver.this_machine import this_machine
from ..kubernetes.api.requests.request_bodies import DeleteOptions
from ..kubernetes.api.requests.request_targets import target_of
from ..kubernetes.api.store import Store
from ..kubernetes.api.types.api_documents import RefusedError
from ..kubernetes.api.types.defaults import defaulted
from ..kubernetes.api.types.resources import BY_KIND, Kind
from ..kubernetes.api.writes.admission import admitted_pod
from ..kubernetes.api.writes.patch import patched_document
from ..kubernetes.api.writes.registry import Api
from .claim_objects import ClaimTemplates, shared_claims, with_claims, without_reservation
from .pod_counts import PodTracker
from .templates import Document
from .workload_cluster import ClusterError, ExistsError

T = TypeVar("T")
Kept = TypeVar("Kept", bound=HasMetadata)
Key = tuple[str, str]
MOST_PROTOTYPES = 64  # of templates without actions; others never give the same document twice
PODS, EVENTS = BY_KIND["v1", "Pod"], BY_KIND["events.k8s.io/v1", "Event"]
CLAIMS = BY_KIND["resource.k8s.io/v1", "ResourceClaim"]
TEMPLATES = BY_KIND["resource.k8s.io/v1", "ResourceClaimTemplate"]
EVENTS_END = f"/{EVENTS.plural}"
_TYPES: dict[str, type[Any]] = {kind.path: kind.type for kind in FOLLOWED.values()}


class _Shelf(Generic[Kept]):
    """The objects of one kind, and their followers."""

    def __init__(self) -> None:
        self.items: dict[Key, Kept] = {}
        self.followers: list[_Subscription[Kept]] = []

    def publish(self, event: ObjectChanged[Kept] | ObjectDeleted[Kept]) -> None:
        for follower in self.followers:
            follower.receive(event)


class _Subscription(Generic[Kept]):
    """The changes of a kind for one reader, who collects them at any time.

    If `unfinished`, the reader sees a pod that finishes as deleted.
    """

    def __init__(self, shelf: _Shelf[Kept], *, unfinished: bool) -> None:
        self._shelf = shelf
        self._unfinished = unfinished
        self._pending: deque[ObjectChanged[Kept] | ObjectDeleted[Kept]] = deque()
        self._news = Bell()

    def receive(self, event: ObjectChanged[Kept] | ObjectDeleted[Kept]) -> None:
        if isinstance(event, ObjectChanged) and not self._selects(event.object):
            event = ObjectDeleted(event.object)  # a second one for the same object has no effect
        self._pending.append(event)
        self._news.ring()

    def is_behind(self) -> bool:
        return bool(self._pending)

    def _selects(self, item: Kept) -> bool:
        return not (self._unfinished and isinstance(item, Pod) and item.status.phase in FINISHED)

    async def changes(self, objects: Mapping[str, Kept]) -> AsyncGenerator[WatchUpdate[Kept]]:
        self._shelf.followers.append(self)
        try:
            yield ObjectsListed(
                tuple(item for item in self._shelf.items.values() if self._selects(item))
            )
            while True:
                while self._pending:
                    yield self._pending.popleft()
                await self._news.wait()
        finally:
            self._shelf.followers.remove(self)


class InProcess:
    """The Cluster that a workload writes to, and the Access that the scheduler uses."""

    parallel = 1

    def __init__(self, pods: PodTracker) -> None:
        self._tracker = pods
        self._shelves: dict[str, _Shelf[Any]] = {kind.path: _Shelf() for kind in FOLLOWED.values()}
        self._pods: _Shelf[Pod] = self._shelves[PODS.path()]
        self._claims: _Shelf[ResourceClaim] = self._shelves[CLAIMS.path()]
        self._claims_of: dict[str, list[Key]] = {}  # by the uid of the owner
        self._templates = ClaimTemplates(self._template)
        self._prototypes: dict[int, tuple[Document, Any]] = {}
        self._rest = Api(Store(this_machine()))
        self._version = 0
        self._second, self._time, self._scheduled = 0, "", PodCondition()
        self.calls: Calls = self
        self.plugins: Calls = self
        self.events: Calls = self
        self.server = "memory"
        self.tenure = Tenure()  # no other scheduler writes here

    async def run_apart(self, work: Callable[[Calls], Awaitable[None]]) -> None:
        await work(self)

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> Source[Kept]:
        """Raises ClusterError for a kind of a plugin that is no custom one."""
        known = _TYPES.get(path, kind)
        if known is not kind or selector not in ("", NOT_FINISHED):
            raise ClusterError(
                f"{path} as {kind.__name__}: --api inproc has objects with the fields that berth "
                "itself reads, and no selectors: measure with --api embedded"
            )
        return _Subscription(self._shelves.setdefault(path, _Shelf()), unfinished=bool(selector))

    # ----------------------------------------------------------------------------------- as Cluster

    async def create(self, kind: Kind, namespace: str, name: str, document: Document) -> None:
        shelf = self._shelves.get(kind.path())
        if shelf is None:
            self._create_elsewhere(kind, namespace, name, document)
            return
        if (namespace, name) in shelf.items:
            raise ExistsError(f'{kind.resource} "{name}" already exists')
        created = self._add(kind, namespace, name, self._prototype(kind, document))
        if isinstance(created, Pod) and created.spec.resource_claims:
            self._make_claims(created)

    def _add(self, kind: Kind, namespace: str, name: str, item: Any) -> Any:
        """Stores a new object, with the metadata that the API server gives it."""
        self._version += 1
        prototype = item.metadata
        labels = prototype.labels
        if kind.kind == "Namespace":
            labels = {**labels, "kubernetes.io/metadata.name": name}
        metadata = ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{self._version}",
            resource_version=str(self._version),
            generation=1,
            creation_timestamp=self._now(),
            labels=dict(labels),
            annotations=dict(prototype.annotations),
            owner_references=prototype.owner_references,
            finalizers=prototype.finalizers,
        )
        if kind == CLAIMS:
            for owner in prototype.owner_references:
                self._claims_of.setdefault(owner.uid, []).append((namespace, name))
        return self._put(
            self._shelves[kind.path()], msgspec.structs.replace(item, metadata=metadata)
        )

    async def update(
        self, kind: Kind, namespace: str, name: str, document: Document, subresources: Sequence[str]
    ) -> None:
        if kind.path() not in self._shelves:
            self._update_elsewhere(kind, namespace, name, document)
            return
        before = self._existing(kind, namespace, name)
        after = self._prototype(kind, document)
        kept = before.metadata
        metadata = kept
        if "resize" not in subresources:
            changed = after.metadata
            metadata = msgspec.structs.replace(
                kept,
                labels=dict(changed.labels),
                annotations=dict(changed.annotations),
                finalizers=changed.finalizers,
            )
        after = msgspec.structs.replace(after, metadata=metadata)
        if isinstance(after, Pod):
            spec = msgspec.structs.replace(after.spec, node_name=before.spec.node_name)
            after = msgspec.structs.replace(after, spec=spec, status=before.status)
        self._write(kind, after)

    async def delete(self, kind: Kind, namespace: str, name: str, grace: int | None = None) -> None:
        shelf = self._shelves.get(kind.path())
        if shelf is None:
            try:
                self._rest.delete(kind, namespace, name, DeleteOptions(grace))
            except RefusedError:
                return
        elif (namespace, name) in shelf.items:
            self._delete(kind, namespace, name, grace)

    async def set_status(self, kind: Kind, namespace: str, name: str, status: Document) -> None:
        if kind.path() not in self._shelves:
            self._update_elsewhere(kind, namespace, name, {"status": status})
            return
        before = self._existing(kind, namespace, name)
        converted = Reader(type(before.status)).convert(status)
        self._write(kind, msgspec.structs.replace(before, status=converted))

    async def every(self, kind: Kind, type_: type[Kept]) -> list[Kept]:
        return list(self._shelves[kind.path()].items.values())

    async def delivered(self) -> None:
        followers = [each for shelf in self._shelves.values() for each in shelf.followers]
        while any(follower.is_behind() for follower in followers):
            await anyio.lowlevel.checkpoint()

    # ------------------------------------------------------------------------------------- as Calls

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        pod = self._pods.items.get((namespace, name)) or self._existing(PODS, namespace, name)
        problem = ""
        if uid != pod.metadata.uid:
            problem = (
                f"the UID in the precondition ({uid}) "
                f"does not match the UID in record ({pod.metadata.uid})"
            )
        elif pod.metadata.deletion_timestamp is not None:
            problem = f"pod {name} is being deleted, cannot be assigned to a host"
        elif pod.spec.node_name:
            problem = f'pod {name} is already assigned to node "{pod.spec.node_name}"'
        elif pod.spec.scheduling_gates:
            problem = f"pod {name} has non-empty .spec.schedulingGates"
        if problem:
            raise ApiError(409, "Conflict", problem)
        self._now()
        conditions: tuple[PodCondition, ...] = (self._scheduled,)
        if pod.status.conditions:
            others = (
                condition for condition in pod.status.conditions if condition.type != "PodScheduled"
            )
            conditions = (*others, self._scheduled)
        status = msgspec.structs.replace(pod.status, conditions=conditions, nominated_node_name="")
        self._version += 1
        metadata = msgspec.structs.replace(pod.metadata, resource_version=str(self._version))
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        self._put(
            self._pods, msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=status)
        )

    async def patch(self, path: str, body: object, answer: type[T], kind: str = "strategic") -> T:
        return await self.call("PATCH", path, answer, body, CONTENT_TYPES[kind])

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "",
    ) -> T:
        """Answers every request of the scheduler except bindings. Raises ApiError."""
        if method == "POST" and path.endswith(EVENTS_END) and isinstance(body, answer):
            return body
        try:
            result = self._answer(method, path.partition("?")[0], body, content_type)
        except RefusedError as refused:
            raise ApiError(refused.code, refused.reason, str(refused)) from None
        return (
            result
            if isinstance(result, answer)
            else msgspec.convert(msgspec.to_builtins(result), answer)
        )

    def _answer(self, method: str, path: str, body: object, content_type: str) -> object:
        target = target_of(path, self._rest.store.catalog)
        kind, namespace, name = target.kind, target.namespace, target.name
        if kind == EVENTS:
            return body
        if kind.path() not in self._shelves:
            if method == "GET" and not name:
                return {
                    "items": [stored.document for stored in self._rest.store.list(kind, namespace)]
                }
            if method == "GET":
                return self._rest.store.get(kind, namespace, name)
            return self._rest.patch(
                kind, namespace, name, body, content_type, target.subresource
            ).document
        match method:
            case "GET" if name:
                return self._existing(kind, namespace, name)
            case "GET":
                items = self._shelves[kind.path()].items
                return {
                    "items": [
                        item for (where, _), item in items.items() if namespace in ("", where)
                    ]
                }
            case "POST":
                return self._post(kind, namespace, body)
            case "DELETE":
                options = msgspec.convert(body or {}, DeleteOptions)
                return self._delete(kind, namespace, name, options.grace_period_seconds)
            case "PATCH":
                return self._patch(kind, namespace, name, body, content_type)
            case "PUT" if target.subresource == "status":
                return self._put_status(kind, namespace, name, body)
            case _:
                raise RefusedError(
                    405, "MethodNotAllowed", f"{method} {path} is not served in process"
                )

    def _post(self, kind: Kind, namespace: str, body: Any) -> object:
        metadata = body.get("metadata") or {}
        name = metadata.get("name") or f"{metadata.get('generateName', '')}{self._version}"
        if (namespace, name) in self._shelves[kind.path()].items:
            raise RefusedError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists')
        return self._add(kind, namespace, name, self._prototype(kind, body))

    def _patch(
        self, kind: Kind, namespace: str, name: str, body: object, content_type: str
    ) -> object:
        before = self._checked_version(kind, namespace, name, body)
        after = patched_document(kind, msgspec.to_builtins(before), body, content_type)
        return self._write(kind, msgspec.convert(after, type(before), strict=False))

    def _put_status(self, kind: Kind, namespace: str, name: str, body: Any) -> object:
        before = self._checked_version(kind, namespace, name, body)
        status = msgspec.convert(body["status"], type(before.status), strict=False)
        return self._write(kind, msgspec.structs.replace(before, status=status))

    def _checked_version(self, kind: Kind, namespace: str, name: str, body: object) -> Any:
        """Returns the object. Raises RefusedError if the body names another version of it."""
        before = self._existing(kind, namespace, name)
        expected = body.get("metadata", {}) if isinstance(body, dict) else {}
        for field, have in (
            ("uid", before.metadata.uid),
            ("resourceVersion", before.metadata.resource_version),
        ):
            if expected.get(field, have) != have:
                message = f'{kind.resource} "{name}" has another {field} than the request names'
                raise RefusedError(409, "Conflict", message)
        return before

    # ---------------------------------------------------------------------------------- the objects

    def _existing(self, kind: Kind, namespace: str, name: str) -> Any:
        item = self._shelves[kind.path()].items.get((namespace, name))
        if item is None:
            raise ApiError(404, "NotFound", f'{kind.resource} "{name}" not found')
        return item

    def _prototype(self, kind: Kind, document: Document) -> Any:
        """Returns the typed object for a document, as the API server would store it; cached."""
        cached = self._prototypes.get(id(document))
        if cached is not None and cached[0] is document:
            return cached[1]
        named = {**document, "metadata": {"name": "prototype", **(document.get("metadata") or {})}}
        try:
            full = defaulted(kind, named)
            if kind == PODS:
                full = admitted_pod(self._rest.store, full)
            prototype = msgspec.convert(
                full, FOLLOWED[kind.api_version, kind.kind].type, strict=False
            )
        except (RefusedError, msgspec.ValidationError) as problem:
            raise ClusterError(f"{kind.kind}: {problem}") from None
        if len(self._prototypes) == MOST_PROTOTYPES:
            self._prototypes.clear()
        self._prototypes[id(document)] = (document, prototype)
        return prototype

    def _create_elsewhere(self, kind: Kind, namespace: str, name: str, document: Document) -> None:
        metadata = {
            **(document.get("metadata") or {}),
            "name": name,
            **({"namespace": namespace} if namespace else {}),
        }
        try:
            created = {**document, "metadata": {**metadata, "uid": f"uid-{kind.plural}-{name}"}}
            self._rest.store.create(kind, defaulted(kind, created))
        except RefusedError as refused:
            error = ExistsError if refused.reason == "AlreadyExists" else ClusterError
            raise error(str(refused)) from None

    def _update_elsewhere(self, kind: Kind, namespace: str, name: str, document: Document) -> None:
        """Changes the fields of an object that the scheduler does not follow, but not its
        metadata.
        """
        try:
            before = self._rest.store.get(kind, namespace, name)
            after = defaulted(kind, {**before, **document, "metadata": before["metadata"]})
            self._rest.store.update(kind, after)
        except RefusedError as refused:
            raise ClusterError(str(refused)) from None

    def _now(self) -> str:
        """Returns the time as objects carry it; sets it and `_scheduled` once a second."""
        second = int(time.time())
        if self._second != second:
            self._second, self._time = second, time_of(second)
            self._scheduled = PodCondition(
                type="PodScheduled", status="True", last_transition_time=self._time
            )
        return self._time

    def _write(self, kind: Kind, item: Any) -> Any:
        self._version += 1
        metadata = msgspec.structs.replace(item.metadata, resource_version=str(self._version))
        return self._put(
            self._shelves[kind.path()], msgspec.structs.replace(item, metadata=metadata)
        )

    def _put(self, shelf: _Shelf[Any], item: Any) -> Any:
        metadata = item.metadata
        shelf.items[metadata.namespace, metadata.name] = item
        shelf.publish(ObjectChanged(item))
        if isinstance(item, Pod):
            self._tracker.changed(item)
        return item

    def _delete(self, kind: Kind, namespace: str, name: str, grace: int | None) -> object:
        item = self._existing(kind, namespace, name)
        if isinstance(item, Pod) and item.spec.node_name:
            seconds = grace if grace is not None else item.spec.termination_grace_period_seconds
        else:
            seconds = 0
        if seconds or item.metadata.finalizers:
            if item.metadata.deletion_timestamp is not None:
                return item
            doomed = msgspec.structs.replace(
                item.metadata, deletion_timestamp=self._now(), deletion_grace_period_seconds=seconds
            )
            return self._write(kind, msgspec.structs.replace(item, metadata=doomed))
        gone = self._remove(kind, item)
        if isinstance(gone, Pod):
            self._tracker.deleted(gone)
            self._release_claims(gone)
        return gone

    def _remove(self, kind: Kind, item: Any) -> Any:
        shelf = self._shelves[kind.path()]
        del shelf.items[item.metadata.namespace, item.metadata.name]
        self._version += 1
        metadata = msgspec.structs.replace(item.metadata, resource_version=str(self._version))
        gone = msgspec.structs.replace(item, metadata=metadata)
        shelf.publish(ObjectDeleted(gone))
        return gone

    # ----------------------------------------------------------------------------------- the claims

    def _make_claims(self, pod: Pod) -> None:
        """Makes the claims of a pod from their templates, and names them in the pod's status."""
        names = []
        for entry, claim in self._templates.claims_for(pod):
            name = f"{claim.metadata.generate_name}{self._version}"
            self._add(CLAIMS, pod.metadata.namespace, name, claim)
            names.append((entry, name))
        if names:
            self._write(PODS, with_claims(pod, names))

    def _template(self, namespace: str, name: str) -> Document | None:
        return self._rest.store.find(TEMPLATES, namespace, name)

    def _release_claims(self, pod: Pod) -> None:
        """Ends a deleted pod's reservations, and deletes the claims that it owns."""
        uid, namespace = pod.metadata.uid, pod.metadata.namespace
        owned = self._claims_of.pop(uid, ())
        for key in (*owned, *((namespace, name) for name in shared_claims(pod))):
            claim = self._claims.items.get(key)
            without = None if claim is None else without_reservation(claim, uid)
            if without is not None:
                self._write(CLAIMS, without)
        for key in owned:
            claim = self._claims.items.get(key)
            if claim is not None and not claim.metadata.finalizers:
                self._remove(CLAIMS, claim)

"""The locks of an election: a Lease or, as before Kubernetes 1.20, a record in an annotation of an
Endpoints object or a ConfigMap. While a cluster migrates from one of these to leases, a lock has
both, and its holder is who holds both.

Mirrors client-go's resourcelock as of v0.19 to v0.26, and is stricter in two things: the second
lock is written in the version that the decision has read, so that nobody who took it meanwhile
loses it; and where the first is missing, the holder of the second counts.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec

from ..client.rest import ApiError, UnreadableAnswerError
from ..scheduling.kube.coordination import Lease, LeaseSpec
from ..scheduling.kube.meta import ObjectMeta, ObjectReference
from ..scheduling.kube.times import micro_time
from .state import Held, Terms

T = TypeVar("T")
Document = dict[str, Any]
ANNOTATION = "control-plane.alpha.kubernetes.io/leader"
UNKNOWN = "leaderelection.k8s.io/unknown"  # the holder of two locks that differ
LEASE = "coordination.k8s.io/v1", "Lease"
_ANNOTATED = {"endpoints": "Endpoints", "configmaps": "ConfigMap"}


class Call(Protocol):
    """Sends a request to the API server, and returns its answer as this type. Raises ApiError and
    ConnectionFailedError.
    """

    async def __call__(
        self, method: str, path: str, answer: type[T], body: object | None = None
    ) -> T: ...


class Lock(Protocol):
    """A lock as it was read or written last by this candidate."""

    async def read(self) -> Held | None:
        """Returns who holds it, None if nobody ever has. Raises as Call."""

    async def write(self, lease: Lease, *, create: bool) -> Lease:
        """Writes who holds it, if it is as it was read. Returns what was written. Raises as
        Call.
        """

    def references(self) -> list[ObjectReference]:
        """Returns the objects that events about the lock name."""


class LeaseLock:
    def __init__(self, call: Call, namespace: str, name: str) -> None:
        self._call = call
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self.new = self._metadata = ObjectMeta(name=name, namespace=namespace)

    async def read(self) -> Held | None:
        lease = await _found(self._call, f"{self._path}/{self._name}", Lease)
        return None if lease is None else Held(lease)

    async def write(self, lease: Lease, *, create: bool) -> Lease:
        method, name = ("POST", "") if create else ("PUT", f"/{self._name}")
        written = await self._call(method, f"{self._path}{name}", Lease, lease)
        self._metadata = written.metadata
        return written

    def references(self) -> list[ObjectReference]:
        return [_reference(*LEASE, self._metadata)]


class LeaderRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The record in the annotation. Older programs write its times to the second."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    leader_transitions: int = 0


class AnnotationLock:
    """A record in the annotation of an object of this resource, the rest of which stays."""

    def __init__(self, call: Call, resource: str, namespace: str, name: str) -> None:
        self._call = call
        self._path = f"/api/v1/namespaces/{namespace}/{resource}"
        self._name = name
        self._kind = _ANNOTATED[resource]
        self._new: Document = {
            "apiVersion": "v1",
            "kind": self._kind,
            "metadata": {"name": name, "namespace": namespace},
        }
        self._seen = self._new

    async def read(self) -> Held | None:
        found = await _found(self._call, f"{self._path}/{self._name}", dict)
        self._seen = self._new if found is None else found
        return None if found is None else Held(self._lease())

    async def write(self, lease: Lease, *, create: bool) -> Lease:
        document = self._new if create else self._seen
        metadata = document["metadata"]
        annotations = {**(metadata.get("annotations") or {}), ANNOTATION: _record(lease.spec)}
        body = {**document, "metadata": {**metadata, "annotations": annotations}}
        method, name = ("POST", "") if create else ("PUT", f"/{self._name}")
        self._seen = await self._call(method, f"{self._path}{name}", dict, body)
        return self._lease()

    def references(self) -> list[ObjectReference]:
        return [_reference("v1", self._kind, self._lease().metadata)]

    def _lease(self) -> Lease:
        """Returns the record as a lease. Raises UnreadableAnswerError."""
        metadata = self._seen["metadata"]
        text = (metadata.get("annotations") or {}).get(ANNOTATION) or "{}"
        try:
            record = msgspec.json.decode(text, type=LeaderRecord)
            acquired, renewed = map(_micro, (record.acquire_time, record.renew_time))
        except ValueError as problem:
            where = f"{self._kind} {metadata.get('namespace')}/{self._name}"
            raise UnreadableAnswerError(f"{where}: annotation {ANNOTATION}: {problem}") from None
        spec = LeaseSpec(
            holder_identity=record.holder_identity,
            lease_duration_seconds=record.lease_duration_seconds,
            acquire_time=acquired,
            renew_time=renewed,
            lease_transitions=record.leader_transitions,
        )
        return Lease(metadata=msgspec.convert(metadata, ObjectMeta), spec=spec)


class MultiLock:
    """Two locks, of which both must be held."""

    def __init__(self, first: AnnotationLock, second: LeaseLock) -> None:
        self._first, self._second = first, second
        self._of_first: Lease | None = None
        self._of_second: Lease | None = None

    async def read(self) -> Held | None:
        first, second = await self._first.read(), await self._second.read()
        self._of_first = None if first is None else first.lease
        self._of_second = None if second is None else second.lease
        if first is None or second is None:
            return first or second
        lease, beside = first.lease, second.lease.spec
        if lease.spec.holder_identity != beside.holder_identity:
            unknown = msgspec.structs.replace(lease.spec, holder_identity=UNKNOWN)
            lease = msgspec.structs.replace(lease, spec=unknown)
        return Held(lease, beside)

    async def write(self, lease: Lease, *, create: bool) -> Lease:
        """Writes both; which of them is created depends on what was read."""
        missing = self._of_first is None
        self._of_first = await self._first.write(lease, create=missing)
        beside = Lease(api_version=LEASE[0], kind=LEASE[1], spec=lease.spec)
        metadata = self._second.new if self._of_second is None else self._of_second.metadata
        beside = msgspec.structs.replace(beside, metadata=metadata)
        self._of_second = await self._second.write(beside, create=self._of_second is None)
        return self._of_first

    def references(self) -> list[ObjectReference]:
        return [*self._first.references(), *self._second.references()]


def lock_of(terms: Terms, call: Call) -> Lock:
    """Returns the lock of these terms."""
    lease = LeaseLock(call, terms.namespace, terms.name)
    resource = terms.resource.removesuffix("leases")
    if not resource:
        return lease
    annotation = AnnotationLock(call, resource, terms.namespace, terms.name)
    return annotation if resource == terms.resource else MultiLock(annotation, lease)


async def _found(call: Call, path: str, answer: type[T]) -> T | None:
    try:
        return await call("GET", path, answer)
    except ApiError as refused:
        if refused.code == 404:
            return None
        raise


def _reference(api_version: str, kind: str, metadata: ObjectMeta) -> ObjectReference:
    return ObjectReference(
        api_version,
        kind,
        metadata.namespace,
        metadata.name,
        metadata.uid,
        metadata.resource_version,
    )


def _micro(time: str | None) -> str | None:
    """Returns a time to the microsecond, as a Lease has it. Raises ValueError."""
    return None if time is None else micro_time(datetime.fromisoformat(time))


def _record(spec: LeaseSpec) -> str:
    record = LeaderRecord(
        holder_identity=spec.holder_identity,
        lease_duration_seconds=spec.lease_duration_seconds,
        acquire_time=spec.acquire_time,
        renew_time=spec.renew_time,
        leader_transitions=spec.lease_transitions or 0,
    )
    return msgspec.json.encode(record).decode()

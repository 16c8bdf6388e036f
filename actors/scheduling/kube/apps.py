"""The selectors and sizes of apps/v1 workloads and of core/v1's ReplicationController."""

from __future__ import annotations

import msgspec

from .meta import Int32, LabelSelector, Object, ObjectMeta


class WorkloadSpec(Object, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    replicas: Int32 | None = None


class ReplicaSet(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class ReplicationControllerSpec(Object, frozen=True, kw_only=True):
    selector: dict[str, str] = msgspec.field(default_factory=dict)
    replicas: Int32 | None = None


class ReplicationController(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()

"""The selectors and sizes of apps/v1 workloads and of core/v1's ReplicationController."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .meta import Int32, LabelSelector, Object, WholeObject


class WorkloadSpec(Object, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    replicas: Int32 | None = None


class ReplicaSet(WholeObject, frozen=True, kw_only=True):
    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(WholeObject, frozen=True, kw_only=True):
    spec: WorkloadSpec = WorkloadSpec()


class ReplicationControllerSpec(Object, frozen=True, kw_only=True):
    selector: Mapping[str, str] = msgspec.field(default_factory=dict)
    replicas: Int32 | None = None


class ReplicationController(WholeObject, frozen=True, kw_only=True):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()

"""apps/v1, and core/v1's ReplicationController: what scheduling reads of them, their selectors and
sizes.
"""

from __future__ import annotations

import msgspec
from berth.actors.scheduling.kube.core import Object
from berth.actors.scheduling.kube.meta import Int32, LabelSelector, ObjectMeta


class WorkloadSpec(Object, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    selector: LabelSelector | None = None
    replicas: Int32 | None = None


class ReplicaSet(Object, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(Object, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class ReplicationControllerSpec(
    Object, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    selector: dict[str, str] = msgspec.field(default_factory=dict)
    replicas: Int32 | None = None


class ReplicationController(
    Object, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()

"""coordination.k8s.io/v1: leases."""

from __future__ import annotations

from .meta import Int32, Object, ObjectMeta


class LeaseSpec(Object, frozen=True, kw_only=True):
    """The spec of a lease. Times are RFC 3339 text with microseconds."""

    holder_identity: str = ""
    lease_duration_seconds: Int32 = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None


class Lease(Object, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()

"""Leader election: judges who holds the lease by the times at which this process saw it change,
never by another machine's clock. Pure.

A lease that has not changed for its duration, as seen here, may be taken. A leader pauses after
each renewal, then tries to renew until the renew deadline has passed, and has lost the lease then,
which is before another candidate may take it. Mirrors client-go's leaderelection.

Another candidate takes the lease no earlier than its duration after it first saw our last renewal,
and cannot have seen that before we sent it. Therefore the leader counts from when it sent the
renewal, and the others from when they received the lease. The leader stops some time before the
lease's duration has passed: the difference is for requests that are on their way by then.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from berth.config.tenure import tenure_seconds

from ..scheduling.kube.coordination import Lease, LeaseSpec
from ..scheduling.kube.meta import ObjectMeta
from ..scheduling.kube.times import micro_time


class Terms(msgspec.Struct, frozen=True):
    """The lease, the candidate, the durations in seconds, the profiles of the candidate, and the
    kind of the lock.

    lease_duration > renew_deadline > retry_period.
    """

    identity: str
    namespace: str
    name: str
    lease_duration: float
    renew_deadline: float
    retry_period: float
    profiles: tuple[str, ...] = ()
    resource: str = "leases"

    @property
    def lock(self) -> str:
        """The name of the lease in the log."""
        return f"{self.namespace}/{self.name}"

    @property
    def tenure(self) -> float:
        """The seconds for which the candidate leads after a renewal."""
        return tenure_seconds(self.lease_duration, self.renew_deadline, self.retry_period)


class Held(msgspec.Struct, frozen=True):
    """A lock as it was read: as a lease. `beside` is what the second of two locks says."""

    lease: Lease
    beside: LeaseSpec | None = None


class Write(msgspec.Struct, frozen=True):
    """The next step: write the lease, as a new object if `create`. On success, call `written`."""

    lease: Lease
    create: bool


class Wait(msgspec.Struct, frozen=True):
    """The next step: wait, because another candidate holds the lease at least until then."""

    holder: str
    until: float


class LeaderState:
    """The lease as this candidate last saw it, and when it wrote it last."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._seen: tuple[LeaseSpec, LeaseSpec | None] | None = None
        self._seen_at = float("-inf")
        self._renewed_at: float | None = None
        self._written: Lease | None = None

    @property
    def leading(self) -> bool:
        return self._renewed_at is not None

    @property
    def leads_until(self) -> float:
        """When the lease is lost unless it is renewed; minus infinity for another than the
        leader.
        """
        return float("-inf") if self._renewed_at is None else self._renewed_at + self._terms.tenure

    def left(self, now: float) -> float:
        """Returns the seconds that are left to renew the lease; 0 if they have passed, or for a
        candidate that does not lead.
        """
        return max(self.leads_until - now, 0.0)

    def renewal(self, wall: datetime) -> Lease | None:
        """Returns the lease to write if nobody else has written it since; None for a candidate that
        does not lead.
        """
        if self._written is None or not self.leading:
            return None
        spec = self._written.spec
        acquired = spec.acquire_time or micro_time(wall)
        return self._lease(
            self._written.metadata, acquired, micro_time(wall), spec.lease_transitions or 0
        )

    def next_step(
        self, lease: Lease | None, now: float, wall: datetime, beside: LeaseSpec | None = None
    ) -> Write | Wait:
        """Returns the next step for the lease that was read; None if there is none. `now` is when
        the answer arrived. Of two locks, whichever changes shows that their holder lives.
        """
        stamp, terms = micro_time(wall), self._terms
        if lease is None:
            return Write(
                self._lease(
                    ObjectMeta(name=terms.name, namespace=terms.namespace), stamp, stamp, 0
                ),
                create=True,
            )
        spec = lease.spec
        if (spec, beside) != self._seen:
            self._seen, self._seen_at = (spec, beside), now
        mine = spec.holder_identity == terms.identity
        durations = spec.lease_duration_seconds, (beside or spec).lease_duration_seconds
        until = self._seen_at + max(*durations, terms.lease_duration)
        if spec.holder_identity and now < until and not mine:
            self._renewed_at = None
            return Wait(spec.holder_identity, until)
        acquired = spec.acquire_time if mine and spec.acquire_time else stamp
        return Write(
            self._lease(
                lease.metadata, acquired, stamp, (spec.lease_transitions or 0) + (not mine)
            ),
            create=False,
        )

    def written(self, lease: Lease, sent_at: float) -> None:
        """Records that our write succeeded. The lease counts from the time at which it was sent."""
        self._seen, self._seen_at = (lease.spec, None), sent_at
        self._renewed_at, self._written = sent_at, lease

    def released(self, lease: Lease, wall: datetime) -> Lease | None:
        """Returns the released lease, which others may take at once; None if the lease is
        not ours.
        """
        if lease.spec.holder_identity != self._terms.identity:
            return None
        stamp = micro_time(wall)
        spec = msgspec.structs.replace(
            lease.spec,
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=stamp,
            renew_time=stamp,
        )
        return msgspec.structs.replace(lease, spec=spec)

    def _lease(self, metadata: ObjectMeta, acquired: str, renewed: str, transitions: int) -> Lease:
        spec = LeaseSpec(
            holder_identity=self._terms.identity,
            lease_duration_seconds=int(self._terms.lease_duration),
            acquire_time=acquired,
            renew_time=renewed,
            lease_transitions=transitions,
        )
        return Lease(
            api_version="coordination.k8s.io/v1", kind="Lease", metadata=metadata, spec=spec
        )

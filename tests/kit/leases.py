"""One lease at an API server in memory, for candidates in virtual time."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec

from berth.actors.client.rest import ApiError, ConnectionFailedError
from berth.actors.scheduling.kube.coordination import Lease
from tests.kit.clock import VirtualClock
from tests.kit.fake_calls import FakeCalls


class Leases:
    """One lease at an API server, each of whose answers takes `seconds`."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._version = 0
        self.lease: Lease | None = None
        self.seconds = 0.0
        self.down: set[str] = set()
        self.methods: list[str] = []

    def touch(self) -> None:
        """Changes the lease, but not its spec."""
        assert self.lease is not None
        self._version += 1
        metadata = msgspec.structs.replace(self.lease.metadata, resource_version=str(self._version))
        self.lease = msgspec.structs.replace(self.lease, metadata=metadata)

    @property
    def holder(self) -> str:
        return "" if self.lease is None else self.lease.spec.holder_identity

    def of(self, who: str) -> Calls:
        return Calls(self, who)

    async def call(self, who: str, method: str, body: Lease | None) -> Lease:
        self.methods.append(method)
        await anyio.lowlevel.checkpoint()
        if self.seconds:
            await self._clock.sleep(self.seconds)
        if who in self.down:
            raise ConnectionFailedError("down")
        if method == "GET":
            if self.lease is None:
                raise ApiError(404, "NotFound", "no such lease")
            return self.lease
        assert body is not None
        version = "" if self.lease is None else self.lease.metadata.resource_version
        if body.metadata.resource_version != version:
            raise ApiError(409, "Conflict", "another version")
        self._version += 1
        metadata = msgspec.structs.replace(
            body.metadata, uid="lease-uid", resource_version=str(self._version)
        )
        self.lease = msgspec.structs.replace(body, metadata=metadata)
        return self.lease


class Calls(FakeCalls):
    def __init__(self, leases: Leases, who: str) -> None:
        self._leases = leases
        self._who = who

    async def asked(self, method: str, path: str, body: Any) -> Lease:
        assert body is None or isinstance(body, Lease)
        return await self._leases.call(self._who, method, body)

"""The older locks of an election: what they write, who holds them, and what they leave alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from berth.actors.client.rest import ApiError, UnreadableAnswerError
from berth.actors.leader.locks import ANNOTATION, UNKNOWN, Lock, lock_of
from berth.actors.leader.state import LeaderState, Terms, Wait, Write
from tests.kit.fake_calls import FakeCalls

Document = dict[str, Any]
WALL = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG_MAP = "/api/v1/namespaces/ns/configmaps/l"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"


class Server(FakeCalls):
    """An API server with a few objects, by path."""

    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self.writes: list[str] = []
        self.version = 0

    async def asked(self, method: str, path: str, body: Any) -> object:
        sent = msgspec.to_builtins(body)
        if method == "POST":
            path = f"{path}/{sent['metadata']['name']}"
        found = self.objects.get(path)
        if method == "GET" and found is not None:
            return found
        if (method == "POST") == (found is not None):
            raise ApiError(409 if found else 404, "", path)
        if found and found["metadata"]["resourceVersion"] != sent["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", path)
        self.writes.append(f"{method} {path.split('/')[-2]}")
        self.put(path, sent)
        return self.objects[path]

    def put(self, path: str, document: Document) -> None:
        self.version += 1
        metadata = {**document["metadata"], "uid": "u", "resourceVersion": str(self.version)}
        self.objects[path] = {**document, "metadata": metadata}

    def lock(self, who: str, resource: str) -> tuple[Lock, LeaderState]:
        terms = Terms(who, "ns", "l", 15, 10, 2, (), resource)
        return lock_of(terms, self.call), LeaderState(terms)

    def holders(self) -> tuple[str, str]:
        """Returns who holds the record, and who holds the lease."""
        annotations = self.objects[CONFIG_MAP]["metadata"]["annotations"]
        record = msgspec.json.decode(annotations[ANNOTATION])
        return record["holderIdentity"], self.objects[LEASE]["spec"].get("holderIdentity", "")


async def attempted(lock: Lock, state: LeaderState, now: float) -> Wait | None:
    """Tries to take the lock as the election does; returns for whom it waits."""
    held = await lock.read()
    wall = WALL + timedelta(seconds=now)
    lease, beside = (None, None) if held is None else (held.lease, held.beside)
    match state.next_step(lease, now, wall, beside):
        case Wait() as wait:
            return wait
        case Write(written, create):
            state.written(await lock.write(written, create=create), now)
    return None


@pytest.mark.parametrize("resource", ["endpoints", "configmaps"])
async def test_a_record_is_an_annotation_of_an_object_whose_rest_stays(resource: str) -> None:
    server = Server()
    path = f"/api/v1/namespaces/ns/{resource}/l"
    kind = {"endpoints": "Endpoints", "configmaps": "ConfigMap"}[resource]
    rest = {"apiVersion": "v1", "kind": kind, "data": {"a": "b"}}
    server.put(path, {**rest, "metadata": {"name": "l", "annotations": {"mine": "1"}}})
    lock, state = server.lock("me", resource)
    assert await attempted(lock, state, 0) is None
    written = server.objects[path]
    assert written["data"] == {"a": "b"}
    assert written["metadata"]["annotations"]["mine"] == "1"
    assert msgspec.json.decode(written["metadata"]["annotations"][ANNOTATION]) == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaderTransitions": 1,
    }
    (reference,) = lock.references()
    assert (reference.api_version, reference.kind, reference.name) == ("v1", kind, "l")


async def test_a_record_of_an_older_program_is_read() -> None:
    server = Server()
    record = (
        '{"holderIdentity":"go","leaseDurationSeconds":15,"acquireTime":"2020-01-01T00:00:00Z",'
        '"renewTime":"2020-01-01T00:00:01Z","leaderTransitions":3}'
    )
    metadata = {"name": "l", "namespace": "ns", "annotations": {ANNOTATION: record}}
    server.put(CONFIG_MAP, {"metadata": metadata})
    lock, state = server.lock("me", "configmaps")
    assert await attempted(lock, state, 0) == Wait("go", 15)
    held = await lock.read()
    assert held is not None
    assert held.lease.spec.renew_time == "2020-01-01T00:00:01.000000Z"
    assert await attempted(lock, state, 15) is None
    assert state.leading
    metadata["annotations"] = {ANNOTATION: "{"}
    server.put(CONFIG_MAP, {"metadata": metadata})
    with pytest.raises(UnreadableAnswerError, match="ConfigMap ns/l: annotation control-plane"):
        await lock.read()


async def test_both_locks_are_written_and_held() -> None:
    server = Server()
    lock, state = server.lock("me", "configmapsleases")
    assert await attempted(lock, state, 0) is None
    assert server.writes == ["POST configmaps", "POST leases"]
    assert server.holders() == ("me", "me")
    renewal = state.renewal(WALL)
    assert renewal is not None
    state.written(await lock.write(renewal, create=False), 2)
    assert server.writes[2:] == ["PUT configmaps", "PUT leases"]
    assert [each.kind for each in lock.references()] == ["ConfigMap", "Lease"]


async def test_who_holds_the_record_alone_is_waited_for() -> None:
    server = Server()
    old, leader = server.lock("old", "configmaps")
    await attempted(old, leader, 0)
    lock, state = server.lock("new", "configmapsleases")
    assert await attempted(lock, state, 1) == Wait("old", 16)
    assert await attempted(lock, state, 16) is None
    assert server.holders() == ("new", "new")


async def test_who_holds_the_lease_alone_is_waited_for() -> None:
    server = Server()
    newest, leader = server.lock("newest", "leases")
    await attempted(newest, leader, 0)
    lock, state = server.lock("new", "configmapsleases")
    assert await attempted(lock, state, 1) == Wait("newest", 16)
    assert CONFIG_MAP not in server.objects


async def test_two_holders_are_nobody_known_and_each_renewal_counts() -> None:
    server = Server()
    old, of_old = server.lock("old", "configmaps")
    newest, of_newest = server.lock("newest", "leases")
    await attempted(old, of_old, 0)
    await attempted(newest, of_newest, 0)
    lock, state = server.lock("new", "configmapsleases")
    assert await attempted(lock, state, 1) == Wait(UNKNOWN, 16)
    await attempted(newest, of_newest, 10)  # it renews its lease
    assert await attempted(lock, state, 12) == Wait(UNKNOWN, 27)
    assert await attempted(lock, state, 27) is None
    assert server.holders() == ("new", "new")


async def test_a_lease_that_was_taken_meanwhile_is_left_alone() -> None:
    server = Server()
    lock, state = server.lock("new", "configmapsleases")
    await attempted(lock, state, 0)
    newest, of_newest = server.lock("newest", "leases")
    await attempted(newest, of_newest, 1)
    await attempted(newest, of_newest, 16)
    renewal = state.renewal(WALL)
    assert renewal is not None
    with pytest.raises(ApiError):
        await lock.write(renewal, create=False)
    assert server.holders() == ("new", "newest")
    assert await attempted(lock, state, 17) == Wait(UNKNOWN, 32)
    assert not state.leading


async def test_a_missing_lease_is_made_by_who_holds_the_record() -> None:
    server = Server()
    lock, state = server.lock("me", "configmapsleases")
    await attempted(lock, state, 0)
    del server.objects[LEASE]
    assert await attempted(lock, state, 3) is None
    assert server.holders() == ("me", "me")


async def test_both_are_released() -> None:
    server = Server()
    lock, state = server.lock("me", "configmapsleases")
    await attempted(lock, state, 0)
    held = await lock.read()
    assert held is not None
    released = state.released(held.lease, WALL)
    assert released is not None
    await lock.write(released, create=False)
    assert server.holders() == ("", "")

"""Watches in protobuf: frames that client-go's decoders read."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator

import aiohttp
import pytest

from berth.tools.cluster.apiserver.app import serve
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.protobuf import MAGIC, decoded
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.custom_kinds import define, definition
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

PROTOBUF = "application/vnd.kubernetes.protobuf"
KIND = BY_KIND["v1", "ConfigMap"]
MAPS = "/api/v1/configmaps?watch=true"


class Frames:
    """The events of a watch, read as client-go reads them."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    async def next(self) -> tuple[str, bytes]:
        """Returns the type of the next event and the body of its object."""
        (length,) = struct.unpack(">I", await self._content.readexactly(4))
        message = await self._content.readexactly(length)
        assert message[0] == 0x0A  # the type, as text
        end = 2 + message[1]
        kind, rest = message[2:end].decode(), message[end:]
        assert rest[0] == 0x12  # the object: a message with bytes
        return kind, _block(_block(rest))


def _block(data: bytes) -> bytes:
    """Returns the octets of the first field, which is the only one."""
    length, at, shift = 0, 1, 0
    while True:
        length |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            break
    assert at + length == len(data)
    return data[at:]


@pytest.fixture
def store() -> Store:
    return fresh_store()


@pytest.fixture
async def url(store: Store) -> AsyncIterator[str]:
    async with serve(store=store) as url:
        yield url


async def watched(url: str, accept: str) -> AsyncIterator[aiohttp.ClientResponse]:
    headers = {"Accept": accept}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        yield answer


def create(store: Store, name: str) -> Document:
    body: Document = {"metadata": {"name": name}, "data": {"long": "x" * 300}}
    return Api(store, manager="m").create(KIND, "default", body).whole


async def test_the_events_of_a_watch_are_frames(url: str, store: Store) -> None:
    at = store.revision
    path = f"{url}{MAPS}&resourceVersion={at}&fieldSelector=metadata.namespace=default"
    async for answer in watched(path, PROTOBUF):
        assert answer.status == 200
        assert answer.content_type == PROTOBUF
        assert answer.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
        frames, created = Frames(answer.content), create(store, "one")
        kind, body = await frames.next()
        assert (kind, decoded(body)) == ("ADDED", created)
        store.delete(KIND, "default", "one")
        assert (await frames.next())[0] == "DELETED"


async def test_a_list_in_a_watch_ends_with_a_bookmark(url: str, store: Store) -> None:
    create(store, "one")
    options = "&sendInitialEvents=true&allowWatchBookmarks=true"
    options += "&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name=one"
    async for answer in watched(url + MAPS + options, f"{PROTOBUF};stream=watch"):
        frames = Frames(answer.content)
        assert (await frames.next())[0] == "ADDED"
        kind, body = await frames.next()
        assert kind == "BOOKMARK"
        metadata = decoded(body)["metadata"]
        assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_the_metadata_of_objects_is_watched_in_protobuf(url: str, store: Store) -> None:
    accept = f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    at = store.revision
    async for answer in watched(f"{url}{MAPS}&resourceVersion={at}", accept):
        create(store, "one")
        kind, body = await Frames(answer.content).next()
        assert kind == "ADDED"
        assert b"PartialObjectMetadata" in body[:60]
        assert b"xxx" not in body


async def test_a_watch_ends_with_a_status(url: str, store: Store) -> None:
    store.compact()
    async for answer in watched(f"{url}{MAPS}&resourceVersion=1", PROTOBUF):
        kind, body = await Frames(answer.content).next()
        assert kind == "ERROR"
        assert body.startswith(MAGIC)
        for text in (b"Status", b"Failure", b"Expired", b"too old resource version"):
            assert text in body
        assert b"\x30\x9a\x03" in body  # the code, 410
        assert not await answer.content.read()


async def test_custom_objects_have_no_watch_in_protobuf(url: str, store: Store) -> None:
    define(store, definition())
    kind = next(iter(store.catalog.added))
    path = f"{url}/apis/{kind.api_version}/{kind.plural}?watch=true"
    async for answer in watched(path, PROTOBUF):
        assert answer.status == 406

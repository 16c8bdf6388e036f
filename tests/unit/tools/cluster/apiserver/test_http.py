"""HTTP/1.1 to the byte: both kinds of bodies, several requests at once, and invalid requests."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import anyio
import pytest

from berth.tools.cluster.apiserver.http import (
    IDLE_SECONDS,
    SWEEP_SECONDS,
    Follow,
    Response,
    Stream,
    listen,
)
from berth.tools.cluster.apiserver.http_reader import BadRequestError, RequestReader
from berth.tools.kubernetes.api.requests.request import HttpRequest
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time


def echo(request: HttpRequest) -> Response | Follow:
    """Answers with the request that it read; answers /stream with a stream."""
    if request.path != "/stream":
        query = "&".join(f"{key}={value}" for key, value in request.query.items())
        return Response(
            f"{request.method} {request.path}?{query} {request.body.decode()}".encode(), 201
        )

    async def follow(stream: Stream) -> None:
        await stream.write(b"one\n")
        await stream.write(b"two\n")

    return follow


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with listen(echo) as url:
        yield int(url.rpartition(":")[2])


async def exchange(port: int, sent: bytes, *, pieces: int = 1) -> bytes:
    """Sends the bytes in this many pieces. Returns everything that the server sends until it closes
    the connection.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    size = -(-len(sent) // pieces)
    async with asyncio.timeout(30):
        for at in range(0, len(sent), size):
            writer.write(sent[at : at + size])
            await writer.drain()
            await asyncio.sleep(0)
        answered = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answered


def bodies(answered: bytes) -> list[str]:
    return [
        part.partition("\r\n\r\n")[2]
        for part in answered.decode().split("HTTP/1.1 201 Created\r\n")[1:]
    ]


CLOSE = b"Connection: close\r\n"


@pytest.mark.parametrize("pieces", [1, 7, 200])
async def test_requests_are_answered_in_their_order(port: int, pieces: int) -> None:
    sent = (
        b"POST /a?x=1&x=2&y= HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
        b"POST /b%20c HTTP/1.1\r\nTransfer-Encoding: "
        b"chunked\r\n\r\n3\r\nbod\r\n1;e\r\ny\r\n0\r\nT: x\r\n\r\n"
        b"GET /last HTTP/1.1\r\n" + CLOSE + b"\r\n"
    )
    answered = await exchange(port, sent, pieces=pieces)
    assert bodies(answered) == ["POST /a?y=&x=1 body", "POST /b c? body", "GET /last? "]


async def test_a_stream_comes_in_chunks_and_the_connection_goes_on(port: int) -> None:
    answered = await exchange(
        port, b"GET /stream HTTP/1.1\r\n\r\nGET /last HTTP/1.1\r\n" + CLOSE + b"\r\n"
    )
    stream, _, last = answered.partition(b"HTTP/1.1 201")
    assert stream.endswith(
        b"Transfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n4\r\ntwo\n\r\n0\r\n\r\n"
    )
    assert last.endswith(b"GET /last? ")


async def test_a_client_that_expects_100_continue_gets_it(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"PUT /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n" + CLOSE + b"\r\n"
    )
    async with asyncio.timeout(30):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"ok")
        assert bodies(await reader.read()) == ["PUT /x? ok"]
    writer.close()
    await writer.wait_closed()


async def test_the_answer_to_head_has_no_body(port: int) -> None:
    answered = await exchange(port, b"HEAD /x HTTP/1.1\r\n" + CLOSE + b"\r\n")
    assert b"Content-Length: 9\r\n" in answered
    assert answered.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\x00Transfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nUser-Agent: a\x00b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % ((3 << 20) + 1), 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n", 400),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 5000, 400),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 5000, 400),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"T: x\r\n" * 20_000, 431),
        (b"GET /" + b"x" * (65 << 10), 431),
    ],
)
async def test_an_invalid_request_ends_the_connection(port: int, sent: bytes, status: int) -> None:
    answered = await exchange(port, sent)
    assert answered.startswith(b"HTTP/1.1 %d " % status)
    assert CLOSE in answered


@pytest.mark.full("long")
async def test_a_client_that_sends_too_much_receives_the_reason(port: int) -> None:
    sent = b"POST / HTTP/1.1\r\nContent-Length: 30000000\r\n\r\n" + b"x" * 30_000_000
    answered = await exchange(port, sent)
    assert answered.startswith(b"HTTP/1.1 413 ")
    assert answered.endswith(b"Request entity too large: limit is 3145728 bytes")


def test_a_body_in_the_smallest_chunks_is_read_once() -> None:
    """Each piece is read once: the reader does not start again from the beginning."""
    reader, size = RequestReader(), 300_000
    sent = (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"1\r\nx\r\n" * size
        + b"0\r\n\r\n"
    )
    for at in range(0, len(sent), 1000):
        assert reader.next() is None
        reader.feed(sent[at : at + 1000])
    request = reader.next()
    assert request is not None
    assert request.body == b"x" * size
    assert not reader


def read_in_pieces(sent: bytes, size: int) -> bytes | int:
    """Returns the body of a request, or the status of its refusal."""
    reader = RequestReader()
    try:
        for at in range(0, len(sent), size):
            reader.feed(sent[at : at + size])
            request = reader.next()
    except BadRequestError as problem:
        return problem.status
    assert request is not None
    return request.body


@pytest.mark.parametrize("pieces", [1, 2, 5000])
def test_the_line_of_a_chunk_is_bounded_in_whatever_pieces_it_comes(pieces: int) -> None:
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    for length, fits in ((4096, True), (4097, False)):
        line = b"1;" + b"x" * (length - 4) + b"\r\n"
        sent = head + line + b"y\r\n0\r\n\r\n"
        assert read_in_pieces(sent, len(sent) // pieces + 1) == (b"y" if fits else 400)


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"]
)
@in_virtual_time
async def test_a_connection_without_a_whole_request_is_closed_after_a_while(sent: bytes) -> None:
    async with listen(echo) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(sent)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        assert IDLE_SECONDS < anyio.current_time() <= IDLE_SECONDS + SWEEP_SECONDS
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()


@in_virtual_time
async def test_a_stream_is_not_idle() -> None:
    async def follow(stream: Stream) -> None:
        await asyncio.sleep(10 * IDLE_SECONDS)
        await stream.write(b"late")

    async with listen(lambda _: follow) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.1\r\n" + CLOSE + b"\r\n")
        answered = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answered.endswith(b"\r\n\r\n4\r\nlate\r\n0\r\n\r\n")


@in_long_virtual_time
async def test_a_client_that_reads_no_answers_gets_no_more_until_it_reads() -> None:
    requests, size = 0, 1 << 20

    def big(_: HttpRequest) -> Response:
        nonlocal requests
        requests += 1
        return Response(b"x" * size)

    async with listen(big) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 99 + b"GET / HTTP/1.1\r\n" + CLOSE + b"\r\n")
        await writer.drain()
        await asyncio.sleep(
            1
        )  # by then the server has done everything that it does before the client reads
        assert 0 < requests < 50
        answered = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert requests == 100
    assert answered.count(b"HTTP/1.1 200 OK\r\n") == 100
    assert len(answered) > 100 * size


@in_virtual_time
async def test_a_client_that_keeps_sending_during_a_stream_has_to_wait() -> None:
    """The server does not buffer unread requests without limit."""

    async def for_ever(stream: Stream) -> None:
        await asyncio.Event().wait()

    async with listen(lambda _: for_ever) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.1\r\n\r\n" + b"x" * (64 << 20))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await writer.drain()
        writer.transport.abort()


async def test_a_request_that_raises_ends_only_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing(request: HttpRequest) -> Response | Follow:
        if request.path == "/bug":
            raise ZeroDivisionError
        return echo(request)

    async with listen(failing) as url:
        port = int(url.rpartition(":")[2])
        bug = b"GET /bug HTTP/1.1\r\n\r\n"
        assert await exchange(port, bug) == b""
        assert bodies(await exchange(port, b"GET /a HTTP/1.1\r\n" + CLOSE + b"\r\n")) == [
            "GET /a? "
        ]
    assert "ZeroDivisionError" in caplog.text


async def test_stopping_ends_streams_and_connections() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def for_ever(stream: Stream) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with listen(lambda _: for_ever) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(30):
            await started.wait()
    async with asyncio.timeout(30):
        await ended.wait()
        await reader.read()
    writer.close()
    await writer.wait_closed()


async def test_a_connection_that_was_just_accepted_ends_with_the_server() -> None:
    async with listen(echo) as url:
        there = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=5)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with there:
        assert await asyncio.to_thread(there.recv, 1) == b""

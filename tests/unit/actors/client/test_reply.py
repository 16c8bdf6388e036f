"""Answers of HTTP/1.1 that arrive in any pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.client.reply import Reply, ReplyError, ReplyReader

CREATED = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\nbody"
CHUNKED = (
    b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nTRANSFER-ENCODING: Chunked\r\n\r\n"
    b"3;ext=1\r\nbod\r\n1\r\ny\r\n0\r\nTrailer: x\r\n\r\n"
)
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + CREATED
ANSWERS = {
    CREATED: Reply(201, b"body", None, keep=True),
    CHUNKED: Reply(429, b"body", "7", keep=True),
    CHUNKED.replace(b"0\r\nTrailer: x\r\n", b"0\r\n"): Reply(429, b"body", "7", keep=True),
    CONTINUED: Reply(201, b"body", None, keep=True),
    b"HTTP/1.1 204 No Content\r\n\r\n": Reply(204, b"", None, keep=True),
    CREATED.replace(b"HTTP/1.1", b"HTTP/1.0"): Reply(201, b"body"),
    CREATED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"): Reply(201, b"body"),
}


@given(answer=st.sampled_from(list(ANSWERS)), cuts=st.lists(st.integers(0, 200)))
def test_an_answer_is_read_from_any_pieces(answer: bytes, cuts: list[int]) -> None:
    reader, at = ReplyReader(), 0
    for cut in sorted(cut for cut in cuts if cut < len(answer)):
        assert reader.feed(answer[at:cut]) is None
        at = cut
    assert reader.feed(answer[at:]) == ANSWERS[answer]


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    reader = ReplyReader()
    assert reader.feed(b"HTTP/1.1 500 Internal Server Error\r\n\r\nno") is None
    assert reader.feed(b"body") is None
    assert reader.close() == Reply(500, b"nobody")


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\n", CREATED[:-1], CHUNKED[:-2]])
def test_a_truncated_answer_is_refused(part: bytes) -> None:
    reader = ReplyReader()
    assert reader.feed(part) is None
    assert reader.close() is None


def test_a_connection_with_extra_bytes_is_not_kept() -> None:
    assert ReplyReader().feed(CREATED + b"HTTP/1.1 200 OK\r\n") == Reply(201, b"body")


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"x" * (65 << 10),
    ],
)
def test_an_invalid_answer_is_refused(answer: bytes) -> None:
    with pytest.raises(ReplyError):
        ReplyReader().feed(answer)


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"Content-Length: 99999999999", b" " * (1 << 20)),
        (b"Connection: close", b" " * (1 << 20)),
        (b"Transfer-Encoding: chunked", b"100000\r\n" + b" " * (1 << 20) + b"\r\n"),
        (b"Transfer-Encoding: chunked\r\n\r\n0", b"a: " + b"b" * (1 << 20) + b"\r\n"),
    ],
)
def test_an_answer_without_end_is_refused(head: bytes, part: bytes) -> None:
    reader = ReplyReader()
    separator = b"\r\n" if head.endswith(b"0") else b"\r\n\r\n"
    assert reader.feed(b"HTTP/1.1 200 OK\r\n" + head + separator) is None
    for _ in range(15):
        assert reader.feed(part) is None
    with pytest.raises(ReplyError, match="at most 16777216 bytes"):
        reader.feed(2 * part)

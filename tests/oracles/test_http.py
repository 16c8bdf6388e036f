"""Requests and answers are read as llhttp reads them, the parser of Node.js; none is taken that it
refuses.
"""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import unquote, urlsplit

import httptools
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from berth.actors.client.reply import ReplyError, ReplyReader
from tests.kit.examples import examples
from tests.properties.test_http_reader import read, streams

pytestmark = pytest.mark.full("asks another program")


METHODS = ("GET", "POST")  # of those that are drawn, the ones that llhttp knows
# Blanks and extensions after the size of a chunk, of which Go takes all.
MORE = re.compile(rb"(?<=[0-9A-Fa-f])[ \t]*(;[^\r\n]*)?(?=\r\n)")


class Listener:
    """The requests that llhttp reads. An upgrade ends what it reads of a stream."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes]] = []
        self._target = self._body = b""
        self.parser = httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        self._target = self._body = b""

    def on_url(self, piece: bytes) -> None:
        self._target += piece

    def on_body(self, piece: bytes) -> None:
        self._body += piece

    def on_message_complete(self) -> None:
        path = unquote(urlsplit(self._target.decode("latin-1")).path)
        self.requests.append((self.parser.get_method().decode(), path, self._body))


def read_by_llhttp(stream: bytes) -> tuple[list[tuple[str, str, bytes]], bool]:
    """Returns the requests, and whether the stream is refused after them."""
    listener = Listener()
    try:
        listener.parser.feed_data(stream)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return listener.requests, True
    return listener.requests, False


@examples()
@given(streams())
def test_no_request_is_taken_that_llhttp_refuses(stream: bytes) -> None:
    stream = MORE.sub(b"", stream)
    ours, _, _ = read([stream])
    theirs, _ = read_by_llhttp(stream)
    assume(all(request.method in METHODS for request in ours))
    last = next((number for number, request in enumerate(ours) if not request.keep), len(ours))
    taken = [(request.method, request.path, request.body) for request in ours[: last + 1]]
    assert taken == theirs[: len(taken)]


class Answer:
    """The first answer that llhttp reads, but for those of a status below 200."""

    def __init__(self) -> None:
        self.status, self.body, self.complete = 0, b"", False
        self.parser = httptools.HttpResponseParser(self)

    def on_body(self, piece: bytes) -> None:
        if not self.complete:
            self.body += piece

    def on_message_complete(self) -> None:
        if not self.complete:
            self.status = self.parser.get_status_code()
            self.complete = self.status >= 200


def answers() -> st.SearchStrategy[bytes]:
    """Draws answers, most of them whole ones, and some with bytes that belong nowhere."""
    first = st.sampled_from(
        (b"HTTP/1.1 201 Created", b"HTTP/1.1 409 Conflict", b"HTTP/1.0 200 OK", b"HTTP/1.1 204 No")
    )
    header = st.sampled_from(
        (
            b"Content-Type: a/b",
            b"Retry-After: 1",
            b"Connection: close",
            b"X:y",
            b"Bad header",
            b": z",
        )
    )
    plain = st.sampled_from((b"", b"{}", b"0123456789abcdef"))

    def answer(first: bytes, headers: list[bytes], body: bytes, form: str, junk: bytes) -> bytes:
        if form == "chunks":
            headers = [*headers, b"Transfer-Encoding: chunked"]
            half = len(body) // 2
            pieces = (piece for piece in (body[:half], body[half:], b"") if piece or not body)
            chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece]
            body = b"".join((*chunks, b"0\r\n\r\n"))
        else:
            length = len(body) + (form == "short")
            headers = [*headers, b"Content-Length: %d" % length]
        return b"\r\n".join((first, *headers, b"", body)) + junk

    forms = st.sampled_from(("length", "chunks", "short"))
    junk = st.sampled_from((b"", b"", b"more"))
    return st.builds(answer, first, st.lists(header, max_size=3), plain, forms, junk)


@examples()
@given(answers())
def test_an_answer_that_is_taken_is_what_llhttp_reads(answer: bytes) -> None:
    theirs = Answer()
    with suppress(httptools.HttpParserError):  # It may read the answer, and refuse what follows.
        theirs.parser.feed_data(answer)
    try:
        ours = ReplyReader().feed(answer)
    except ReplyError:
        return
    assert (ours is not None) == theirs.complete
    if ours is not None:
        assert (ours.status, ours.body) == (theirs.status, theirs.body)

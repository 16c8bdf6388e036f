"""Requests are read as llhttp reads them, the parser of Node.js; none is taken that it refuses."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

import httptools
import pytest
from hypothesis import assume, given

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

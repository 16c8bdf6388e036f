"""Requests are read alike in any pieces, and any bytes are a request or are refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.tools.cluster.apiserver.http_reader import BadRequestError, RequestReader
from berth.tools.kubernetes.api.requests.request import HttpRequest
from tests.kit.examples import examples

BODIES = st.binary(max_size=30)
HEADERS = st.sampled_from(
    ["Host: h", "X: y", "x: z", "Connection: close", "Expect: 100-continue", "Content-Type: a"]
)
SIZES = st.sampled_from(["", " ", ";e=1", ";" + "x" * 100])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    body = draw(BODIES)
    headers = draw(st.lists(HEADERS, max_size=3))
    method, path = (
        draw(st.sampled_from(["GET", "POST"])),
        draw(st.sampled_from(["/", "/a%20b?c=d&c=e", "/%ff"])),
    )
    if draw(st.booleans()):
        headers.append(f"Content-Length: {len(body)}")
        sent = body
    else:
        headers.append("Transfer-Encoding: chunked")
        at, sent = 0, b""
        while at < len(body):
            size = draw(st.integers(1, len(body) - at))
            sent += f"{size:x}{draw(SIZES)}\r\n".encode() + body[at : at + size] + b"\r\n"
            at += size
        sent += b"0\r\n" + b"T: x\r\n" * draw(st.integers(0, 2)) + b"\r\n"
    return "\r\n".join([f"{method} {path} HTTP/1.1", *headers, "", ""]).encode() + sent


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Draws requests, some of them with a few bytes changed, removed or added."""
    sent = bytearray(b"".join(draw(st.lists(requests(), min_size=1, max_size=3))))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(sent)))
        sent[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(sent)


def read(pieces: list[bytes]) -> tuple[list[HttpRequest], int, int]:
    """Returns the requests, the status of the refusal that ended them, and the unread bytes."""
    reader = RequestReader()
    complete: list[HttpRequest] = []
    for piece in pieces:
        reader.feed(piece)
        try:
            while (request := reader.next()) is not None:
                complete.append(request)
        except BadRequestError as problem:
            return complete, problem.status, 0
    return complete, 0, len(reader)


@examples(2)
@given(streams() | st.binary(max_size=200), st.data())
def test_pieces_make_no_difference(sent: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=12)))
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    assert read(pieces) == read([sent]) == read([sent[i : i + 1] for i in range(len(sent))])

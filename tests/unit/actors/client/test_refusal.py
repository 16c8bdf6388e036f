"""The error message of an answer that refuses a request."""

from __future__ import annotations

import pytest

from berth.actors.client.rest import refusal


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (
            b'{"kind":"Status","message":"no such pod","reason":"NotFound","code":404}',
            "no such pod",
        ),
        (b"{}", "HTTP 404"),
        (b"<html>\n  <h1>Not Found</h1>\n</html>\n", "HTTP 404: <html> <h1>Not Found</h1> </html>"),
        (b"\xff\n\x00", "HTTP 404: \ufffd \x00"),
    ],
)
def test_a_refusal_is_one_line(raw: bytes, told: str) -> None:
    assert str(refusal(404, raw, None)) == told

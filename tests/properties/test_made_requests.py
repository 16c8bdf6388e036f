"""Whatever a client sends is answered, and no mistake of a client is one of the server."""

from __future__ import annotations

import asyncio
from contextlib import closing
from http.client import HTTPConnection
from random import Random
from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st

from berth.tools.cluster.apiserver.app import serve
from tests.golden.api_requests import Player
from tests.golden.fuzz_requests import problem_of
from tests.golden.made_requests import MadeRequests
from tests.kit.examples import examples
from tests.kit.stores import fresh_store

SECONDS = 10.0
REQUESTS = 40


def problems_of(port: int, seed: int) -> list[str]:
    """Sends made requests. Returns what is wrong with the answers."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection:
        player = Player(connection, "made")
        player.prepare()
        made, found = MadeRequests(Random(seed)), []
        for _ in range(REQUESTS):
            request = made.next()
            if "watch" in request.line or "timeoutSeconds" in request.line:
                continue  # it takes a second
            status, headers, body = player.send(request)
            if problem := problem_of(status, headers.get("content-type", ""), body):
                found.append(f"{problem}\n{request}")
        return found


@given(seed=st.integers(min_value=0, max_value=2**32))
@examples(0.5)
def test_made_requests_are_answered(seed: int) -> None:
    async def story() -> list[str]:
        async with serve(store=fresh_store()) as url:
            return await asyncio.to_thread(problems_of, urlsplit(url).port or 0, seed)

    assert not asyncio.run(story())

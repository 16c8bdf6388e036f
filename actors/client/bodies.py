"""Reads the bodies of answers in part: no server can fill the memory of the process."""

from __future__ import annotations

import aiohttp


async def read_up_to(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Returns the first `most` bytes of a body, or all of it if it is shorter."""
    chunks: list[bytes] = []
    left = most
    async for chunk in response.content.iter_any():
        chunks.append(chunk[:left])
        left -= len(chunk)
        if left <= 0:
            break
    return b"".join(chunks)

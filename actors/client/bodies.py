"""Reads the bodies of answers in part, so that no server can fill the memory of the process."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import aiohttp
import anyio.lowlevel


class TooLongError(Exception):
    """The answer is longer than the limit."""


async def read_body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Returns a body. Raises TooLongError if it has more than `most` bytes."""
    body = await read_up_to(response, most + 1)
    if len(body) > most:
        raise TooLongError(f"expected an answer of at most {most >> 20} MiB, got a longer one")
    return body


async def read_lines(response: aiohttp.ClientResponse, most: int) -> AsyncGenerator[list[bytes]]:
    """Yields the lines of a body, in lists of the lines that arrived at the same time.

    The list is empty if only a part of a line arrived. Raises TooLongError if a line has more than
    `most` bytes, or has no end after so many.
    """
    begun: list[bytes] = []  # the pieces of the line that has no end yet
    length = 0
    async for chunk in response.content.iter_any():
        piece, *others = chunk.split(b"\n")
        begun.append(piece)
        length += len(piece)
        if length > most:
            raise TooLongError(f"expected lines of at most {most >> 20} MiB, got a longer one")
        lines: list[bytes] = []
        if others:
            lines = [b"".join(begun), *others]
            begun = [lines.pop()]
            length = len(begun[0])
        yield lines


async def read_up_to(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Returns the first `most` bytes of a body, or all of it if it is shorter."""
    chunks: list[bytes] = []
    left = most
    async for chunk in response.content.iter_any():
        # aiohttp decompresses the next chunk as soon as this one is taken, without a pause.
        await anyio.lowlevel.checkpoint()
        chunks.append(chunk[:left])
        left -= len(chunk)
        if left <= 0:
            break
    return b"".join(chunks)

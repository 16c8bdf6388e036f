"""The client of commands that answer questions. It cannot write.

`explain`, `whatif`, `why`, `doctor`, `top` and `shadow` promise to change nothing. Their client
keeps the promise for them, below every command and plugin.
"""

from __future__ import annotations

import re

from .reply import Reply
from .rest import Client, ConnectionFailedError
from .wire import Headers

# The kinds that are created to ask a question, and that the API server does not store.
_REVIEW = re.compile(
    r"/apis/(authorization|authentication)\.k8s\.io/v[0-9a-z]+/(namespaces/[^/]+/)?[a-z]+reviews"
)


class WriteRefusedError(ConnectionFailedError):
    """A write was not sent, because the client only reads."""


class ReadOnlyClient(Client):
    """A client that sends reads and reviews; it raises WriteRefusedError for all other requests."""

    async def _write_reply(self, method: str, path: str, data: bytes, headers: Headers) -> Reply:
        if method != "POST" or not _REVIEW.fullmatch(path.partition("?")[0]):
            raise WriteRefusedError(f"{self.server}: not sent, as this only reads: {method} {path}")
        return await super()._write_reply(method, path, data, headers)

"""Refuses requests from web pages in a browser, because the clients of this server need no
credentials.

Any web page can send requests to a port of the machine on which the browser runs. Two headers
distinguish such requests from kubectl's. A page whose host name resolves to 127.0.0.1 (DNS
rebinding) sends that name as the Host. A request of any other page carries the page's Origin if it
could change something, or if the page could read the answer. The port in the Host is ignored: it
differs for a forwarded connection, and it says nothing about the page.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ..types.api_documents import RefusedError

LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:@,/\s]+))(?::\d+)?", re.IGNORECASE)
_SCHEME = re.compile(r"https?://")


class Guard:
    """The check of requests. `hosts` are the server's names and addresses beside the local ones."""

    def __init__(self, hosts: Collection[str]) -> None:
        self._hosts = {host.lower() for host in (*LOCAL_HOSTS, *hosts)}

    def check(self, headers: Mapping[str, str]) -> None:
        """Raises RefusedError: 403 for a foreign Host or Origin, 400 without a Host."""
        host = headers.get("host", "")
        if not host:
            raise RefusedError(400, "BadRequest", "Host: expected one, got none")
        named = _HOST.fullmatch(host)
        if named is None or (named[1] or named[2]).lower() not in self._hosts:
            expected = ", ".join(sorted(self._hosts))
            message = (
                f"Host: expected one of {expected}, got {host!r}; --allowed-host allows another"
            )
            raise RefusedError(403, "Forbidden", message)
        origin = headers.get("origin")
        if origin is not None and _SCHEME.sub("", origin, count=1).lower() != host.lower():
            raise RefusedError(
                403,
                "Forbidden",
                f"Origin: pages of another origin are not answered, got {origin!r}",
            )

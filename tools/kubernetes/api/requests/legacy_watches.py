"""The deprecated paths of watches: /api/v1/watch/pods is a watch of /api/v1/pods."""

from __future__ import annotations

import msgspec

from .request import HttpRequest

_PREFIX = "watch"


def without_watch_prefix(request: HttpRequest) -> HttpRequest:
    """Returns the request that a deprecated path stands for; any other request as it is."""
    parts = request.path.strip("/").split("/")
    at = 2 if parts[0] == "api" else 3
    if (
        request.method != "GET"
        or parts[0] not in ("api", "apis")
        or parts[at : at + 1] != [_PREFIX]
    ):
        return request
    rest = parts[at + 1 :]
    query = {**request.query, "watch": "true"}
    is_within = rest[:1] == ["namespaces"] and len(rest) > 2
    named = rest[3:] if is_within else rest[1:]
    if len(named) == 1:
        rest = rest[:-1]
        query["fieldSelector"] = f"metadata.name={named[0]}"
    return msgspec.structs.replace(request, path="/" + "/".join([*parts[:at], *rest]), query=query)

"""Requests to the server's pages without a socket, and servers that everybody may ask."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, unquote, urlsplit

from multidict import CIMultiDict

from berth.actors.server.request import Request
from berth.config.options import Authorization, Options, SecureServing
from tests.kit.processes import free_port

OPEN = "--authorization-always-allow-paths=/*"


def open_to_all() -> Options:
    """Options with a port of this machine that serves all pages to everybody."""
    serving = SecureServing("127.0.0.1", free_port())
    return Options(serving=serving, authorization=Authorization(always_allow_paths=("/*",)))


def url_of(options: Options) -> str:
    assert options.serving is not None
    return f"https://{options.serving.bind_address}:{options.serving.secure_port}"


def request_for(
    target: str,
    *headers: tuple[str, str],
    method: str = "GET",
    certificates: tuple[bytes, ...] = (),
) -> Request:
    """Returns the request for a target such as /livez?verbose."""
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    return Request(unquote(parts.path), method, query, CIMultiDict(headers), certificates)


def kubeconfig(url: str, name: str = "u", **user: str) -> str:
    """Returns the text of a kubeconfig for this server, with a user of this name."""
    context = {"cluster": "c", "user": name}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "c", "context": context}],
        "current-context": "c",
    }
    return json.dumps(document)

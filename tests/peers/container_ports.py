"""What the containers of the suites do: a file of scripts, and the servers behind their ports.

One server answers as nginx, and two echo; a proxy stands for the network of the pods. The commands
are in stand_in/peer_containers.py.
"""

from __future__ import annotations

import json
import socketserver
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

PAGES = {"/": b"<h1>Welcome to nginx!</h1>", "/foo.dat": b"foo"}


class Containers(NamedTuple):
    """The file of scripts, and the URL of the proxy that their commands use."""

    scripts: Path
    proxy: str


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as in http.server
        """Says nothing."""


class _Nginx(_Answers):
    def do_GET(self) -> None:  # the name that http.server asks for
        page = PAGES.get(self.path)
        self.send_response(404 if page is None else 200)
        self.send_header("Content-Length", str(len(page or b"")))
        self.end_headers()
        self.wfile.write(page or b"")


class _PodNetwork(_Answers):
    """Answers for whatever listens in a pod: it sends to a login, as a notebook server does."""

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", "/hub/login")
        self.send_header("Content-Length", "0")
        self.end_headers()


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


@contextmanager
def containers(place: Path) -> Iterator[Containers]:
    """Runs the servers during the block, and writes the file of scripts."""
    with ExitStack() as stack:

        def served(make: type[socketserver.TCPServer], handler: type) -> int:
            server = stack.enter_context(make(("127.0.0.1", 0), handler))
            Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            return int(server.server_address[1])

        ports = {
            80: served(ThreadingHTTPServer, _Nginx),
            1234: served(_Server, _Echo),
            1235: served(_Server, _Echo),
        }
        # A command with a path of its own on the disk does nothing.
        does_nothing = {"exec": {"dd *": ""}}
        does = {"call": "peer_containers:run", "logs": "this is a test", "ports": ports}
        file = place / "scripts.yaml"
        file.write_text(json.dumps({"scripts": [does_nothing, does]}))
        proxy = served(ThreadingHTTPServer, _PodNetwork)
        yield Containers(file, f"http://127.0.0.1:{proxy}")

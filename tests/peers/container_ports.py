"""What the containers of the suites do: a file of scripts, and the servers behind its ports.

One server answers as nginx, and two echo. The commands are in stand_in/peer_containers.py.
"""

from __future__ import annotations

import json
import socketserver
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

PAGES = {"/": b"<h1>Welcome to nginx!</h1>", "/foo.dat": b"foo"}


class _Nginx(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # the name that http.server asks for
        page = PAGES.get(self.path)
        self.send_response(404 if page is None else 200)
        self.send_header("Content-Length", str(len(page or b"")))
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as in http.server
        """Says nothing."""


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


@contextmanager
def container_scripts(place: Path) -> Iterator[Path]:
    """Runs the servers during the block; yields the file of scripts."""
    with ExitStack() as stack:
        ports = {}
        servers = (80, ThreadingHTTPServer, _Nginx), (1234, _Server, _Echo), (1235, _Server, _Echo)
        for port, make, handler in servers:
            server = stack.enter_context(make(("127.0.0.1", 0), handler))
            Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            ports[port] = server.server_address[1]
        # A command with a path of its own on the disk does nothing.
        does_nothing = {"exec": {"dd *": ""}}
        does = {"call": "peer_containers:run", "logs": "this is a test", "ports": ports}
        file = place / "scripts.yaml"
        file.write_text(json.dumps({"scripts": [does_nothing, does]}))
        yield file

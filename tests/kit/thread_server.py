"""A server in another thread, for commands that run an event loop of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from threading import Thread


@contextmanager
def in_thread(server: HTTPServer) -> Iterator[str]:
    """Yields the address of the server, which answers during the block."""
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()

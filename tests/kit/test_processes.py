"""Ports for the processes of the tests."""

from __future__ import annotations

import socket

import pytest

from tests.kit import processes
from tests.kit.processes import free_port


def test_a_free_port_is_given_to_nobody_else() -> None:
    with socket.socket() as client:
        client.bind(("127.0.0.1", 0))
        given_to_clients: int = client.getsockname()[1]
    ports = [free_port() for _ in range(5)]
    assert len(set(ports)) == 5
    assert max(ports) < 32_768 <= given_to_clients


def test_a_port_that_is_taken_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    port, other = free_port(), free_port()
    monkeypatch.setattr(processes, "_PORTS", iter((port, other)))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        assert free_port() == other

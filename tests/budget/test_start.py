"""What an API server imports before it answers its first request.

Modules are what its start costs: each takes half a millisecond. So what few servers need is
imported by whoever needs it first.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import sys
from berth.actors.cli import main
from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.program import apiserver
from berth.tools.cluster.apiserver.this_machine import this_machine
from berth.tools.kubernetes.api.requests.field_managers import SERVER
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.writes.registry import Api

store = Store(this_machine())
Api(store, manager=SERVER).seed()
request = HttpRequest("GET", "/readyz", {}, {"host": "127.0.0.1"}, b"")
assert Server(store).answer(request).body == b"ok"
print(*sys.modules)
"""
API = "berth.tools.kubernetes.api"
MOST_OF_BERTH = 172
# The modules that others bring with them, or that are large.
LEFT_OUT = (
    *("aiohttp", "anyio", "cryptography", "difflib", "numpy", "textual", "yaml"),
    "berth.actors.scheduling.cel",
    f"{API}.cel_cost",
    f"{API}.ownership.applies",
    f"{API}.policy_expressions",
    f"{API}.rules.device_rules",
    f"{API}.rules.pod_rules",
    f"{API}.rules.workload_rules",
    f"{API}.tables",
    f"{API}.types.custom_definitions",
    f"{API}.types.discovery",
    f"{API}.types.openapi",
    f"{API}.types.protobuf",
    "berth.tools.cluster.apiserver.authority",
    "berth.tools.cluster.apiserver.journal",
    "berth.tools.cluster.apiserver.snapshot",
    "berth.tools.cluster.apiserver.streams.pod_streams",
)


@pytest.fixture(scope="module")
def imported() -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", START], capture_output=True, text=True, check=True, timeout=60
    )
    return run.stdout.split()


@pytest.mark.parametrize("name", LEFT_OUT)
def test_an_api_server_starts_without_what_few_need(name: str, imported: list[str]) -> None:
    assert [each for each in imported if f"{each}.".startswith(f"{name}.")] == []


def test_an_api_server_starts_with_few_modules(imported: list[str]) -> None:
    assert len([each for each in imported if each.startswith("berth.")]) <= MOST_OF_BERTH

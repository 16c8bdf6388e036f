"""Runs the commands about API-initiated eviction, one after another, in a toy cluster."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, write_files
from tests.docs.consoles import follow
from tests.kit.kubectl import PacedDaemon

EVICTION = ROOT / "docs/eviction.md"
SECONDS = 60.0
PROGRAMS = Path(sys.executable).parent  # with berth

pytestmark = [
    pytest.mark.full("waits"),
    pytest.mark.skipif(
        shutil.which("kubectl") is None or shutil.which("curl") is None,
        reason="kubectl and curl are not on the PATH",
    ),
]


@pytest.fixture
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PacedDaemon]:
    folder = tmp_path_factory.mktemp("eviction")
    write_files(EVICTION, folder)
    daemon = PacedDaemon(folder, "demo", "--keep", "--nodes", "3", "-f", str(folder / "zk.yaml"))
    daemon.kubectl.environment["PATH"] = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    yield daemon
    assert daemon.end() == 0


def test_the_commands_print_what_the_page_shows(zookeeper: PacedDaemon) -> None:
    looks = ("kubectl get",)
    section = "API-initiated eviction"
    follow(EVICTION, section, zookeeper.kubectl, looks, SECONDS, zookeeper.hurried)

"""Runs the commands about evictions under node pressure, one after another, in a toy cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, write_files
from tests.docs.consoles import follow
from tests.kit.kubectl import PacedDaemon
from tests.kit.programs import needs

EVICTION = ROOT / "docs/eviction.md"
SECONDS = 90.0
PROGRAMS = Path(sys.executable).parent  # with berth


@pytest.mark.full("waits")
@needs("kubectl")
def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    write_files(EVICTION, tmp_path)
    options = (
        "-f",
        str(tmp_path / "leak.yaml"),
        "--kubelet-config",
        str(tmp_path / "kubelet.yaml"),
    )
    daemon = PacedDaemon(tmp_path, "demo", "--keep", "--nodes", "3", *options)
    try:
        daemon.kubectl.environment["PATH"] = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
        looks = ("kubectl get",)
        section = "Node-pressure eviction"
        follow(EVICTION, section, daemon.kubectl, looks, SECONDS, daemon.hurried)
    finally:
        code = daemon.end()
    assert code == 0

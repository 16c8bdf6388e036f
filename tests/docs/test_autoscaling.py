"""Runs the commands about usage and autoscaling, one after another, in a toy cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, write_files
from tests.docs.consoles import follow
from tests.kit.kubectl import Daemon, PacedDaemon
from tests.kit.programs import needs

PAGE = ROOT / "docs/toy-cluster.md"
SECONDS = 150.0

pytestmark = [
    pytest.mark.full("waits"),
    needs("kubectl"),
]


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PacedDaemon]:
    folder = tmp_path_factory.mktemp("autoscaling")
    write_files(PAGE, folder)
    daemon = PacedDaemon(folder, "demo", "--keep", "--nodes", "2", "-f", str(folder / "shop.yaml"))
    yield daemon
    assert daemon.end() == 0


def test_the_commands_print_what_the_page_shows(shop: PacedDaemon) -> None:
    looks = ("kubectl get", "kubectl top")
    follow(PAGE, "Usage and autoscaling", shop.kubectl, looks, SECONDS, shop.hurried)


def test_a_server_alone_has_no_metrics(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "apiserver")
    for what in ("nodes", "pods"):
        assert "Metrics API not available" in daemon.kubectl.refused("top", what)
    assert daemon.end() == 0

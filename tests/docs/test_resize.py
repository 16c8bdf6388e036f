"""Runs the commands about resizes and static pods, one after another, each in a toy cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, write_files
from tests.docs.consoles import follow
from tests.kit.kubectl import PacedDaemon
from tests.kit.programs import needs

PAGE = ROOT / "docs/eviction.md"
SECONDS = 60.0

pytestmark = [
    pytest.mark.full("waits"),
    needs("kubectl"),
]


@pytest.mark.parametrize(
    ("section", "options"),
    [
        ("Resize in place", ("--nodes", "1", "-f", "resize.yaml")),
        ("Static pods", ("--kubelet-config", "static-pods.yaml")),
    ],
)
def test_the_commands_print_what_the_page_shows(
    section: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    write_files(PAGE, tmp_path)
    named = [str(tmp_path / each) if each.endswith(".yaml") else each for each in options]
    daemon = PacedDaemon(tmp_path, "demo", "--keep", *named)
    try:
        follow(PAGE, section, daemon.kubectl, ("kubectl get",), SECONDS, daemon.hurried)
    finally:
        ended = daemon.end()
    assert ended == 0

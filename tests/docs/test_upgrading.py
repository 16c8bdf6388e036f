"""The commands that check and convert configuration files print what the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.actors.cli import main
from tests.docs.blocks import ROOT, Block, blocks, exchanges, write_files

CONFIGURATION, UPGRADING = ROOT / "docs/configuration.md", ROOT / "docs/upgrading.md"
EXCHANGES = [*blocks(CONFIGURATION, "console"), *blocks(UPGRADING, "console")]


@pytest.mark.parametrize("block", EXCHANGES, ids=str)
def test_berth_config_prints_what_the_page_shows(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for page in (CONFIGURATION, UPGRADING):
        write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    for command, printed in exchanges(block):
        program, *arguments = command.split()
        assert (program, arguments[0]) == ("berth", "config")
        assert CliRunner().invoke(main, arguments).stdout == printed

"""The commands of the page on operating print what it shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks, exchanges
from tests.docs.operating import OPERATING, printed, settled, write_logs

BLOCKS = blocks(OPERATING, "console")


@pytest.mark.parametrize("block", BLOCKS, ids=str)
async def test_commands_print_what_the_page_shows(block: Block, logs: Path) -> None:
    for command, expected in exchanges(block):
        if command.startswith("jq") and shutil.which("jq") is None:
            pytest.skip("jq is not installed")
        assert settled(printed(command, logs)) == expected


@pytest.fixture
async def logs(tmp_path: Path) -> Path:
    await write_logs(tmp_path)
    return tmp_path

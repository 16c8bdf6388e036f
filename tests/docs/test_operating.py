"""The commands of the page on operating print what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks, exchanges
from tests.docs.operating import OPERATING, printed, settled, write_logs
from tests.kit.programs import missing

BLOCKS = blocks(OPERATING, "console")


@pytest.mark.full
@pytest.mark.parametrize("block", BLOCKS, ids=str)
async def test_commands_print_what_the_page_shows(block: Block, logs: Path) -> None:
    for command, expected in exchanges(block):
        if command.startswith("jq") and (why := missing("jq")):
            pytest.skip(why)
        assert settled(printed(command, logs)) == expected


@pytest.fixture
async def logs(tmp_path: Path) -> Path:
    await write_logs(tmp_path)
    return tmp_path

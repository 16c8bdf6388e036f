"""The commands of docs/eviction.md about taints print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import anyio
import pytest

from tests.docs.blocks import ROOT, exchanges, of_section, write_files
from tests.kit.processes import berth
from tests.kit.programs import needs

PAGE = ROOT / "docs/eviction.md"


def printed(command: str, folder: Path, kubeconfig: str) -> str:
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env={**os.environ, "KUBECONFIG": kubeconfig},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    return (done.stdout + done.stderr).rstrip("\n")


@pytest.mark.full("waits")
@needs("kubectl")
async def test_the_commands_about_taints_print_what_the_page_shows(tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    async with berth(tmp_path, "demo", "--keep") as process:
        hint = re.search(r"--kubeconfig (\S+)", await process.says("API server at "))
        assert hint is not None
        for block in of_section(PAGE, "Taints"):
            for command, expected in exchanges(block):
                shown = await anyio.to_thread.run_sync(printed, command, tmp_path, hint[1])
                assert shown == expected.rstrip("\n"), command

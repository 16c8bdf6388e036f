"""Write anew what the commands in docs/explain.md and docs/plugins.md print: `python -m tests.docs.refresh`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.docs.blocks import EXPLAIN, PLUGINS, blocks, exchanges, install, run_berth, write_files


def refresh(page: Path, folder: Path, *site: Path) -> None:
    text = page.read_text()
    for block in blocks(page, "console"):
        printed = "".join(f"$ {command}\n{run_berth(command, folder, *site)}" for command, _ in exchanges(block))
        text = text.replace(f"```console\n{block.text}```", f"```console\n{printed}```")
    page.write_text(text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_files(EXPLAIN, Path(folder))
        refresh(EXPLAIN, Path(folder))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as site:
        write_files(PLUGINS, Path(folder))
        install(Path(folder), Path(site))
        refresh(PLUGINS, Path(folder), Path(site))

"""Update what the commands in the pages print, the diagrams and the tables of flags:
`python -m tests.docs.refresh`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio

from tests.docs import (
    actor_diagram,
    fault_table,
    flag_tables,
    operating,
    queue_diagram,
    reason_table,
    recipes,
    rule_tables,
    suite_table,
    verb_table,
)
from tests.docs.blocks import (
    ARCHITECTURE,
    EXPLAIN,
    PLUGINS,
    PREEMPTION,
    WHATIF,
    blocks,
    diagram,
    exchanges,
    install,
    preview,
    run_berth,
    write_files,
)


def refresh(page: Path, folder: Path, *site: Path) -> None:
    text = page.read_text()
    for block in blocks(page, "console"):
        printed = "".join(
            f"$ {command}\n{run_berth(command, folder, *site)}" for command, _ in exchanges(block)
        )
        text = text.replace(f"```console\n{block.text}```", f"```console\n{printed}```")
    page.write_text(text)


def refresh_preview(folder: Path) -> None:
    """Rewrites the JSON block with the preemption part of the page's first command."""
    ((command, _),) = exchanges(blocks(PREEMPTION, "console")[0])
    (shown,) = blocks(PREEMPTION, "json")
    text = PREEMPTION.read_text()
    PREEMPTION.write_text(
        text.replace(f"```json\n{shown.text}```", f"```json\n{preview(command, folder)}```")
    )


def refresh_operating(folder: Path) -> None:
    anyio.run(operating.write_logs, folder)
    text = operating.OPERATING.read_text()
    for block in blocks(operating.OPERATING, "console"):
        shown = "".join(
            f"$ {command}\n{operating.settled(operating.printed(command, folder))}"
            for command, _ in exchanges(block)
        )
        text = text.replace(f"```console\n{block.text}```", f"```console\n{shown}```")
    operating.OPERATING.write_text(text)


def refresh_diagram(kind: str, drawn: str) -> None:
    text = ARCHITECTURE.read_text()
    ARCHITECTURE.write_text(text.replace(diagram(kind).text, drawn))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        refresh_operating(Path(folder))
    for drawing in (actor_diagram, queue_diagram):
        refresh_diagram(drawing.KIND, drawing.drawn())
    flag_tables.refresh()
    rule_tables.refresh()
    verb_table.refresh()
    fault_table.refresh()
    reason_table.refresh()
    suite_table.refresh()
    recipes.refresh()
    for page in (EXPLAIN, PREEMPTION, WHATIF):
        with tempfile.TemporaryDirectory() as folder:
            write_files(page, Path(folder))
            refresh(page, Path(folder))
            if page == PREEMPTION:
                refresh_preview(Path(folder))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as site:
        write_files(PLUGINS, Path(folder))
        install(Path(folder), Path(site))
        refresh(PLUGINS, Path(folder), Path(site))

"""The fenced code blocks of the documentation."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.kit.forks import ran

ROOT = Path(__file__).parents[2]
EXPLAIN, PREEMPTION = ROOT / "docs/explain.md", ROOT / "docs/preemption.md"
PLUGINS, BENCH = ROOT / "docs/plugins.md", ROOT / "docs/bench.md"
WHATIF = ROOT / "docs/whatif.md"
ARCHITECTURE = ROOT / "docs/architecture.md"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"^```(\w*)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(msgspec.Struct, frozen=True):
    """A block of a page. `title` is the file name in its fence, or ""; `line` its first line."""

    page: str
    language: str
    title: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """Returns the blocks of a page in order, of all languages or of one."""
    text = page.read_text()
    every_block = [
        Block(
            page.name, match[1], match[2] or "", match[3], text.count("\n", 0, match.start(3)) + 1
        )
        for match in _FENCE.finditer(text)
    ]
    return [block for block in every_block if language in (None, block.language)]


def diagram(kind: str) -> Block:
    """Returns the diagram on the architecture page that begins with a line."""
    (block,) = (block for block in blocks(ARCHITECTURE, "mermaid") if block.text.startswith(kind))
    return block


def write_files(page: Path, folder: Path) -> None:
    """Writes every titled block to the file of that name."""
    for block in blocks(page):
        if block.title:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)


def install(project: Path, site: Path) -> None:
    """Installs a project with pip. Removes its sources, so that only the installed package runs."""
    options = (
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--disable-pip-version-check",
    )
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *options,
        "--target",
        site,
        project,
    ]
    subprocess.run(pip, check=True, capture_output=True, timeout=120)
    for package in project.glob("*/"):
        shutil.rmtree(package)


def of_section(page: Path, heading: str) -> list[Block]:
    """Returns the console blocks below a heading of the second level."""
    text = page.read_text()
    begin = text.index(f"\n## {heading}\n")
    end = text.find("\n## ", begin + 1)
    lines = [text.count("\n", 0, place) for place in (begin, end if end > 0 else len(text))]
    return [block for block in blocks(page, "console") if lines[0] < block.line < lines[1]]


def exchanges(block: Block) -> list[tuple[str, str]]:
    """Returns the commands of a console block, each with its output."""
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"{block}: expected a line that begins with $"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def preview(command: str, folder: Path) -> str:
    """Returns the preemption part of `berth explain -o json`, indented for the page."""
    decision = msgspec.json.decode(run_berth(f"{command} -o json", folder))
    return msgspec.json.format(msgspec.json.encode(decision["preemption"])).decode() + "\n"


def run_berth(command: str, folder: Path, *path: Path) -> str:
    """Runs a `berth` command in a folder. Returns its standard output, then its standard error
    unless `2> FILE` takes it.
    """
    command, _, errors = command.partition(" 2> ")
    program, *arguments = command.split()
    assert program == "berth"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "COLUMNS": "110",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    _, output, complaints = ran(*arguments, folder=folder, environment=environment)
    if errors:
        (folder / errors).write_text(complaints)
    printed = output if errors else output + complaints
    return "".join(line.rstrip() + "\n" for line in printed.splitlines())

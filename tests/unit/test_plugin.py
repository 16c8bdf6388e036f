"""berth.plugin has what a plugin's author needs, and nothing else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from berth import plugin
from tests.docs.blocks import PLUGINS, ROOT, blocks, write_files

README = ROOT / "README.md"


def imported(text: str) -> dict[str, set[str]]:
    """Returns the names that a module imports from each module below berth."""
    names: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "berth":
            names.setdefault(str(node.module), set()).update(alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "berth":
                    names.setdefault(alias.name, set())
    return names


def documented() -> set[str]:
    """Returns the words in code on docs/plugins.md and docs/plugin-handle.md."""
    pages = PLUGINS, PLUGINS.with_name("plugin-handle.md")
    text = "\n".join(page.read_text() for page in pages)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    examples = (block.text for page in pages for block in blocks(page, "python"))
    spans = (*examples, *re.findall(r"`([^`]+)`", prose))
    return {word for span in spans for word in re.findall(r"\w+", span)}


def test_every_name_can_be_imported_and_is_listed_once() -> None:
    assert len(set(plugin.__all__)) == len(plugin.__all__)
    public = {name for name in vars(plugin) if name.isidentifier() and not name.startswith("_")}
    public -= {"annotations"}
    assert public == set(plugin.__all__)


def test_it_has_no_name_that_the_documentation_does_not_use() -> None:
    assert set(plugin.__all__) <= documented()


@pytest.mark.parametrize("page", [README, PLUGINS], ids=lambda page: page.name)
def test_examples_import_from_it_alone(page: Path) -> None:
    for block in blocks(page, "python"):
        of_tests = {"berth.testing"} if block.title.startswith("test_") else set()
        assert imported(block.text).keys() - of_tests <= {"berth.plugin"}, block


@pytest.mark.full
def test_examples_pass_a_strict_type_check_in_a_repository_of_their_own(tmp_path: Path) -> None:
    write_files(PLUGINS, tmp_path)
    assert_strict(tmp_path)


@pytest.mark.full("long")
def test_the_examples_pass_mypy_where_a_user_copies_them(tmp_path: Path) -> None:
    copytree(ROOT / "tools/docs/examples", tmp_path / "copied", ignore=ignore_patterns("*.pyc"))
    assert_strict(tmp_path)


def assert_strict(folder: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--explicit-package-bases",
            "--cache-dir",
            folder / "cache",
            ".",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""berth.plugin has what a plugin's author needs, and nothing else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from berth import plugin
from tests.docs.blocks import PLUGINS, ROOT, blocks

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

"""tests/unit mirrors the tree: a reader finds the tests of a module where the module is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

UNIT = ROOT / "tests/unit"
TOP = ROOT / "src/berth"


def mirrored(folder: Path) -> Path:
    """The folder of the tree that a folder of tests/unit belongs to."""
    return TOP / folder.relative_to(UNIT)


def names(folder: Path) -> set[str]:
    """The modules and folders in a folder, without what only Python needs."""
    return {path.stem for path in folder.iterdir()} - {"__init__", "__pycache__"}


FOLDERS = [UNIT, *sorted(path.parent for path in UNIT.rglob("*/__init__.py"))]
MODULES = sorted(UNIT.rglob("test_*.py"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_folder_is_one_of_the_tree(folder: Path) -> None:
    assert mirrored(folder).is_dir()


def concepts(folder: Path) -> set[str]:
    """The words in the modules of a folder and of those below it."""
    texts = (path.read_text().lower() for path in folder.rglob("*.py"))
    return {word for text in texts for word in re.findall(r"[a-z]+", text)}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_is_named_after_one_of_the_tree_or_a_concept_there(module: Path) -> None:
    name, folder = module.stem.removeprefix("test_"), mirrored(module.parent)
    if name in names(folder) | {folder.name}:
        return
    assert not list(folder.rglob(f"{name}.py")), "the test belongs to a folder below"
    words = concepts(folder)
    for stem in (part.rstrip("s") for part in name.split("_")):
        assert any(word.startswith(stem) for word in words), stem

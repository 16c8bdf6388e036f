"""tests/unit mirrors the tree: a reader finds the tests of a module where the module is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.docs.blocks import ROOT

UNIT = ROOT / "tests/unit"
TOP = ROOT / "src/berth"


def mirrored(folder: Path) -> Path:
    """Returns the folder of the tree that a folder of tests/unit belongs to."""
    return TOP / folder.relative_to(UNIT)


def names(folder: Path) -> set[str]:
    """Returns the modules and folders in a folder, without what only Python needs."""
    return {path.stem for path in folder.iterdir()} - {"__init__", "__pycache__"}


def test_every_folder_is_one_of_the_tree() -> None:
    folders = [UNIT, *(path.parent for path in UNIT.rglob("*/__init__.py"))]
    assert [folder for folder in folders if not mirrored(folder).is_dir()] == []


def concepts(folder: Path) -> set[str]:
    """Returns the words in the modules of a folder and of those below it."""
    texts = (path.read_text().lower() for path in folder.rglob("*.py"))
    return {word for text in texts for word in re.findall(r"[a-z]+", text)}


def misnamed(modules: Iterable[Path], folder: Path) -> Iterator[str]:
    """Yields the modules of one folder of tests that are named after nothing in the tree's folder,
    or after a module of a folder below it.
    """
    words: set[str] = set()
    for module in modules:
        name = module.stem.removeprefix("test_")
        if name in names(folder) | {folder.name}:
            continue
        words = words or concepts(folder)
        stems = (part.rstrip("s") for part in name.split("_"))
        begun = all(any(word.startswith(stem) for word in words) for stem in stems)
        if not begun or list(folder.rglob(f"{name}.py")):
            yield str(module.relative_to(ROOT))


def test_every_module_is_named_after_one_of_the_tree_or_a_concept_there() -> None:
    folders = {path.parent for path in UNIT.rglob("test_*.py")}
    modules = {folder: sorted(folder.glob("test_*.py")) for folder in sorted(folders)}
    assert [
        name for folder, group in modules.items() for name in misnamed(group, mirrored(folder))
    ] == []

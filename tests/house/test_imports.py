"""How the folders import: relative inside a top-level folder, `berth.…` across them.

So every tool that draws, indexes or jumps sees the rooms and their arrows, with the links of
src/berth or without.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from berth.actors.queue import state
from tests.docs.blocks import ROOT

TOPS = ("actors", "config", "tools")
MOST_LOOSE_FILES = 4


def suspect(top: str, depth: int) -> re.Pattern[str]:
    """Returns a pattern that is in the text of each module with a misplaced import: few are to be
    parsed.
    """
    names = rf"berth\.{top}\b|berth +import\b|(?:{'|'.join(TOPS)})\b|\.{{{depth + 1},}}"
    return re.compile(rf"^\s*(?:from|import) +(?:{names})", re.MULTILINE)


def misplaced(path: Path) -> list[str]:
    """Returns a module's imports that name its own top-level folder, or another without berth."""
    top, *below = path.relative_to(ROOT).parts
    text = path.read_text()
    if not suspect(top, len(below)).search(text):
        return []
    wrong = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(module=module, level=0) if module:
                names = [module]
                if module == "berth":
                    names = [f"berth.{alias.name}" for alias in node.names]
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(level=level) if level > len(below):
                names = [f"{'.' * level}: out of {top}"]
            case _:
                continue
        wrong += [
            f"line {node.lineno}: {name}"
            for name in names
            if name.startswith((f"berth.{top}.", *(f"{other}." for other in TOPS), "."))
            or name in (*TOPS, f"berth.{top}")
        ]
    return wrong


@pytest.mark.parametrize("top", TOPS)
def test_imports_are_relative_inside_a_top_level_folder_only(top: str) -> None:
    modules = sorted((ROOT / top).rglob("*.py"))
    assert modules
    assert {
        str(path.relative_to(ROOT)): wrong for path in modules if (wrong := misplaced(path))
    } == {}


def test_the_corridor_of_actors_has_few_loose_files() -> None:
    loose = sorted(path.name for path in (ROOT / "actors").glob("*.py"))
    assert len(loose) <= MOST_LOOSE_FILES, loose


def test_modules_are_named_by_where_they_stand() -> None:
    assert Path(state.__file__) == ROOT / "actors/queue/state.py"

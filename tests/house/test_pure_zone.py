"""A module or class whose docstring says "Pure" is under the contract of the pure zone."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

PURE = re.compile(r"\bPure\b")
CALLED = re.compile(r"\b(?:now|today|uuid[14])\(")  # few modules have this, and are parsed


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("berth", *(part for part in parts if part != "__init__")))


def called_pure() -> list[str]:
    """Returns the modules with "Pure" in a docstring."""
    modules = []
    for folder in ("actors", "config", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            if not PURE.search(text):
                continue
            nodes = ast.walk(ast.parse(text))
            documented = (node for node in nodes if isinstance(node, ast.Module | ast.ClassDef))
            if any(PURE.search(ast.get_docstring(node) or "") for node in documented):
                modules.append(module_name(path))
    return modules


def covered(module: str, contract: dict[str, list[str]]) -> bool:
    """True if the contract holds for the module and ignores none of its imports."""
    ignored = (importer for importer, _ in pairs(contract["ignore_imports"]))
    return any(
        module == source or module.startswith(f"{source}.") for source in contract["source_modules"]
    ) and not any(re.fullmatch(pattern(importer), module) for importer in ignored)


def pairs(imports: list[str]) -> Iterator[tuple[str, str]]:
    for line in imports:
        importer, imported = line.split(" -> ")
        yield importer, imported


def pattern(expression: str) -> str:
    """Returns a pattern of import-linter, whose `*` stands for one part of a name."""
    return re.escape(expression).replace(r"\*", r"[^.]+")


@pytest.fixture(scope="module")
def contract() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    pure_zone: dict[str, list[str]] = next(c for c in contracts if "pure zone" in c["name"])
    return pure_zone


def test_what_calls_itself_pure_is_under_the_contract(contract: dict[str, list[str]]) -> None:
    modules = called_pure()
    assert modules
    assert [module for module in modules if not covered(module, contract)] == []


def modules_of(contract: dict[str, list[str]]) -> Iterator[Path]:
    for path in sorted((ROOT / "actors").rglob("*.py")) + sorted((ROOT / "tools").rglob("*.py")):
        if covered(module_name(path), contract):
            yield path


def called(tree: ast.Module) -> set[str]:
    """Returns the names of the methods and functions that a module calls."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {ast.unparse(function) for function in calls}


def test_nothing_pure_reads_the_time_or_chance_by_another_way(
    contract: dict[str, list[str]],
) -> None:
    impure = ("datetime.now", "datetime.today", "date.today", "uuid.uuid1", "uuid.uuid4", "uuid4")
    texts = {path: path.read_text() for path in modules_of(contract)}
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in texts.items()
        if CALLED.search(text)
        for name in sorted(called(ast.parse(text)))
        if name.endswith(impure)
    ]
    assert found == []


def test_every_state_is_under_the_contract(contract: dict[str, list[str]]) -> None:
    states = [module_name(path) for path in sorted((ROOT / "actors").glob("*/state.py"))]
    assert states
    assert [module for module in states if not covered(module, contract)] == []

"""The commands that answer questions have no client that can write."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT


def writing_clients(path: Path) -> list[str]:
    """Returns the lines that import the client that may write, or connect with it."""
    wrong = []
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(names=names) if any(alias.name == "Client" for alias in names):
                wrong.append(ast.unparse(node))
            case ast.Call(func=ast.Name("remote"), keywords=given) if not any(
                keyword.arg == "sender" and ast.unparse(keyword.value) == "ReadOnlyClient"
                for keyword in given
            ):
                wrong.append(ast.unparse(node))
    return wrong


@pytest.mark.parametrize("room", ["answers", "views"])
def test_no_room_that_answers_questions_has_a_client_that_writes(room: str) -> None:
    modules = sorted((ROOT / "tools" / room).rglob("*.py"))
    assert any("ReadOnlyClient" in path.read_text() for path in modules)
    assert {path.name: wrong for path in modules if (wrong := writing_clients(path))} == {}

"""The prose of code and pages: words that the project does not use, because they mean too much."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

FOLDERS = ("actors", "config", "tools", ".src/berth", "tests")
BANNED = {
    r"\btold\b": "say who sends, reports, writes or knows it",
    r"\bso many\b": "name the number",
    r"(^|[.:;] )What (is|was|has|comes|came|becomes|follows)\b[^?]*$": "begin with the subject",
}
ALLOWED = re.compile(r"`[^`]*`|\"[^\"]*\"")  # code and quotations


def prose(file: Path) -> Iterator[tuple[int, str]]:
    """The comments and docstrings of a module, or the text of a page, each with its line."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        text = re.sub(r"(?ms)^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text)
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and token.string.startswith('"""')
        if token.type == tokenize.COMMENT or is_docstring:
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                yield number, line.strip(' "#')


FILES = [
    *(file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))),
    *sorted((ROOT / "docs").glob("*.md")),
]


def test_the_rule_finds_what_it_looks_for() -> None:
    assert any(re.search(rule, "What is kept is told to the queue.") for rule in BANNED)


@pytest.mark.parametrize("folder", [*FOLDERS, "docs"])
def test_no_banned_word(folder: str) -> None:
    files = [file for file in FILES if ROOT / folder in file.parents]
    assert files
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line} ({advice})"
        for file in files
        if file != Path(__file__)
        for number, line in prose(file)
        for rule, advice in BANNED.items()
        if re.search(rule, ALLOWED.sub("", line))
    ]
    assert not found, "\n".join(found)

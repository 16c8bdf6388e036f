"""The workshop's rooms: few entries, and names that tell one module or class from another."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain

from tests.docs.blocks import ROOT

MOST_ENTRIES = 9
MOST_OF_A_NAME = 2
CLASS = re.compile(r"^class ([^\W_]\w*)", re.MULTILINE)


def test_the_workshop_has_few_rooms() -> None:
    files = [p.relative_to(ROOT / "tools") for p in (ROOT / "tools").rglob("*") if p.is_file()]
    entries = {path.parts[0] for path in files if "__pycache__" not in path.parts}
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_a_file_name_names_at_most_two_modules() -> None:
    names = Counter(path.name for path in (ROOT / "tools").rglob("*.py"))
    often = {name for name, count in names.items() if count > MOST_OF_A_NAME}
    assert often == {"__init__.py"}


def test_a_class_name_names_at_most_two_classes() -> None:
    folders = (ROOT / top for top in ("actors", "config", "tools"))
    names = Counter(
        name
        for path in chain.from_iterable(folder.rglob("*.py") for folder in folders)
        for name in CLASS.findall(path.read_text())
    )
    often = {name for name, count in names.items() if count > MOST_OF_A_NAME}
    assert not often

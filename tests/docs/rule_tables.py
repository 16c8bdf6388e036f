"""The tables of the page on validation, made from the marks of types.txt and the rules of types."""

from __future__ import annotations

import inspect

from berth.tools.kubernetes.api.rules.kind_rules import ACROSS
from berth.tools.kubernetes.api.types.schema import TYPES
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs/validation.md"
FIRST = "## The rules of each type\n"


def tables() -> str:
    """Returns a table of the types that have rules: of single fields, and across them."""
    lines = [FIRST, "| type | fields | across fields |", "| --- | --- | --- |"]
    for name, shape in sorted(TYPES.items()):
        fields = [
            f"`{field}` {_words(each.marks)}"
            for field, each in (shape.fields or {}).items()
            if each.marks
        ]
        rule = ACROSS.get(name)
        if fields or rule:
            lines.append(f"| {name} | {'; '.join(fields)} | {_meaning(rule) if rule else ''} |")
    return "\n".join(lines) + "\n"


def refresh() -> None:
    before = PAGE.read_text().partition(FIRST)[0]
    PAGE.write_text(before + tables())


def _words(marks: tuple[str, ...]) -> str:
    return ", ".join(mark.replace("|", "/") for mark in marks)


def _meaning(rule: object) -> str:
    """Returns the first sentence of a rule's docstring, or its name."""
    text = inspect.getdoc(rule) or ""
    name = getattr(rule, "__name__", "")
    return " ".join(text.partition("\n\n")[0].split()) or f"`{name}`"

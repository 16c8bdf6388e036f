"""Texts from the cluster are shown as they stand."""

from __future__ import annotations

import io

from rich.console import Console

from berth.tools.answers.explain.words import shown


def test_a_text_neither_adds_lines_nor_colours_any() -> None:
    printed = io.StringIO()
    console = Console(file=printed, width=100, force_terminal=True, color_system=None)
    console.print(shown("[red]one[/red]\nforged", "\ttwo \x1b[2K\r\x07\u2028\u20ac"))
    assert printed.getvalue().splitlines() == [
        r"[red]one[/red]\nforged",
        r"        two \x1b[2K\r\a\u2028" + "\u20ac",
    ]

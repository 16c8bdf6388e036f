from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.markup import escape
from rich.table import Table

from berth.actors.telemetry.klog import printable
from berth.tools.answers.terminal.sheet import POLICY, Sheet, element

VOID = ("meta",)
HOSTILE = "</style></title><script>alert(1)</script>&amp;\"'\x1b[31m[red]\u202e"


class Reader(HTMLParser):
    """Reads a document; fails for elements that are not closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.said.append(data)


def table_of(*cells: str, style: str = "") -> Table:
    table = Table(title=escape(HOSTILE), caption="note")
    for number, _ in enumerate(cells):
        table.add_column(f"column {number}", justify="right" if number else "left")
    table.add_row(*cells, style=style)
    return table


def test_hostile_texts_are_shown_as_they_are() -> None:
    sheet = Sheet(HOSTILE)
    sheet.print(f"[green]{escape(HOSTILE)}[/green] rest", table_of(escape(HOSTILE), "1"))
    sheet.fold(HOSTILE, table_of(escape(HOSTILE)))
    reader = Reader(sheet.document())
    assert {tag for tag, _ in reader.tags} & {"script", "img", "link", "a", "red"} == set()
    shown = HOSTILE.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    assert [said for said in reader.said if "alert" in said] == [shown] * 8
    assert ("span", {"class": "green"}) in reader.tags


def test_a_table_keeps_its_styles_and_sides() -> None:
    sheet = Sheet("t")
    sheet.print(table_of("a\nb", "1", style="dim bold on blue"))
    reader = Reader(sheet.document())
    assert ("tr", {"class": "dim bold"}) in reader.tags
    assert ("td", {"class": "right"}) in reader.tags
    assert "a\nb" in reader.said


@given(st.text(), st.text())
def test_no_text_ends_an_element_or_an_attribute(text: str, value: str) -> None:
    reader = Reader(element("p", text, title=value))
    assert [tag for tag, _ in reader.tags] == ["p"]
    assert "".join(reader.said) == "\n".join(map(printable, text.split("\n")))


def test_the_policy_forbids_scripts_and_names_the_style() -> None:
    document = Sheet("t").document()
    style = re.search(r"<style>(.*)</style>", document, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert POLICY.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
    assert f'content="{POLICY}"' in document
    assert not re.search(r"https?:|url\(|@import", document)


@pytest.mark.parametrize("value", [None, ""])
def test_an_attribute_without_a_value_is_left_out(value: str | None) -> None:
    assert element("td", "x", class_=value, stroke_width=2) == '<td stroke-width="2">x</td>'

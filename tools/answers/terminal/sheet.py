"""An answer as one HTML file for a ticket: it needs no script and no other file.

A Sheet is printed to as a rich Console is, and makes paragraphs and tables of what a terminal would
show as lines. Every text is escaped, with its control characters, and the file's own policy forbids
scripts and requests.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from berth.actors.process.version import BERTH
from berth.actors.telemetry.klog import printable

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --ground: #fff; --line: #d5d9de; --soft: #5b636d;
  --green: #0a6b2d; --yellow: #7d5000; --red: #b3201f; --first: #1f5fbf; --second: #b3541e }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --ground: #16191d; --line: #3a4048; --soft: #a2aab3; --green: #6fcf8a;
    --yellow: #e2b04a; --red: #ff8a80; --first: #7fb2ff; --second: #f2a56b } }
body { margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: var(--ink);
  background: var(--ground); font: 1rem/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; overflow-wrap: anywhere }
footer { color: var(--soft); font-size: .85rem }
p { white-space: pre-line; overflow-wrap: anywhere; max-width: 60rem }
figure, .table { margin: 1.5rem 0; overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem }
caption, figcaption { text-align: left; font-weight: 600 }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; white-space: pre-line; overflow-wrap: break-word; max-width: 28rem }
.right { text-align: right; font-variant-numeric: tabular-nums }
td.right { white-space: nowrap }
.green { color: var(--green) }
.yellow { color: var(--yellow) }
.red { color: var(--red) }
.dim { color: var(--soft) }
.bold { font-weight: 600 }
summary { cursor: pointer; font-weight: 600 }
svg { display: block; max-width: 100%; min-width: 28rem; height: auto;
  font: 12px system-ui, sans-serif }
svg text { fill: var(--soft) }
.axis { stroke: var(--line) }
.line { fill: none; stroke: var(--first); stroke-width: 2 }
.line.second { stroke: var(--second); stroke-dasharray: 6 3 }
.area { fill: var(--first); fill-opacity: .2 }
@media print {
  :root { --ink: #000; --ground: #fff; --line: #999; --soft: #444; --green: #0a6b2d;
    --yellow: #7d5000; --red: #b3201f; --first: #1f5fbf; --second: #b3541e }
  body { margin: 0; max-width: none }
  table { font-size: .7rem }
  th, td { padding: .2rem .3rem }
  td.right { white-space: pre-line }
  tr, svg { break-inside: avoid }
  figure, .table { overflow: visible } }
"""
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
_CLASSES = ("green", "yellow", "red", "dim", "bold", "right")
_WIDTH = 1 << 20  # so that whoever asks breaks no lines


class Markup(str):
    """A part of an HTML document, whose texts are escaped."""

    __slots__ = ()


def text_of(text: str) -> Markup:
    """Returns a text with control characters escaped. Line ends stay."""
    return Markup(escape("\n".join(map(printable, text.split("\n")))))


def element(tag: str, *children: str, **attributes: str | float | None) -> Markup:
    """Returns an element. Children are escaped unless they are Markup. Attributes that are None or
    empty are left out; a `_` at the end of their names is dropped.
    """
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{text_of(str(value))}"'
        for name, value in attributes.items()
        if value not in (None, "")
    )
    inner = "".join(child if isinstance(child, Markup) else text_of(child) for child in children)
    return Markup(f"<{tag}{named}>{inner}</{tag}>")


class Sheet(Console):
    """A document to which code prints. It takes markup and tables of rich, and its own Markup."""

    def __init__(self, title: str) -> None:
        super().__init__(width=_WIDTH, quiet=True)
        self._title = title
        self._parts: list[Markup] = []

    def print(self, *objects: Any, **_: Any) -> None:
        self._parts += map(_part, objects)

    def fold(self, title: str, table: Table) -> None:
        """Prints a table that is folded until the reader opens it."""
        self._parts.append(element("details", element("summary", title), _table(table)))

    def document(self) -> str:
        """Returns the HTML document."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        head = element(
            "head",
            Markup('<meta charset="utf-8">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
            Markup('<meta name="viewport" content="width=device-width">'),
            element("title", self._title),
            element("style", Markup(STYLE)),
        )
        body = element(
            "main",
            element("h1", self._title),
            *self._parts,
            element("footer", element("p", f"berth {BERTH}, {now}")),
        )
        return f'<!DOCTYPE html>\n<html lang="en">{head}{element("body", body)}</html>\n'


def _part(printed: Any) -> Markup:
    if isinstance(printed, Markup):
        return printed
    if isinstance(printed, Table):
        return _table(printed)
    return element("p", _styled(str(printed)))


def _table(table: Table) -> Markup:
    title = element("caption", _plain(table.title)) if table.title else Markup()
    heads = [
        element("th", _plain(column.header), scope="col", class_=_class(column.justify))
        for column in table.columns
    ]
    columns = [list(column.cells) for column in table.columns]
    rows = []
    for number, row in enumerate(table.rows):
        cells = (
            element("td", _styled(str(cells[number])), class_=_class(column.style, column.justify))
            for column, cells in zip(table.columns, columns, strict=True)
        )
        rows.append(element("tr", *cells, class_=_class(row.style)))
    note = element("p", _plain(table.caption), class_="dim") if table.caption else Markup()
    head, body = element("thead", element("tr", *heads)), element("tbody", *rows)
    return element("div", element("table", title, head, body), note, class_="table")


def _plain(text: object) -> str:
    return Text.from_markup(str(text), emoji=False).plain


def _styled(markup: str) -> Markup:
    """Returns rich's markup as HTML; of the styles, those with a class."""
    text = Text.from_markup(markup, emoji=False)
    edges = sorted({0, len(text), *(edge for span in text.spans for edge in span[:2])})
    parts: list[str] = []
    for start, end in pairwise(edges):
        styles = (span.style for span in text.spans if span.start <= start < span.end)
        name = " ".join(filter(None, map(_class, styles)))
        piece = text.plain[start:end]
        parts.append(element("span", piece, class_=name) if name else text_of(piece))
    return Markup("".join(parts))


def _class(*styles: object) -> str:
    words = " ".join(map(str, styles)).split()
    return " ".join(word for word in words if word in _CLASSES)

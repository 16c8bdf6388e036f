"""The entries of metadata.managedFields, as objects hold them.

Most objects were written as others were: by the same managers, in the same way, in the same second.
They share a template of their entries. Steps to items of lists that name something of the object
alone, such as the IP of a pod, are marks in the template; the object has their names.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

Entry = dict[str, Any]
_MOST = 4096  # templates
_MOST_BYTES = 64 << 10  # of the JSON of a template that objects share; hardly two share more
_ENCODER = msgspec.json.Encoder()
# Steps to items that name something of one object alone: its IPs, and what owns it.
_OWN_NAME = re.compile(rb'"k:\{\\"(?:ip|uid)\\":\\"[^"\\]*\\"\}"')
_templates: dict[bytes, EntryTemplate] = {}


def mark(number: int) -> str:
    """Returns the mark in a template for one of the names."""
    return f"#{number}"


class EntryTemplate:
    """The entries that objects share."""

    __slots__ = ("_raw", "alone", "entries")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.alone = FieldEntries(self, ())  # of objects that name nothing of their own
        self._raw: bytes | None = None

    @property
    def raw(self) -> bytes:
        if self._raw is None:
            self._raw = _ENCODER.encode(self.entries)
        return self._raw


class FieldEntries:
    """The entries of an object: a template, and the names of the object's own items."""

    __slots__ = ("names", "template")

    def __init__(self, template: EntryTemplate, names: tuple[str, ...]) -> None:
        self.template = template
        self.names = names

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FieldEntries)
            and self.template is other.template
            and self.names == other.names
        )

    def __hash__(self) -> int:
        return hash((self.template, self.names))

    def differs_in_times(self, other: FieldEntries | None) -> bool:
        """True if these entries are the same as others, but for their times."""
        if other is None or self.names != other.names:
            return False
        if self.template is other.template:
            return True
        mine, theirs = self.template.entries, other.template.entries
        return len(mine) == len(theirs) and all(
            {**one, "time": None} == {**two, "time": None}
            for one, two in zip(mine, theirs, strict=True)
        )

    @property
    def raw(self) -> bytes:
        """The JSON of the entries."""
        raw = self.template.raw
        for i, name in enumerate(self.names):
            raw = raw.replace(_marked(i), _ENCODER.encode(name))
        return raw

    def are_sent(self, rows: Any) -> bool:
        """True if a client sends these entries, as most send back what they got."""
        return _ENCODER.encode(rows) == self.raw or rows == self.listed()

    def listed(self) -> list[Entry]:
        """Returns the entries, which nobody may change."""
        if not self.names:
            return self.template.entries
        entries: list[Entry] = msgspec.json.decode(self.raw)
        return entries


@lru_cache(maxsize=256)
def _marked(number: int) -> bytes:
    return _ENCODER.encode(mark(number))


def template_of(rows: list[Entry], raw: bytes | None = None) -> EntryTemplate:
    """Returns the one template with these entries, whose JSON may be known."""
    key = _ENCODER.encode(rows) if raw is None else raw
    template = _templates.get(key)
    if template is None:
        template = EntryTemplate(rows)
        if len(key) <= _MOST_BYTES:
            if len(_templates) >= _MOST:
                _templates.clear()
            _templates[key] = template
    return template


def compacted_entries(rows: list[Entry]) -> FieldEntries | None:
    """Returns entries as an object holds them; None if there are none."""
    if not rows:
        return None
    names: list[str] = []

    def marked(found: re.Match[bytes]) -> bytes:
        name = msgspec.json.decode(found[0], type=str)
        if name not in names:
            names.append(name)
        return _ENCODER.encode(mark(names.index(name)))

    raw = _OWN_NAME.sub(marked, _ENCODER.encode(rows))
    template = _templates.get(raw)
    if template is None:
        template = template_of(msgspec.json.decode(raw) if names else rows, raw)
    return FieldEntries(template, tuple(names)) if names else template.alone

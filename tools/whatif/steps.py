"""The steps of a what-if, each a sentence such as "add 3 like node-1"."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

from ..explain.source import SourceError

FORMS = {
    "add": ("add", "NUMBER", "like", "NODE"),
    "remove": ("remove", "NODE"),
    "drain": ("drain", "NODE"),
    "cordon": ("cordon", "NODE"),
    "uncordon": ("uncordon", "NODE"),
    "taint": ("taint", "NODE", "KEY[=VALUE]:EFFECT[-]"),
    "apply": ("apply", "FILE"),
    "scale": ("scale", "KIND/NAME", "NUMBER"),
    "delete": ("delete", "[NAMESPACE/]POD"),
    "priority": ("priority", "CLASS", "NUMBER"),
    "configure": ("configure", "FILE"),
}
NUMBER = "NUMBER"


class Step(msgspec.Struct, frozen=True):
    """A verb of FORMS, and the words in the places of its capitals."""

    verb: str
    words: tuple[str, ...]

    @property
    def number(self) -> int:
        """The word in the place of NUMBER."""
        places = [place for place in FORMS[self.verb] if place.isupper() or "[" in place]
        return int(self.words[places.index(NUMBER)])


def parsed(sentence: str) -> Step:
    """Returns the step of a sentence. Raises SourceError."""
    try:
        words = shlex.split(sentence)
    except ValueError as problem:
        raise SourceError(f"step {sentence!r}: {problem}") from None
    form = FORMS.get(words[0]) if words else None
    if form is None:
        raise SourceError(f"step {sentence!r}: expected one of {', '.join(FORMS)}")
    fixed = [(place, word) for place, word in zip(form, words, strict=False) if place.islower()]
    if len(words) != len(form) or any(place != word for place, word in fixed):
        raise SourceError(f"step {sentence!r}: expected {' '.join(form)!r}")
    pairs = [(place, word) for place, word in zip(form, words, strict=True) if not place.islower()]
    for place, word in pairs:
        if place == NUMBER and not _is_number(word, negative=form[0] == "priority"):
            raise SourceError(f"step {sentence!r}: expected a number, got {word!r}")
    return Step(words[0], tuple(word for _, word in pairs))


def _is_number(word: str, *, negative: bool) -> bool:
    digits = word.removeprefix("-") if negative else word
    return digits.isascii() and digits.isdigit()


def from_file(path: Path) -> list[str]:
    """Returns the sentences of a YAML list. Raises SourceError."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as problem:
        raise SourceError(f"{path}: cannot be read: {problem}") from None
    if not isinstance(content, list) or not all(isinstance(line, str) for line in content):
        raise SourceError(f"{path}: expected a list of steps")
    return content


def steps_of(sentences: Iterable[str]) -> list[Step]:
    """Returns the steps of sentences. Raises SourceError."""
    return [parsed(sentence) for sentence in sentences]

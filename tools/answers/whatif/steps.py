"""The steps of a what-if, each a sentence such as "add 3 like node-1"."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import Taint
from berth.actors.scheduling.kube.yaml_documents import YamlError, documents
from berth.config.fields import path_first

from ..explain.cluster_source import SourceError

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
    "weight": ("weight", "[PROFILE/]PLUGIN", "NUMBER"),
    "configure": ("configure", "FILE"),
}
NUMBER = "NUMBER"
MOST_DIGITS = 11  # and the sign
MOST_CHARACTERS = 5000  # of a sentence
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_CONTENTS = {
    "apply": '{"apply": [OBJECT, ...]}',
    "configure": '{"configure": KUBESCHEDULERCONFIGURATION}',
}
_MANIFESTS = '{"manifests": "YAML"}'


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A step with the content of a file: objects to apply, the YAML text of such objects, or a
    KubeSchedulerConfiguration.
    """

    apply: list[dict[str, Any]] | None = None
    manifests: str | None = None
    configure: dict[str, Any] | None = None


Written = str | Content  # a step as it is written: a sentence such as "drain node-1", or a content


class StepError(SourceError):
    """A step cannot be taken; `number` counts from 1."""

    def __init__(self, number: int, problem: Exception) -> None:
        super().__init__(str(problem))
        self.number = number


class Step(msgspec.Struct, frozen=True):
    """A verb of FORMS, and the words in the places of its capitals, or the content of the file."""

    verb: str
    words: tuple[str, ...]
    content: Content | None = None

    @property
    def number(self) -> int:
        """The word in the place of NUMBER."""
        places = [place for place in FORMS[self.verb] if place.isupper() or "[" in place]
        return int(self.words[places.index(NUMBER)])


def parsed(written: Written, *, files: bool = True) -> Step:
    """Returns the step in a text. Without `files`, steps that read a file are refused. Raises
    SourceError.
    """
    if isinstance(written, Content):
        return _with_content(written)
    sentence = written
    if len(sentence) > MOST_CHARACTERS:
        raise SourceError(f"expected at most {MOST_CHARACTERS} characters")
    try:
        words = shlex.split(sentence)
    except ValueError as problem:
        raise SourceError(str(problem)) from None
    form = FORMS.get(words[0]) if words else None
    if form is None:
        raise SourceError(f"expected one of {', '.join(FORMS)}")
    fixed = [(place, word) for place, word in zip(form, words, strict=False) if place.islower()]
    if len(words) != len(form) or any(place != word for place, word in fixed):
        quotes = "; a name with spaces goes into quotes" if len(words) > len(form) else ""
        raise SourceError(f"expected {' '.join(form)!r}{quotes}")
    pairs = [(place, word) for place, word in zip(form, words, strict=True) if not place.islower()]
    for place, word in pairs:
        if place == NUMBER and not _is_number(word, negative=form[0] == "priority"):
            raise SourceError(f"expected a number, got {word!r}")
        if place == NUMBER and len(word) > MOST_DIGITS:
            raise SourceError(f"expected at most {MOST_DIGITS} digits")
    if "FILE" in form and not files:
        raise SourceError(f"no file is read here; expected {_CONTENTS[words[0]]}")
    return Step(words[0], tuple(word for _, word in pairs))


def _with_content(content: Content) -> Step:
    if [content.apply, content.manifests, content.configure].count(None) != 2:
        raise SourceError(f"expected {', '.join(_CONTENTS.values())} or {_MANIFESTS}")
    return Step("apply" if content.configure is None else "configure", (), content)


def taint_of(text: str) -> tuple[Taint, bool]:
    """Returns the taint in KEY[=VALUE]:EFFECT, and False if a `-` at the end removes it. Raises
    SourceError.
    """
    pair, _, effect = text.removesuffix("-").rpartition(":")
    key, _, value = pair.partition("=")
    if effect not in EFFECTS or not key:
        raise SourceError(f"taint {text!r}: expected KEY[=VALUE]:EFFECT of {', '.join(EFFECTS)}")
    return Taint(key=key, value=value, effect=effect), not text.endswith("-")


def _is_number(word: str, *, negative: bool) -> bool:
    digits = word.removeprefix("-") if negative else word
    return digits.isascii() and digits.isdigit()


def document_in(path: Path) -> object:
    """Returns the one document of a YAML file. Raises SourceError."""
    try:
        contents = [content for content in documents(path.read_bytes()) if content is not None]
    except (OSError, YamlError) as problem:
        raise SourceError(f"{path}: cannot be read: {problem}") from None
    if len(contents) != 1:
        raise SourceError(f"{path}: expected one document, found {len(contents)}")
    return contents[0]


def from_file(path: Path) -> list[Written]:
    """Returns the steps of a YAML list. Raises SourceError."""
    try:
        return msgspec.convert(document_in(path), list[Written])
    except msgspec.ValidationError as invalid:
        problem_at = path_first(invalid, Content)
        raise SourceError(f"{path}: expected a list of steps: {problem_at}") from None


def steps_of(written: Sequence[Written], *, files: bool = True) -> list[Step]:
    """Returns the steps in these texts and contents. Raises StepError."""
    steps = []
    for number, each in enumerate(written, 1):
        try:
            steps.append(parsed(each, files=files))
        except SourceError as problem:
            raise StepError(number, problem) from None
    return steps


def sentence_of(written: Written) -> str:
    """Returns a step in one line."""
    if isinstance(written, str):
        return written
    if written.configure is not None:
        return "configure"
    return f"apply {len(written.apply)} objects" if written.apply is not None else "apply manifests"


def tainted(taints: Iterable[dict[str, Any]], taint: Taint, *, added: bool) -> list[dict[str, Any]]:
    """Returns a node's taints after one was added, or removed."""
    others = [t for t in taints if (t["key"], t["effect"]) != (taint.key, taint.effect)]
    new = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return [*others, new] if added else others

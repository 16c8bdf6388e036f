"""The written form of what-if steps: a sentence such as "drain node-1", or the content of a
file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import Taint
from berth.actors.scheduling.kube.yaml_documents import YamlError, documents
from berth.config.fields import path_first

from ..explain.cluster_source import SourceError
from .question import Content, Written

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class StepError(SourceError):
    """A step cannot be taken; `number` counts from 1."""

    def __init__(self, number: int, problem: Exception) -> None:
        super().__init__(str(problem))
        self.number = number


def taint_of(text: str) -> tuple[Taint, bool]:
    """Returns the taint in KEY[=VALUE]:EFFECT, and False if a `-` at the end removes it. Raises
    SourceError.
    """
    pair, _, effect = text.removesuffix("-").rpartition(":")
    key, _, value = pair.partition("=")
    if effect not in EFFECTS or not key:
        raise SourceError(f"taint {text!r}: expected KEY[=VALUE]:EFFECT of {', '.join(EFFECTS)}")
    return Taint(key=key, value=value, effect=effect), not text.endswith("-")


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


def sentence_of(written: Written) -> str:
    """Returns a step in one line."""
    if isinstance(written, str):
        return written
    if written.configure is not None:
        return "configure"
    return f"apply {len(written.apply)} objects" if written.apply is not None else "apply manifests"


def changed_taints(
    taints: Iterable[dict[str, Any]], taint: Taint, *, added: bool
) -> list[dict[str, Any]]:
    """Returns a node's taints after one is added or removed."""
    others = [t for t in taints if (t["key"], t["effect"]) != (taint.key, taint.effect)]
    new = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return [*others, new] if added else others

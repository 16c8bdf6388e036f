"""Finds the cause that the text of a reason stands for, by the table of reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from berth.actors.scheduling.framework.questions import EXTENDER
from berth.actors.scheduling.plugins.in_tree import IN_TREE

from ..cause import Cause, CauseTaint
from .reason_table import (
    BERTH,
    PLACE,
    REASONS,
    REFUSED_BY_EXTENDER,
    REJECTED,
    SCHEDULER,
    ReasonRow,
)

_LISTS = {
    "gates": re.compile(r", | "),
    "budgets": re.compile(r", "),
    "claims": re.compile(r", "),
    "plugins": re.compile(r", | "),
}

_OF_PLUGINS = {*IN_TREE, "NodeUnreadable"}
_RULED = {*IN_TREE, *(plugin for row in REASONS for plugin in row.plugins)}


def pattern_of(text: str) -> re.Pattern[str]:
    """Returns the pattern of a text of the table, with a group for each field."""
    parts = PLACE.split(text)
    literal = [re.escape(part) for part in parts[::2]]
    groups = [f"(?P<{name}>.+?)" if name else ".*" for name in parts[1::2]]
    inner = "".join(a + b for a, b in zip(literal, [*groups, ""], strict=True))
    return re.compile(inner, re.DOTALL)


_PATTERNS = tuple((row, pattern_of(text)) for row in REASONS for text in row.texts)


@lru_cache(maxsize=4096)
def cause_of(plugin: str, reason: str) -> Cause:
    """Returns the cause that a text stands for; `plugin` gave it, "" if nobody knows who, or if it
    was no plugin. What is not in the table is the reason of a plugin of a package.
    """
    if plugin == EXTENDER:
        return Cause(REFUSED_BY_EXTENDER, reason, plugin)
    if not plugin or plugin in _RULED:
        rows = _PATTERNS if not plugin else [of for of in _PATTERNS if _gives(of[0], plugin)]
        return _found(rows, plugin, reason)
    return Cause(REJECTED, reason, plugin)


@lru_cache(maxsize=4096)
def cause_in_message(reason: str) -> Cause:
    """Returns the cause of a reason in a message of FailedScheduling, which names no plugins: what
    berth itself would say there is the word of a plugin of a package.
    """
    return _found([of for of in _PATTERNS if of[0].plugins != (BERTH,)], "", reason)


def _found(rows: Iterable[tuple[ReasonRow, re.Pattern[str]]], plugin: str, reason: str) -> Cause:
    for row, pattern in rows:
        match = pattern.fullmatch(reason)
        if match:
            return _cause(row, reason, plugin, match)
    return Cause(REJECTED, reason, plugin)


def causes_of(plugin: str, reasons: Iterable[str]) -> list[Cause]:
    """Returns a cause for each reason, in their order; one of an empty message without reasons."""
    return [cause_of(plugin, reason) for reason in reasons] or [cause_of(plugin, "")]


def standing_causes(sentences: Iterable[str]) -> list[Cause]:
    """Returns the causes of sentences that say why a pod is not tried now; none for a sentence that
    tells a history.
    """
    causes = []
    for sentence in sentences:
        kept = _KEPT_OUT.fullmatch(sentence)
        if kept:
            causes.append(Cause(REJECTED, kept["message"], kept["plugin"]))
            continue
        cause = cause_of("", sentence)
        if cause.code != REJECTED:
            causes.append(cause)
    return causes


_KEPT_OUT = re.compile(
    r"is kept out of the queue by the plugin (?P<plugin>[^:,]+)"
    r"(, as its condition says)?(: (?P<message>.*))?",
    re.DOTALL,
)


def _gives(row: ReasonRow, plugin: str) -> bool:
    return plugin in row.plugins or row.plugins[0] in (SCHEDULER, BERTH)


def _cause(row: ReasonRow, reason: str, plugin: str, match: re.Match[str]) -> Cause:
    only = row.plugins[0] if len(row.plugins) == 1 and row.plugins[0] in _OF_PLUGINS else ""
    fields: dict[str, object] = {"plugin": plugin or only}
    for name, text in match.groupdict().items():
        if name in _LISTS:
            fields[name] = tuple(_LISTS[name].split(text))
        elif name == "taint":
            fields[name] = CauseTaint(text, "", "NoExecute")
        else:
            fields[name] = text
    return msgspec.structs.replace(Cause(row.code, reason), **fields)

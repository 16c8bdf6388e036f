"""The judge: decides again with each change, and keeps those after which the pod fits."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec

from ..answering import Attempt, Explainer, decided
from ..decision import Failure
from ..source import Question
from ..words import listed
from .change import Change, Suggestion
from .pod import selector_changes, toleration_changes

Document = dict[str, Any]


def suggestions(explainer: Explainer, question: Question, attempt: Attempt) -> list[Suggestion]:
    """Returns the changes of the pod after which it fits a node. There are none with extenders,
    which would be called once for each of them.
    """
    if attempt.configuration.extenders:
        return []
    changes = [*selector_changes(question.pod), *toleration_changes(question.pod, question.objects)]
    judged = (_judged(explainer, question, attempt, change) for change in changes)
    return [suggestion for suggestion in judged if suggestion is not None]


def _judged(
    explainer: Explainer, question: Question, attempt: Attempt, change: Change
) -> Suggestion | None:
    pod = patched(question.pod, change.patch)
    changed = msgspec.structs.replace(question, pod=pod)
    decision = decided(explainer.attempt(changed, attempt.snapshot)).decision
    if isinstance(decision, Failure) or not decision.hosts:
        return None
    nodes = tuple(decision.hosts)
    sentence = f"{change.sentence}: it fits on {listed(nodes)}."
    return Suggestion(change.kind, sentence, change.patch, nodes)


def patched(document: Document, patch: list[dict[str, Any]]) -> Document:
    """Returns the document after a JSON patch that adds or removes members of objects."""
    result = deepcopy(document)
    for operation in patch:
        *parents, last = (
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"][1:].split("/")
        )
        target = result
        for part in parents:
            target = target[part]
        if operation["op"] == "remove":
            del target[last]
        else:
            target[last] = operation["value"]
    return result

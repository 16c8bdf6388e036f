"""The actions of a stage on its object, as data: patches, events and the deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, assert_never

import msgspec

from berth.actors.scheduling.kube.yaml_documents import YamlError, documents

from ...objects.structs import Document
from .functions import functions
from .go_builtins import Functions
from .go_nodes import TemplateError
from .stage import Delete, Finalizers, PythonStep, Stage, StageError, StageEvent, StagePatch

STATUS = "status"


class PatchObject(msgspec.Struct, frozen=True):
    """A patch of the object or of a subresource."""

    body: Any
    subresource: str = STATUS
    type: Literal["json", "merge", "strategic"] = "strategic"


class PostHeartbeat(msgspec.Struct, frozen=True):
    """A heartbeat of a node, which says that conditions of these types still hold."""

    conditions: tuple[str, ...]
    time: str


class RecordEvent(msgspec.Struct, frozen=True):
    """An event about the object, or about the part of it in a field."""

    type: str
    reason: str
    message: str
    field: str = ""


class DeleteObject(msgspec.Struct, frozen=True):
    """The deletion of the object, without another grace period."""


Action = PatchObject | PostHeartbeat | RecordEvent | DeleteObject


def actions_of(
    stage: Stage,
    document: Document,
    of_player: Callable[[], Functions],
    run: Callable[[str], Iterator[Action]],
) -> Iterator[Action]:
    """Yields the actions of the steps of a stage; `run` yields the actions of Python steps. Raises
    StageError.

    `of_player` returns the functions of templates that depend on the object or the time.
    """
    for step in stage.steps:
        match step:
            case StageEvent():
                yield RecordEvent(step.type or "Normal", step.reason, step.message)
            case Finalizers():
                before = document["metadata"].get("finalizers") or []
                after = step.after(before)
                if after != before:
                    yield PatchObject({"metadata": {"finalizers": after}}, "", "merge")
            case Delete():
                yield DeleteObject()
            case StagePatch():
                yield _rendered(stage, step, document, of_player())
            case PythonStep():
                yield from run(step.name)
            case _:
                assert_never(step)


def _rendered(
    stage: Stage, step: StagePatch, document: Document, of_player: Functions
) -> PatchObject:
    try:
        text = step.template.render(document, functions(of_player))
        rendered = documents(text.encode())
    except (TemplateError, YamlError) as problem:
        raise StageError(f"Stage {stage.name}: template: {problem}") from None
    body = rendered[0] if rendered else None
    expected = list if step.type == "json" else dict
    if len(rendered) > 1 or not isinstance(body, expected):
        what = "a list of operations" if step.type == "json" else "one mapping"
        raise StageError(f"Stage {stage.name}: template: expected {what}")
    if not step.root:
        return PatchObject(body, step.subresource, step.type)
    if isinstance(body, list):
        moved = [{**change, "path": f"/{step.root}{change.get('path', '')}"} for change in body]
        return PatchObject(moved, step.subresource, step.type)
    return PatchObject({step.root: body}, step.subresource, step.type)

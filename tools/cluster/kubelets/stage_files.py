"""Reads stages: the shipped ones, and those of users, which replace shipped ones of their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from berth.actors.scheduling.kube.yaml_documents import YamlError, documents

from ...kubernetes.kubelet.stages.stage import Stage, StageError, read

STEPS = {
    "Pod": ("start", "run", "complete", "fail", "kill", "stop"),
    "Node": ("register", "heartbeat", "recover"),
}
SUFFIXES = (".yaml", ".yml", ".json")
_SHIPPED = ("pods.yaml", "nodes.yaml")


class Stages(msgspec.Struct, frozen=True):
    """The stages of pods and of nodes; `replaced` are the shipped stages that users have
    replaced.
    """

    pods: tuple[Stage, ...]
    nodes: tuple[Stage, ...]
    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()


def read_stages(paths: Iterable[Path] = ()) -> Stages:
    """Returns the shipped stages, and the stages in files and folders. Raises StageError.

    Other documents in the files of a folder are ignored.
    """
    shipped = {stage.name: stage for stage in _shipped()}
    own: dict[str, Stage] = {}
    for path in paths:
        for stage in _stages_of(path):
            if stage.name in own:
                raise StageError(f"{path}: Stage {stage.name}: expected one stage of this name")
            own[stage.name] = stage
    stages = (shipped | own).values()
    return Stages(
        tuple(stage for stage in stages if stage.kind == "Pod"),
        tuple(stage for stage in stages if stage.kind == "Node"),
        tuple(name for name in own if name not in shipped),
        tuple(name for name in own if name in shipped),
    )


@cache
def _shipped() -> tuple[Stage, ...]:
    folder = Path(__file__).parent / "stages"
    return tuple(stage for name in _SHIPPED for stage in _stages_of(folder / name))


def _stages_of(path: Path) -> Iterator[Stage]:
    if not path.is_dir():
        for document, where in _documents(path):
            yield _stage(document, where)
        return
    read_any = False
    for file in sorted(path.rglob("*")):
        if file.suffix in SUFFIXES and file.is_file():
            for document, where in _documents(file):
                if isinstance(document, dict) and document.get("kind") == "Stage":
                    read_any = True
                    yield _stage(document, where)
    if not read_any:
        raise StageError(f"{path}: expected a folder with stages")


def _documents(file: Path) -> Iterator[tuple[Any, str]]:
    """Yields the objects of a file, also those in lists, with their places."""
    try:
        contents = documents(file.read_bytes())
    except OSError as problem:
        raise StageError(f"{file}: cannot be read: {problem.strerror}") from None
    except YamlError as problem:
        raise StageError(f"{file}: {problem}") from None
    for number, document in enumerate(contents, 1):
        if document is None:
            continue
        items = document.get("items") if isinstance(document, dict) else None
        for item in items if isinstance(items, list) else [document]:
            yield item, f"{file}, document {number}"


def _stage(document: Any, where: str) -> Stage:
    if not isinstance(document, dict):
        raise StageError(f"{where}: expected a Stage")
    try:
        return read(document, STEPS)
    except StageError as problem:
        raise StageError(f"{where}: {problem}") from None

"""Files with faults: YAML or JSON, read and written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from berth.actors.scheduling.kube.yaml_documents import documents

from .vocabulary import Fault, FaultError, FaultPlace, check

T = TypeVar("T")


class FaultFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The faults of a file. `seed` decides which requests and events meet them."""

    seed: int = 1
    faults: tuple[Fault, ...] = ()


def faults_in(text: bytes, place: FaultPlace) -> FaultFile:
    """Reads faults for a place. Raises FaultError, which names the field."""
    found = one_document(text, FaultFile)
    check_all(found.faults, place)
    return found


def read_faults(path: Path, place: FaultPlace) -> FaultFile:
    """Reads a file. Raises FaultError and OSError."""
    try:
        return faults_in(path.read_bytes(), place)
    except FaultError as problem:
        raise FaultError(f"{path}: {problem}") from None


def one_document(text: bytes, kind: type[T]) -> T:
    """Reads the one document of a text. Raises FaultError, which names the field."""
    try:
        found: list[Any] = list(documents(text))
    except ValueError as problem:
        raise FaultError(str(problem)) from None
    if len(found) != 1:
        raise FaultError(f"expected one document, got {len(found)}")
    try:
        return msgspec.convert(found[0], kind, strict=False)
    except msgspec.ValidationError as problem:
        what, _, where = str(problem).partition(" - at `$.")
        raise FaultError(f"{where[:-1]}: {what}" if where else what) from None


def check_all(faults: Iterable[Fault], place: FaultPlace) -> None:
    """Raises FaultError if a place cannot have one of the faults."""
    for number, fault in enumerate(faults):
        check(fault, place, f"faults[{number}]")

"""The objects that a test adds to its cluster: documents, and files of them, read as manifests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from berth.actors.scheduling.framework.status import encodable

from ..answers.manifests.manifest_files import Findings, Reading
from ..answers.manifests.manifests import Manifest, ManifestError, read, read_objects
from ..kubernetes.api.types.resources import Kind
from .configuration import refuse_text

Document = dict[str, Any]
EVERYTHING = Reading(everything=True, findings=Findings(strict=True))


def manifests_of(
    objects: Document | Path | Iterable[Document], added: Sequence[Kind]
) -> list[Manifest]:
    """Returns the objects in their order; those of `added` kinds are the last. Raises
    ManifestError, and TypeError for a text and for what JSON does not have.
    """
    custom = {(kind.api_version, kind.kind): kind for kind in added}
    refuse_text(objects, "documents")
    if isinstance(objects, Path):
        manifests = read([objects], custom, EVERYTHING)
    else:
        given: object = objects
        if isinstance(given, bytes) or not isinstance(given, Iterable):
            raise TypeError(f"expected documents or a Path, got {given!r:.80}")
        listed = [objects] if isinstance(objects, dict) else list(objects)
        check_json(listed, "objects")
        manifests = read_objects(listed, "objects", custom, everything=True)
    others = [(custom.get((each["apiVersion"], each["kind"])), each) for each in manifests.others]
    unknown = {*manifests.left_out, *(each["kind"] for kind, each in others if kind is None)}
    if unknown:
        kinds = ", ".join(sorted(unknown))
        raise ManifestError(f"unknown kinds: {kinds}; add their definitions in an earlier call")
    known = [Manifest(kind, each, "objects") for kind, each in others if kind is not None]
    return [*manifests.objects, *known]


def check_json(value: object, field: str, within: tuple[int, ...] = ()) -> None:
    """Raises TypeError with the field of a value that JSON does not have. `within` are the ids of
    the values that it is part of.
    """
    match value:
        case dict() | list() if id(value) not in within:
            parts = value.items() if isinstance(value, dict) else enumerate(value)
            for key, part in parts:
                at = f"{field}[{key}]" if isinstance(value, list) else f"{field}.{key}"
                if isinstance(value, dict) and not isinstance(key, str):
                    raise TypeError(f"{field}: expected keys that are strings, got {key!r:.80}")
                check_json(part, at, (*within, id(value)))
        case str() if value.isascii() or encodable(value) == value:
            pass
        case float() if isfinite(value):
            pass
        case bool() | int() | None:
            pass
        case _:
            raise TypeError(f"{field}: expected a value that JSON has, got {value!r:.80}")

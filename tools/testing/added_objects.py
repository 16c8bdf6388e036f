"""The objects that a test adds to its cluster: documents, and files of them, read as manifests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

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
    ManifestError, and TypeError for a text.
    """
    custom = {(kind.api_version, kind.kind): kind for kind in added}
    refuse_text(objects, "documents")
    if isinstance(objects, Path):
        manifests = read([objects], custom, EVERYTHING)
    else:
        listed = [objects] if isinstance(objects, dict) else list(objects)
        manifests = read_objects(listed, "objects", custom, everything=True)
    others = [(custom.get((each["apiVersion"], each["kind"])), each) for each in manifests.others]
    unknown = {*manifests.left_out, *(each["kind"] for kind, each in others if kind is None)}
    if unknown:
        kinds = ", ".join(sorted(unknown))
        raise ManifestError(f"unknown kinds: {kinds}; add their definitions in an earlier call")
    known = [Manifest(kind, each, "objects") for kind, each in others if kind is not None]
    return [*manifests.objects, *known]

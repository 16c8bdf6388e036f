"""A recording: the changes of a cluster that a scheduler sees, one a line of JSON.

Secrets are not among its kinds. What containers are told (env, envFrom, args, command, and what
probes and hooks run or send), managed fields and the annotation of kubectl's last apply are left
out of objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ...cluster.faults.vocabulary import MOST_SECONDS
from ...kubernetes.api.types.resources import BY_KIND, Kind

Document = dict[str, Any]
KINDS: tuple[Kind, ...] = tuple(
    BY_KIND[place]
    for place in (
        ("v1", "Namespace"), ("v1", "Node"), ("scheduling.k8s.io/v1", "PriorityClass"),
        ("v1", "Service"), ("v1", "PersistentVolume"), ("v1", "PersistentVolumeClaim"),
        ("storage.k8s.io/v1", "StorageClass"), ("storage.k8s.io/v1", "CSINode"),
        ("storage.k8s.io/v1", "CSIDriver"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"),
        ("policy/v1", "PodDisruptionBudget"), ("resource.k8s.io/v1", "ResourceClaim"),
        ("resource.k8s.io/v1", "ResourceSlice"), ("resource.k8s.io/v1", "DeviceClass"),
        ("v1", "Pod"),
    )
)  # fmt: skip
BY_NAME = {kind.kind: kind for kind in KINDS}
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_TOLD = (
    "env", "envFrom", "args", "command", "lifecycle",
    "livenessProbe", "readinessProbe", "startupProbe",
)  # fmt: skip
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class RecordingError(ValueError):
    """A file is no recording; the message names the line."""


class RecordedChange(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An object as it is `at` a second of the recording, or that it is `gone` then."""

    at: Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS)]
    kind: str
    object: Document
    gone: bool = False


class _Metadata(msgspec.Struct):
    name: str
    uid: str


class _Recorded(msgspec.Struct):
    """What every object has that a server sent."""

    metadata: _Metadata


class _RecordedPod(_Recorded):
    spec: Document


def without_secrets(document: Document) -> Document:
    """Returns an object without what a scheduler does not need and nobody should see."""
    metadata = {k: v for k, v in document["metadata"].items() if k != "managedFields"}
    notes = metadata.get("annotations") or {}
    if _LAST_APPLIED in notes:
        metadata["annotations"] = {k: v for k, v in notes.items() if k != _LAST_APPLIED}
    document = {**document, "metadata": metadata}
    spec = document.get("spec")
    if isinstance(spec, dict):
        if "containers" in spec:
            spec = _untold(spec)
        elif isinstance((spec.get("template") or {}).get("spec"), dict):
            template = spec["template"]
            spec = {**spec, "template": {**template, "spec": _untold(template["spec"])}}
        document["spec"] = spec
    return document


def _untold(spec: Document) -> Document:
    told: Document = {
        field: [{k: v for k, v in each.items() if k not in _TOLD} for each in spec[field] or ()]
        for field in _CONTAINERS
        if field in spec
    }
    return {**spec, **told}


class Recording(msgspec.Struct, frozen=True):
    """The changes of a file in their order; `cut_line` is the number of a last line that was not
    written to its end and is left out, or 0.
    """

    changes: tuple[RecordedChange, ...]
    cut_line: int = 0


def read_recording(file: Path) -> Recording:
    """Reads a file, up to a last line that was cut off. Raises RecordingError and OSError."""
    changes: list[RecordedChange] = []
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                change = msgspec.json.decode(line, type=RecordedChange)
            except msgspec.DecodeError as problem:
                is_wrong = isinstance(problem, msgspec.ValidationError)
                if changes and not (is_wrong or line.endswith(b"\n")):
                    return Recording(tuple(changes), number)
                raise RecordingError(f"{file}: line {number}: {problem}") from None
            if change.kind not in BY_NAME:
                raise RecordingError(f"{file}: line {number}: unknown kind {change.kind!r}")
            try:
                msgspec.convert(change.object, _RecordedPod if change.kind == "Pod" else _Recorded)
            except msgspec.ValidationError as problem:
                raise RecordingError(f"{file}: line {number}: object: {problem}") from None
            changes.append(change)
    if not changes:
        raise RecordingError(f"{file}: expected a change in JSON on each line, got an empty file")
    return Recording(tuple(changes))


def lines_of(changes: Iterable[RecordedChange]) -> bytes:
    """Returns the lines of changes."""
    return b"".join(msgspec.json.encode(change) + b"\n" for change in changes)

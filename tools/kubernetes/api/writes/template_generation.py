"""The annotation of a daemon set that numbers the versions of its pod template.

Its controller labels the pods with that number.
"""

from __future__ import annotations

from contextlib import suppress

from ..types.api_documents import Document
from ..types.resources import BY_KIND
from ..types.schema import same

DAEMON_SETS = BY_KIND["apps/v1", "DaemonSet"]
ANNOTATION = "deprecated.daemonset.template.generation"


def with_template_generation(daemon_set: Document, before: Document | None) -> Document:
    """Returns the daemon set with the number of its template's version. Only a new daemon set may
    set it.
    """
    number = _number(daemon_set if before is None else before)
    if before is not None:
        new, old = (each["spec"].get("template") for each in (daemon_set, before))
        number += not same("PodTemplateSpec", new, old)
    metadata = daemon_set["metadata"]
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: str(number)}
    return {**daemon_set, "metadata": {**metadata, "annotations": annotations}}


def _number(daemon_set: Document) -> int:
    annotations = daemon_set["metadata"].get("annotations") or {}
    with suppress(ValueError):
        return max(int(annotations.get(ANNOTATION, "")), 1)
    return 1

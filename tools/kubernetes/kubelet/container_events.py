"""The events of kubelets about containers that start or stop.

All kubelets together write as many as one may: 50 a second, and 100 at once. Events beyond that are
lost, as they are for a kubelet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..objects.structs import Document
from .stages.actions import RecordEvent

EVENTS_A_SECOND, MOST_AT_ONCE = 50, 100
_FIELDS = (
    ("initContainers", "initContainerStatuses"),
    ("containers", "containerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)


class Allowance:
    """The number of events that may be written now."""

    def __init__(self) -> None:
        self._left = float(MOST_AT_ONCE)
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Takes an event from the allowance; False if none is left."""
        gained = max(now - self._at, 0.0) * EVENTS_A_SECOND
        self._left, self._at = min(self._left + gained, MOST_AT_ONCE), now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def starts(pod: Document, status: Document, pulled: Collection[str] = ()) -> Iterator[RecordEvent]:
    """Yields the events about the containers that run in the new status of a pod and did not
    before. For the images in `pulled`, other events report the pull.
    """
    for field, container in changed(pod, status):
        if not _runs(container):
            continue
        image = container["image"]
        if field not in pulled:
            message = (
                f'Container image "{image}" already present on machine and can be accessed '
                "by the pod"
            )
            yield RecordEvent("Normal", "Pulled", message, field)
        yield RecordEvent("Normal", "Created", "Container created", field)
        yield RecordEvent("Normal", "Started", "Container started", field)


def stops(pod: Document) -> Iterator[RecordEvent]:
    """Yields the events about the containers of a pod that run and are about to be stopped."""
    for kind, statuses in reversed(_FIELDS):
        for container in (pod.get("status") or {}).get(statuses) or ():
            if _runs(container):
                name = container["name"]
                field = f"spec.{kind}{{{name}}}"
                yield RecordEvent("Normal", "Killing", f"Stopping container {name}", field)


def changed(pod: Document, status: Document) -> Iterator[tuple[str, Document]]:
    """Yields the statuses of containers that are new, or have started or stopped since, each with
    its field.
    """
    before = pod.get("status") or {}
    for kind, statuses in _FIELDS:
        runs = {each["name"]: _run(each) for each in before.get(statuses) or ()}
        for container in status.get(statuses) or ():
            if runs.get(container["name"]) != _run(container):
                yield f"spec.{kind}{{{container['name']}}}", container


def _run(container: Document) -> tuple[bool, int]:
    return _runs(container), container.get("restartCount", 0)


def _runs(container: Document) -> bool:
    return (container.get("state") or {}).get("running") is not None

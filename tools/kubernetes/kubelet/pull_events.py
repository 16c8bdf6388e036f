"""The events of a kubelet about image pulls, and the messages of the containers that wait for
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from berth.config.types import Duration

from ..objects.structs import Document
from .images import FAILURES
from .stages.actions import RecordEvent

PULL_ERROR = f"the annotation {FAILURES} says so"


def first_fields(pod: Document, images: Iterable[str]) -> dict[str, str]:
    """Returns, for each of these images, the field of the first container that uses it."""
    fields: dict[str, str] = {}
    for kind in ("initContainers", "containers"):
        for container in pod["spec"].get(kind) or ():
            fields.setdefault(container.get("image", ""), f"spec.{kind}{{{container['name']}}}")
    return {image: fields[image] for image in images}


def pull_message(image: str, reason: str) -> str:
    """Returns the message of a container that waits for its image."""
    match reason:
        case "ErrImagePull":
            return PULL_ERROR
        case "ImagePullBackOff":
            return f'Back-off pulling image "{image}": ErrImagePull: {PULL_ERROR}'
    return ""


def pull_events(image: str, field: str, reason: str) -> Iterator[RecordEvent]:
    """Yields the events about the pull of an image, by the reason for which a container waits."""
    match reason:
        case "ErrImagePull":
            message = f'Failed to pull image "{image}": {PULL_ERROR}'
            yield RecordEvent("Warning", "Failed", message, field)
        case "ImagePullBackOff":
            yield RecordEvent("Normal", "BackOff", f'Back-off pulling image "{image}"', field)
        case _:
            yield RecordEvent("Normal", "Pulling", f'Pulling image "{image}"', field)
            return
    yield RecordEvent("Warning", "Failed", f"Error: {reason}", field)


def pulled_message(image: str, seconds: float, size: int) -> str:
    """Returns the message of the event about an image whose pull has succeeded."""
    took = Duration(int(seconds * 1000) / 1000).in_go()
    return (
        f'Successfully pulled image "{image}" in {took} ({took} including waiting). '
        f"Image size: {size} bytes."
    )

"""The values that plugins give to their handle, checked. Shared by all implementations of it."""

from __future__ import annotations

import re

from ..kube.core import Pod
from ..kube.meta import HasMetadata, ObjectMeta, key
from ..model.pod_info import PodInfo
from .status import encodable

_WORD = re.compile(r"[A-Z][A-Za-z0-9]{0,127}").fullmatch


def checked_note(reason: str, action: str, note: str) -> str:
    """Returns the note of an event, in a form that can be written. Raises ValueError for a reason
    or an action that is no word in CamelCase, and TypeError for a note that is no text.
    """
    for field, word in (("reason", reason), ("action", action)):
        if not isinstance(word, str) or not _WORD(word):
            raise ValueError(f"{field} of an event: expected a word in CamelCase, got {word!r}")
    return encodable(_text("note of an event", note))


def checked_reason(reason: str) -> str:
    """Returns the reason of a rejection. Raises TypeError for one that is no text."""
    return encodable(_text("reason", reason))


def check_assumed(item: HasMetadata) -> None:
    """Raises TypeError for what is no object."""
    metadata: object = getattr(item, "metadata", None)
    if not isinstance(metadata, ObjectMeta):
        raise TypeError(f"expected an object of a kind that plugins look up, got {item!r:.80}")


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what}: expected a text, got {value!r:.80}")
    return value


def key_of(pod: PodInfo | Pod | str) -> str:
    """Returns the key of a pod. Raises ValueError for a text that is no key, and TypeError for
    anything else.
    """
    if isinstance(pod, PodInfo):
        return pod.key
    if isinstance(pod, Pod):
        return key(pod)
    namespace, _, name = _text("a pod, or its namespace/name", pod).partition("/")
    if not namespace or not name:
        raise ValueError(f"expected a pod, or its namespace/name, got {pod!r}")
    return pod


def uid_of(pod: PodInfo | Pod) -> str:
    """Returns the uid of a pod. Raises TypeError for anything else."""
    if isinstance(pod, PodInfo):
        return pod.uid
    given: object = pod
    if not isinstance(given, Pod):
        raise TypeError(f"expected a pod, got {given!r:.80}")
    return given.metadata.uid

"""The values that plugins give to their handle, checked. Shared by all implementations of it."""

from __future__ import annotations

import re

from ..kube.core import Pod
from ..kube.meta import key
from ..model.pod_info import PodInfo

_WORD = re.compile(r"[A-Z][A-Za-z0-9]{0,127}").fullmatch


def check_event(reason: str, action: str) -> None:
    """Raises ValueError for a reason or an action that is no word in CamelCase."""
    for field, word in (("reason", reason), ("action", action)):
        if not _WORD(word):
            raise ValueError(f"{field} of an event: expected a word in CamelCase, got {word!r}")


def key_of(pod: PodInfo | Pod | str) -> str:
    """Returns the key of a pod. Raises ValueError for a text that is no key."""
    if isinstance(pod, PodInfo):
        return pod.key
    if isinstance(pod, Pod):
        return key(pod)
    namespace, _, name = pod.partition("/")
    if not namespace or not name:
        raise ValueError(f"expected a pod, or its namespace/name, got {pod!r}")
    return pod


def uid_of(pod: PodInfo | Pod) -> str:
    return pod.uid if isinstance(pod, PodInfo) else pod.metadata.uid

"""The annotations of pods and nodes that control hollow kubelets, and the reports on values that
cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from berth.actors.scheduling.kube.quantity import QuantityError, value

from ..objects.structs import Document
from .containers import INIT_SECONDS, READY_SECONDS
from .hollow_nodes import KUBELET, STOPPED
from .images import FAILURES, SIZE
from .pod_steps import STOP_SECONDS
from .scripts.commands import ScriptError, read_table, read_text_outcome
from .scripts.ports import read_ports
from .scripts.script_rules import ATTACH, EXEC, PORTS
from .stages.lives import uid_of

BAD_ANNOTATION = "InvalidAnnotation"
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")


class _Form(msgspec.Struct, frozen=True):
    """The valid values of an annotation, in words and as a test."""

    words: str
    admits: Callable[[str], object]


def _is_size(text: str) -> bool:
    try:
        return value(text) >= 0
    except QuantityError:
        return False


def _reads(read: Callable[[str], object]) -> Callable[[str], object]:
    """Returns a test for what a function can read."""

    def admits(text: str) -> bool:
        try:
            read(text)
        except ScriptError:
            return False
        return True

    return admits


_TIME = _Form("a number of seconds without a unit, such as 5", _SECONDS.fullmatch)
_OF_PODS = {
    **dict.fromkeys(
        (
            "berth.dev/run-seconds",
            "berth.dev/fail-seconds",
            "berth.dev/unhealthy-seconds",
            READY_SECONDS,
            INIT_SECONDS,
            STOP_SECONDS,
        ),
        _TIME,
    ),
    SIZE: _Form("a size, such as 800Mi", _is_size),
    FAILURES: _Form("a number, or always", lambda text: text == "always" or text.isdecimal()),
    f"berth.dev/{EXEC}": _Form("commands and what they print, in YAML", _reads(read_table)),
    f"berth.dev/{ATTACH}": _Form("what is printed, in YAML", _reads(read_text_outcome)),
    PORTS: _Form("pairs of ports without a host, such as 80=18080", _reads(read_ports)),
}
_OF_NODES = {KUBELET: _Form(f"{STOPPED}, or no such annotation", STOPPED.__eq__)}


class AnnotationProblems:
    """The unreadable values of annotations that were reported, by the uid of the pod or node."""

    def __init__(self) -> None:
        self._told: dict[str, set[str]] = {}

    def new(self, document: Document) -> Iterator[str]:
        """Yields a message for each unreadable value that was not reported before."""
        metadata = document["metadata"]
        annotations = metadata.get("annotations")
        if not annotations:
            return
        for message in _problems(annotations, _OF_PODS if "namespace" in metadata else _OF_NODES):
            told = self._told.setdefault(uid_of(document), set())
            if message not in told:
                told.add(message)
                yield message

    def forget(self, uid: str) -> None:
        self._told.pop(uid, None)


def _problems(annotations: Mapping[str, str], forms: Mapping[str, _Form]) -> Iterator[str]:
    for name, form in forms.items():
        text = annotations.get(name)
        if text is not None and not form.admits(text):
            yield f"annotation {name}: {text[:200]!r}: expected {form.words}"

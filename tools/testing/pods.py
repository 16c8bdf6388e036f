"""What a test asks of pods. An answer is true or false, and its text says what is the case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .history import PodLife

Document = dict[str, Any]
FINISHED = ("Succeeded", "Failed")
UNSAID = "no scheduler has said why"


class Finding:
    """The answer to a question. A false one is shown by pytest with its text."""

    def __init__(self, holds: bool, text: str) -> None:
        self._holds = holds
        self.text = text

    def __bool__(self) -> bool:
        return self._holds

    def __repr__(self) -> str:
        return f"<{'true' if self._holds else 'FALSE'}: {self.text}>"


class Pods:
    """Some pods: one, those of a workload, or those of a selection. Each question looks at the pods
    that there are by then, so a condition to wait for can be asked before there is any.

    `select` returns what names them in sentences, and their lives, those of removed pods too.
    `events` returns the reasons and messages of the events about a pod.
    """

    def __init__(
        self,
        select: Callable[[], tuple[str, Sequence[PodLife]]],
        events: Callable[[PodLife], Sequence[str]],
    ) -> None:
        self._select = select
        self._events = events

    @property
    def about(self) -> str:
        """What names them in sentences."""
        return self._select()[0]

    @property
    def all_lives(self) -> Sequence[PodLife]:
        """The pods from their creation on, those that were removed too."""
        return self._select()[1]

    @property
    def lives(self) -> list[PodLife]:
        """The pods that are there."""
        return [life for life in self.all_lives if life.gone is None]

    def __len__(self) -> int:
        return len(self.lives)

    def __iter__(self) -> Iterator[Document]:
        return (life.document for life in self.lives)

    @property
    def names(self) -> list[str]:
        return [life.name for life in self.lives]

    @property
    def nodes(self) -> list[str]:
        """The node of each pod, sorted; "" for each that has none."""
        return sorted(str(life.document["spec"].get("nodeName") or "") for life in self.lives)

    @property
    def phases(self) -> Counter[str]:
        """How many pods are in each phase."""
        return Counter(str((pod.get("status") or {}).get("phase")) for pod in self)

    @property
    def events(self) -> list[str]:
        """The events about these pods as "Reason: message", those of removed pods too."""
        return [text for life in self.all_lives for text in self._events(life)]

    def placed_on(self, *nodes: str) -> Finding:
        """True if these nodes have the pods, one for each time that a node is named; without
        nodes, if every pod has a node.
        """
        wanted = f"on {', '.join(sorted(nodes))}" if nodes else "on any nodes"
        placed = self.nodes
        holds = placed == sorted(nodes) if nodes else bool(placed) and "" not in placed
        return self._finding(holds, f"{self.about} expected {wanted}")

    def running(self) -> Finding:
        """True if there are pods, and all are ready."""
        ready = [condition(pod, "Ready") == "True" for pod in self]
        holds = bool(ready) and all(ready)
        return self._finding(holds, f"{self.about} expected to run")

    def pending(self) -> Finding:
        """True if there are pods, and none has a node."""
        placed = self.nodes
        holds = bool(placed) and not any(placed)
        return self._finding(holds, f"{self.about} expected to be pending")

    def pending_because(self, text: str) -> Finding:
        """True if all pods are pending, and the scheduler's message about each contains this."""
        said = [why_pending(pod) for pod in self]
        holds = bool(self.pending()) and all(text in each for each in said)
        return self._finding(holds, f"{self.about} expected to be pending because of {text!r}")

    def evicted_by(self, reason: str) -> Finding:
        """True if one of these pods, or of those before them, was disrupted for this reason: the
        reason of its condition DisruptionTarget, such as PreemptionByScheduler, or of an event
        about it, such as Evicted.
        """
        holds = any(
            reason_of(life.document, "DisruptionTarget") == reason
            or any(event.startswith(f"{reason}:") for event in self._events(life))
            for life in self.all_lives
        )
        text = f"one of {self.about} expected to be evicted by {reason}"
        return Finding(holds, f"{text}; {_listed(map(_told, self.all_lives))}")

    def bound_once(self) -> Finding:
        """True if no pod was ever bound more than once, removed ones included."""
        often = [life for life in self.all_lives if len(life.nodes) > 1]
        told = _listed(f"{life.name} to {', then '.join(life.nodes)}" for life in often)
        return Finding(not often, f"{self.about} expected to be bound once; {told}")

    def _finding(self, holds: bool, text: str) -> Finding:
        return Finding(holds, f"{text}; {_listed(map(_told, self.lives))}")


def condition(document: Document, kind: str) -> str:
    """Returns the status of a condition, or "" without it."""
    return str(_condition(document, kind).get("status", ""))


def reason_of(document: Document, kind: str) -> str:
    """Returns the reason of a condition, or "" without it."""
    return str(_condition(document, kind).get("reason", ""))


def why_pending(document: Document) -> str:
    """Returns what the scheduler says about a pending pod, or ""."""
    return str(_condition(document, "PodScheduled").get("message", ""))


def _condition(document: Document, kind: str) -> Document:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


def _told(life: PodLife) -> str:
    """Returns what there is to say about a pod, in a few words."""
    document, name = life.document, life.name
    phase = (document.get("status") or {}).get("phase") or "Pending"
    node = document["spec"].get("nodeName")
    if life.gone is not None:
        disrupted = reason_of(document, "DisruptionTarget")
        return f"{name} is gone{f' by {disrupted}' if disrupted else ''}"
    if node:
        return f"{name} is {phase} on {node}"
    return f"{name} is pending: {why_pending(document) or UNSAID}"


def _listed(texts: Iterable[str]) -> str:
    lines = list(texts)
    more = f"; and {len(lines) - 8} more" if len(lines) > 8 else ""
    return ("; ".join(lines[:8]) or "there are none") + more

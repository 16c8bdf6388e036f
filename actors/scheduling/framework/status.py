"""Status: what a plugin answers, in the codes of the scheduling framework.

A Status is a value; plugins return it for everything they expect. SUCCESS is shared, so `status is
SUCCESS` is cheap.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable

import msgspec


class Code(enum.IntEnum):
    """The codes of the scheduling framework, by the names that users see in metrics and
    explanations.
    """

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """The code as Kubernetes spells it, such as `UnschedulableAndUnresolvable`."""
        return _LABELS[self]


_LABELS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}


# Looking a member up in its class is slow where it is done for every plugin and pod.
_SUCCESS = Code.SUCCESS
_REJECTED = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


class Status(msgspec.Struct, frozen=True):
    """A plugin's answer: a code, the reasons a user reads, and the plugin that gave it ("" for
    none).
    """

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def ok(self) -> bool:
        return self.code is _SUCCESS

    @property
    def rejected(self) -> bool:
        """True if the pod cannot be placed for now, as opposed to an error."""
        return self.code in _REJECTED

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same answer, signed by `plugin`, unless it is signed already."""
        return self if self.plugin else Status(self.code, self.reasons, plugin)

    def on_chosen_node(self) -> Status:
        """A rejection after a node was chosen, told as users know it: no node of one is
        available.
        """
        return Status(self.code, (fit_error(1, self.reasons),), self.plugin)


def fit_error(nodes: int, reasons: Iterable[str]) -> str:
    """`0/N nodes are available: ...`, as users of kube-scheduler know it; each reason once, with
    how often it came.
    """
    counts = Counter(reasons)
    head = f"0/{nodes} nodes are available:"
    if not counts:
        return head
    return f"{head} {', '.join(sorted(f'{count} {reason}' for reason, count in counts.items()))}."


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    return Status(Code.ERROR, reasons)

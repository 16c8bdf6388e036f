"""Status: a plugin's answer, with the codes of the scheduling framework.

A Status is a value. Plugins return one for every outcome that they expect. SUCCESS is shared, so
`status is SUCCESS` is cheap.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable

import msgspec


class Code(enum.IntEnum):
    """The codes of the scheduling framework."""

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


_LABELS = {code: "".join(word.capitalize() for word in code.name.split("_")) for code in Code}
# Looking up a member in its class is too slow to do for every plugin and pod.
_SUCCESS = Code.SUCCESS
_REJECTED = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


class Status(msgspec.Struct, frozen=True):
    """A plugin's answer: a code, reasons for users, and the plugin's name ("" if none is set)."""

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
        """Returns the same answer with `plugin` as its plugin, unless it names one already."""
        return self if self.plugin else Status(self.code, self.reasons, plugin)

    def on_chosen_node(self) -> Status:
        """Returns a rejection on the chosen node in words for users: 0 of 1 nodes available."""
        return Status(self.code, (fit_error(1, self.reasons),), self.plugin)


def fit_error(nodes: int, reasons: Iterable[str]) -> str:
    """Returns `0/N nodes are available: ...` as kube-scheduler does: each reason with its count."""
    counts = Counter(reasons)
    head = f"0/{nodes} nodes are available:"
    if not counts:
        return head
    return f"{head} {', '.join(sorted(f'{count} {reason}' for reason, count in counts.items()))}."


def encodable(text: str) -> str:
    """Returns the text of a plugin in a form that UTF-8 has: half of a surrogate pair, which Python
    makes of a file name that is not UTF-8, is escaped. It is a plain string: one of another class
    may compare as it likes.
    """
    if type(text) is str and text.isascii():
        return text
    return str.encode(text, errors="backslashreplace").decode()


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)


class UserMessageError(Exception):
    """A plugin fails where it can return no status, as in Score. The message is for users."""


def unschedulable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


class NotFound(Status, frozen=True):
    """The API server's answer that it has no such object."""


def error(*reasons: str) -> Status:
    return Status(Code.ERROR, reasons)

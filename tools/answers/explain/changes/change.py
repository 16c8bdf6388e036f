"""A change of the cluster after which a pending pod may fit: as a sentence and as edits."""

from __future__ import annotations

from enum import Enum

import msgspec

from .edit import Edit


class Who(Enum):
    """The people who can make a change, in the order in which changes are shown."""

    NOBODY = "wait"
    OWNER = "owner"
    ADMIN = "admin"


class ProposedChange(msgspec.Struct, frozen=True):
    """A change that may help. `sentence` is an imperative without a full stop. `size` is from 0 to
    1: the smaller, the less it changes.
    """

    kind: str
    who: Who
    size: float
    sentence: str
    edits: tuple[Edit, ...]


class Suggestion(msgspec.Struct, frozen=True):
    """A change after which the pod fits, and the nodes that it may then go to."""

    kind: str
    who: Who
    sentence: str
    edits: tuple[Edit, ...]
    nodes: tuple[str, ...]

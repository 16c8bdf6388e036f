"""A kind of change: how it finds the changes to try, for a pending pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from .change import ProposedChange
from .edit import Edit
from .world import World


class Way(msgspec.Struct, frozen=True):
    """A kind of change, as the search tries it.

    `openings` yields edits that do at least as much as any of the `changes`: if the pod fits after
    none of them, no change is looked for. A kind with None is only combined with others, as the
    second change.
    """

    changes: Callable[[World], Iterator[ProposedChange]]
    openings: Callable[[World], Iterator[Edit]] | None = None

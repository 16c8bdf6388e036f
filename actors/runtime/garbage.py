"""When the interpreter looks for cycles among objects: seldom, where millions live long and form none.

What a scheduler holds of a cluster are trees, which go with their last reader. Looking through all of them for cycles,
as the interpreter would by itself after every few thousand new objects, makes pods wait and finds nothing.
"""

from __future__ import annotations

import gc

THRESHOLDS = (100_000, 50, 100)


def collect_seldom() -> None:
    """For the whole process, from now on."""
    gc.set_threshold(*THRESHOLDS)

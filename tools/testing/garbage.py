"""The garbage collector of Python while clusters run.

A cluster makes many objects and keeps most of them. By default Python looks for garbage after every
700 more of them, and each time that they have grown by a quarter, among all objects of the process:
that takes a sixth of the time of a test.
"""

from __future__ import annotations

import gc
from threading import Lock
from types import TracebackType

SELDOM = 50_000  # more objects between two looks for garbage, which then take about 10 ms


class _Seldom:
    """Looks for garbage seldom from when a first cluster enters until the last one leaves, in
    whatever thread. Whoever looks still less often, or never, goes on so.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._clusters = 0
        self._before = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            if not self._clusters:
                self._before = gc.get_threshold()
                if 0 < self._before[0] < SELDOM:
                    gc.set_threshold(SELDOM, *self._before[1:])
            self._clusters += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._clusters -= 1
            if not self._clusters and gc.get_threshold() == (SELDOM, *self._before[1:]):
                gc.set_threshold(*self._before)


SELDOM_COLLECTED = _Seldom()

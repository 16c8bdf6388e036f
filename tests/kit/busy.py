"""Something to be seen at."""

from __future__ import annotations

import time


def busy(seconds: float) -> None:
    """Compute for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass

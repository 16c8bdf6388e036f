"""A function that a sampler must see on the stack."""

from __future__ import annotations

import signal

LOOKS = 20


def busy() -> None:
    """Raises the alarm at which a sampler looks at the stack, LOOKS times."""
    for _ in range(LOOKS):
        signal.raise_signal(signal.SIGALRM)

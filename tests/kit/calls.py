"""Counts calls, to measure cost independently of the machine."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import berth.actors

OURS = str(Path(berth.actors.__file__).parent)


class CallCounter:
    """While entered, counts the calls of Python functions in actors/ and the C functions that these
    call.
    """

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> CallCounter:
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(OURS):
            self.calls += 1

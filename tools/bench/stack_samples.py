"""A sampling profiler: records the stack of the main thread every millisecond of wall time.

A profiler that is called at every function call makes short functions look slow, and a scheduler
consists of short functions. This profiler costs nothing between two samples, so the process runs at
nearly full speed. A stack is written in the form that flame graphs are made from,
"outermost;...;innermost". Time in C code counts for its caller.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FrameType

import msgspec

SECONDS = 0.001
TOP = 10
OURS = ("actors", "tools")
ELSEWHERE = "event loop and libraries"

Stacks = dict[str, int]


class Share(msgspec.Struct, frozen=True):
    """A function or a room, and its share of all time: alone, and together with its callees."""

    name: str
    own: float
    total: float


class Sampler:
    """The profiler. Only one may run at a time, in the main thread: it uses the alarm signal."""

    def __init__(self) -> None:
        self._stacks: Counter[tuple[CodeType, ...]] = Counter()

    def start(self) -> None:
        self._stacks.clear()
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, SECONDS, SECONDS)

    def stop(self) -> Stacks:
        """Ends the profile. Returns the number of samples of each stack."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        samples: Counter[str] = Counter()
        for codes, times in self._stacks.items():
            samples[";".join(map(_name, reversed(codes)))] += times
        return dict(samples)

    def _look(self, _signal: int, frame: FrameType | None) -> None:
        codes = []
        while frame is not None:
            codes.append(frame.f_code)
            frame = frame.f_back
        self._stacks[tuple(codes)] += 1


def _name(code: CodeType) -> str:
    parts = Path(code.co_filename).parts
    first = next((at for at, part in enumerate(parts) if part in OURS), max(len(parts) - 2, 0))
    return f"{'/'.join(parts[first:])}:{code.co_qualname}".replace(";", ",")


def functions(stacks: Mapping[str, int], most: int = TOP) -> tuple[Share, ...]:
    """Returns the functions that take the most time themselves."""
    return _shares(stacks, lambda names: names, most)


def rooms(stacks: Mapping[str, int]) -> tuple[Share, ...]:
    """Returns the folders of the source, such as actors/queue, also those that only called others.

    The time of a library counts for the room that called it.
    """
    return _shares(
        stacks,
        lambda names: [room for name in names if (room := _room(name))] or [ELSEWHERE],
    )


def _room(name: str) -> str:
    parts = name.partition(":")[0].split("/")
    return "/".join(parts[:2]) if parts[0] in OURS else ""


def _shares(
    stacks: Mapping[str, int], seen: Callable[[list[str]], list[str]], most: int | None = None
) -> tuple[Share, ...]:
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for stack, times in stacks.items():
        names = seen(stack.split(";"))
        own[names[-1]] += times
        for name in set(names):
            total[name] += times
    every = max(sum(stacks.values()), 1)
    first = sorted(total, key=lambda name: (-own[name], -total[name], name))[:most]
    return tuple(Share(name, own[name] / every, total[name] / every) for name in first)

"""`berth simulate` and `berth chaos` as processes: killed at any time they leave nothing behind,
and side by side they do not touch each other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest

from berth.tools.testing.simulation.short_stories import drawn_short
from berth.tools.testing.simulation.simulation import play

pytestmark = pytest.mark.full("processes")

BERTH = (sys.executable, "-m", "berth.actors")
SIMULATE = (*BERTH, "simulate", "--seeds", "4", "--time", "1000h", "--jobs", "2")
CHAOS = (*BERTH, "chaos", "--time", "10m", "--schedulers", "1")
STORIES = (*BERTH, "simulate", "--short", "--seeds", "2", "--jobs", "2", "-o", "json")
MOST_SECONDS = 60.0


def processes_of(folder: Path) -> list[str]:
    """Returns the commands that run with this folder for temporary files."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"TMPDIR={folder}\0".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at /proc")
@pytest.mark.parametrize(("command", "numbers"), [(SIMULATE, (1, 3)), (CHAOS, (2, 4, 6))])
def test_what_is_killed_at_any_time_leaves_nothing_behind(
    command: tuple[str, ...], numbers: tuple[int, ...], tmp_path: Path
) -> None:
    """Some die before they have begun, others with all of their processes at work: once there are
    so many.
    """
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    for number in numbers:
        with subprocess.Popen(command, env=environment) as process:
            _until(lambda number=number: len(processes_of(tmp_path)) >= number)  # type: ignore[misc]
            process.kill()
        _until(lambda: not processes_of(tmp_path))
        assert not list(tmp_path.iterdir())


def _until(holds: Callable[[], bool]) -> None:
    ends = monotonic() + MOST_SECONDS
    while not holds():
        assert monotonic() < ends
        sleep(0.02)


def test_side_by_side_they_do_not_touch_each_other() -> None:
    """Each seed gives the story that it gives alone."""
    firsts = 1, 2
    running = [
        subprocess.Popen([*STORIES, "--seed", str(first)], stdout=subprocess.PIPE)
        for first in firsts
    ]
    told = [json.loads(process.communicate()[0])["stories"] for process in running]
    alone = {seed: play(drawn_short(seed)).digest for seed in range(1, 4)}
    for first, stories in zip(firsts, told, strict=True):
        assert [story["digest"] for story in stories] == [
            alone[seed] for seed in range(first, first + 2)
        ]

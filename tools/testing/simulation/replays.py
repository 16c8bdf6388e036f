"""Scenarios as tests: played again, and every property must hold."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .scenario import read_scenario
from .simulation import Story, play


def replay(file: Path | str) -> Story:
    """Plays the scenario of a file, and returns its story. Raises AssertionError with what does not
    hold, FaultError for a file that cannot be used, and OSError.

    It has an event loop of its own, also when it is called in one.
    """
    scenario = read_scenario(Path(file))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        story = play(scenario)
    else:
        with ThreadPoolExecutor(1) as thread:
            story = thread.submit(play, scenario).result()
    lines = [f"{each.at:g} s, {each.property}: {each.text}" for each in story.violations]
    if lines:
        raise AssertionError("\n  ".join((f"{file} breaks what must hold:", *lines)))
    return story

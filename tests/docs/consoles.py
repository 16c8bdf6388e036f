"""Runs the commands of a section of a page, and compares what they print with the page."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tests.docs.blocks import exchanges, of_section
from tests.kit.kubectl import SKEW, Kubectl

WAITS = ("kubectl wait", "kubectl rollout status")


def follow(
    page: Path,
    section: str,
    kubectl: Kubectl,
    looks: tuple[str, ...],
    seconds: float,
    hurried: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Runs the commands one after another. Those that begin with one of `looks` are repeated until
    they print what the page shows: the controllers take a moment to reach it. The cluster is to be
    `hurried` in between, and while a command waits.
    """
    for block in of_section(page, section):
        for command, printed in exchanges(block):
            end = time.monotonic() + seconds
            with hurried() if command.startswith(WAITS) else nullcontext():
                got = _output(kubectl, command, seconds)
            while command.startswith(looks) and not _shown(printed).fullmatch(got):
                assert time.monotonic() < end, f"{block}: {command}: {got}"
                with hurried():
                    time.sleep(0.5)
                got = _output(kubectl, command, seconds)
            assert _shown(printed).fullmatch(got), f"{block}: {command}\n{got}"


def _output(kubectl: Kubectl, command: str, seconds: float) -> str:
    """Returns what a shell prints, without spaces at the ends of lines."""
    done = subprocess.run(
        command,
        shell=True,
        cwd=kubectl.folder,
        env=kubectl.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    lines = SKEW.sub("", done.stdout).splitlines()
    kept = [line.rstrip() for line in lines if not line.startswith(("Warning:", "Waiting for"))]
    return "".join(f"{line}\n" for line in kept)


def _shown(printed: str) -> re.Pattern[str]:
    """Returns the pattern of an output; an ellipsis stands for any part of a line."""
    return re.compile(re.escape(printed).replace("…", ".*"))

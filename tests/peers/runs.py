"""Runs a suite with pytest, and tells on the way how far it is."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import IO

import click
import msgspec

from .clusters import STAND_IN
from .suites import Suite

TELL_SECONDS = 20.0
TEST_SECONDS = 120


class Outcome(msgspec.Struct, frozen=True):
    """What came of one test: "passed", "skipped" or "failed", and what it said."""

    test: str
    outcome: str
    says: str = ""


def run(
    python: Path, checkout: Path, suite: Suite, home: Path, chosen: str, printed: IO[str]
) -> dict[str, Outcome]:
    """Returns the outcome of each test of a suite, or of those that `chosen` chooses.

    `home` has the kubeconfig, where clients look for it.
    """
    told = home / "outcomes"
    told.touch()
    command = [str(python), "-P", "-m", "pytest", "-p", "berth_stand_in", *suite.tests]
    command += [f"--timeout={TEST_SECONDS}", *(["-k", chosen] if chosen else [])]
    environment = _environment(python, checkout, suite, home, told)
    with (
        told.open() as lines,
        subprocess.Popen(
            command, cwd=checkout, env=environment, stdout=printed, stderr=printed
        ) as process,
    ):
        try:
            return _followed(suite, process, lines)
        finally:
            process.terminate()


def _followed(suite: Suite, process: subprocess.Popen[bytes], lines: IO[str]) -> dict[str, Outcome]:
    """Reads what the plugin tells until pytest ends, and says how far it is."""
    outcomes: dict[str, Outcome] = {}
    begun = shown = time.monotonic()
    over = False
    while not over:
        time.sleep(0.2)
        over = process.poll() is not None
        for line in lines:
            outcome = msgspec.json.decode(line, type=Outcome)
            if outcome.outcome == "failed":
                click.echo(f"{suite.name}: {outcome.test} failed", err=True)
            outcomes[outcome.test] = outcome
        if (now := time.monotonic()) > shown + TELL_SECONDS:
            _tell(suite, len(outcomes), now - begun)
            shown = now
    return outcomes


def _tell(suite: Suite, done: int, seconds: float) -> None:
    click.echo(f"{suite.name}: {done} of {suite.count} tests in {seconds:.0f} s", err=True)


def _environment(
    python: Path, checkout: Path, suite: Suite, home: Path, told: Path
) -> dict[str, str]:
    config = str(home / ".kube" / "config")
    not_run = [test for tests in suite.not_run.values() for test in tests]
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")},
        "PATH": f"{python.parent}{os.pathsep}{STAND_IN / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(STAND_IN),
        "HOME": str(home),
        "KUBECONFIG": config,
        "BERTH_KUBECONFIG": config,
        "BERTH_CHECKOUT": str(checkout.absolute()),
        "BERTH_RELEASED": suite.released,
        "BERTH_NOT_RUN": "\n".join(not_run),
        "BERTH_OUTCOMES": str(told),
    }

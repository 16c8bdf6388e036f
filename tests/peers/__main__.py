"""The command that runs other people's suites."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from . import verdicts
from .clusters import cluster, given_cluster
from .environments import environment
from .runs import Outcome, run
from .suites import SUITES, Suite

NAMES = [suite.name for suite in SUITES]


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("names", metavar="[SUITE]...", nargs=-1, type=click.Choice(NAMES))
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, path_type=Path),
    help="Run the suites against this cluster instead.",
)
@click.option(
    "-k", "chosen", default="", help="Run only the tests that pytest chooses by this expression."
)
def peers(folder: Path, names: Sequence[str], kubeconfig: Path | None, chosen: str) -> None:
    """Run suites of the checkouts in FOLDER; without names, all of them.

    The exit code is 1 if a test does not pass that suites.yaml does not list, or one passes that it
    lists.
    """
    # What was started ends with this program.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    suites = [suite for suite in SUITES if not names or suite.name in names]
    rows, told = [verdicts.HEAD], []
    wrong = False
    for suite in suites:
        outcomes = _outcomes(folder, suite, kubeconfig, chosen)
        if chosen:
            faults = list(verdicts.unexplained(suite, outcomes))
        else:
            faults = verdicts.faults(suite, outcomes)
        rows.append(verdicts.row(suite, outcomes))
        told += [f"{suite.name}: {line}" for line in verdicts.explained(suite, outcomes)]
        told += [f"{suite.name}: NOT AS LISTED: {fault}" for fault in faults]
        wrong = wrong or bool(faults)
    click.echo("\n".join([*told, "", *rows]))
    sys.exit(wrong)


def _outcomes(
    folder: Path, suite: Suite, kubeconfig: Path | None, chosen: str
) -> dict[str, Outcome]:
    """Runs a suite against a cluster of its own."""
    python = environment(folder, suite)
    log = folder / ".printed" / f"{suite.name}.txt"
    log.parent.mkdir(exist_ok=True)
    click.echo(f"{suite.name}: running; what it prints is in {log}", err=True)
    with (
        log.open("w") as printed,
        TemporaryDirectory() as place,
    ):
        home = Path(place)
        if kubeconfig:
            running = given_cluster(home, kubeconfig)
        else:
            running = cluster(home, suite.flags, printed)
        with running:
            return run(python, folder / suite.checkout, suite, home, chosen, printed)


if __name__ == "__main__":
    peers()

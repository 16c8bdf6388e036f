"""Runs Kubernetes' own end-to-end tests: `python -m tests.peers.kubernetes_e2e PROGRAM KUBECONFIG`.

PROGRAM is e2e.test of Kubernetes 1.36. The tests are those of kubernetes_e2e.txt, which need no
container that runs; they pass on `berth apiserver` with kube-controller-manager, hollow kubelets
and `berth run`. Each has a process of its own, because a process begins with a list of all tests.
The exit code is 1 if one does not pass.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import click

LIST = Path(__file__).with_suffix(".txt")
SERIAL = "[Serial]"  # in the names of tests that bear no others beside them
ENDED = re.compile(r"^(SUCCESS|FAIL)! -- (\d+) Passed", re.MULTILINE)


def names() -> list[str]:
    return LIST.read_text().splitlines()


@click.command()
@click.argument("program", type=click.Path(exists=True, dir_okay=False))
@click.argument("kubeconfig", type=click.Path(exists=True, dir_okay=False))
@click.option("--workers", default=4, help="How many tests run at the same time.")
@click.option("--minutes", default=8, help="How long a test may take.")
@click.option("-k", "chosen", default="", help="Run only the tests whose name matches this.")
def end_to_end(program: str, kubeconfig: str, workers: int, minutes: int, chosen: str) -> None:
    """Run the tests that pass, and print those that do not."""
    run = partial(passes, program, kubeconfig, minutes)
    wanted = [name for name in names() if re.search(chosen, name)]
    together = [name for name in wanted if SERIAL not in name]
    alone = [name for name in wanted if SERIAL in name]
    with ThreadPoolExecutor(workers) as pool:
        outcomes = [*zip(together, pool.map(run, together), strict=True)]
    outcomes += [(name, run(name)) for name in alone]
    failed = [name for name, passed in outcomes if not passed]
    for name in failed:
        click.echo(f"failed: {name}")
    click.echo(f"{len(outcomes) - len(failed)} of {len(outcomes)} passed")
    sys.exit(bool(failed))


def passes(program: str, kubeconfig: str, minutes: int, name: str) -> bool:
    ran = subprocess.run(
        command(program, kubeconfig, minutes, name), capture_output=True, text=True, check=False
    )
    ended = ENDED.search(ran.stdout)
    return ended is not None and ended.groups() == ("SUCCESS", "1")


def command(program: str, kubeconfig: str, minutes: int, name: str) -> Sequence[str]:
    """Returns the command that runs the one test of this name."""
    return (
        program,
        f"--ginkgo.focus={re.escape(name)}$",
        f"--ginkgo.timeout={minutes}m",
        "--ginkgo.no-color",
        f"--kubeconfig={kubeconfig}",
        "--provider=local",
        "--dump-logs-on-failure=false",
    )


if __name__ == "__main__":
    end_to_end()

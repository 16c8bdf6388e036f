"""The command that runs other people's suites."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import click

from .container_ports import container_scripts
from .suites import SUITES, Suite

STAND_IN = Path(__file__).with_name("stand_in")
START_SECONDS = 30.0
BARE = "{apiVersion: v1, kind: ConfigMap, metadata: {name: bare}}"
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

    The exit code is 1 if fewer tests of a suite pass than the table says, or if one fails without a
    reason there.
    """
    short = False
    for suite in SUITES:
        if names and suite.name not in names:
            continue
        python = _environment(folder, suite)
        with TemporaryDirectory() as place, _cluster(Path(place), kubeconfig, suite) as config:
            outcomes = _run(python, folder / suite.checkout, suite, config, chosen)
        short = _tell(suite, outcomes) or short
    sys.exit(short and not chosen)


def _environment(folder: Path, suite: Suite) -> Path:
    """Returns the Python of the suite's environment, which is made if it is not there."""
    place = (folder / ".environments" / suite.name).absolute()
    python, done = place / "bin" / "python", place / "done"
    if not done.exists():
        click.echo(f"{suite.name}: installing what it needs", err=True)
        venv.create(place, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "-q", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, *suite.needs], check=True)
        project = folder / suite.checkout / suite.project
        version = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION": "99.0"}
        subprocess.run([*pip, str(project.absolute())], check=True, env=version)
        done.touch()
    return python


@contextmanager
def _cluster(place: Path, kubeconfig: Path | None, suite: Suite) -> Iterator[Path]:
    """Runs a cluster of three nodes during the block, and yields its kubeconfig."""
    if kubeconfig is not None:
        yield kubeconfig
        return
    config, bare = place / ".kube" / "config", place / "bare.yaml"
    config.parent.mkdir()
    bare.write_text(BARE)
    demo = [str(Path(sys.executable).with_name("berth")), "demo", "--keep", "--nodes", "3"]
    demo += ["--tls", *suite.flags, "--stages", str(STAND_IN / "slow_start.yaml")]
    command = [*demo, "-f", str(bare), "--kubeconfig-out", str(config)]
    with (
        container_scripts(place) as scripts,
        _started([*command, "--scripts", str(scripts)]) as process,
    ):
        try:
            deadline = time.monotonic() + START_SECONDS
            while not config.exists() or not config.stat().st_size:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise click.ClickException("the cluster did not start")
                time.sleep(0.1)
            yield config
        finally:
            process.terminate()


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts a cluster that finds the functions of scripts."""
    environment = {**os.environ, "PYTHONPATH": str(STAND_IN)}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)


def _run(python: Path, checkout: Path, suite: Suite, config: Path, chosen: str) -> dict[str, str]:
    """Returns the outcome of each test: "passed", "skipped", or the first line of its failure."""
    report = config.parent / "report.xml"
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")},
        "PATH": f"{python.parent}{os.pathsep}{STAND_IN / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(STAND_IN),
        "HOME": str(config.parent.parent),
        "KUBECONFIG": str(config),
        "BERTH_KUBECONFIG": str(config),
        "BERTH_CHECKOUT": str(checkout.absolute()),
    }
    command = [str(python), "-m", "pytest", "-p", "berth_stand_in", "-q", f"--junitxml={report}"]
    command += [*suite.tests, "--timeout=120", *(["-k", chosen] if chosen else [])]
    subprocess.run(command, cwd=checkout, env=environment, check=False)
    if not report.exists():
        raise click.ClickException(f"{suite.name}: pytest gave no report")
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        problem = next((each for each in case if each.tag in ("failure", "error")), None)
        skipped = case.find("skipped") is not None
        name = f"{case.get('classname')}.{case.get('name')}"
        said = (problem.get("message") or "failed") if problem is not None else ""
        outcomes[name] = (
            said.strip().partition("\n")[0] if said else "skipped" if skipped else "passed"
        )
    return outcomes


def _tell(suite: Suite, outcomes: dict[str, str]) -> bool:
    """Prints what a suite came to. Returns True if it fell short of the table."""
    passed = sum(outcome == "passed" for outcome in outcomes.values())
    failed = {name: said for name, said in outcomes.items() if said not in ("passed", "skipped")}
    click.echo(f"{suite.name}: {passed} of {len(outcomes)} passed, {suite.passes} expected")
    unexplained = False
    for name, said in failed.items():
        why = next((why for end, why in suite.reasons.items() if name.endswith(end)), "")
        unexplained = unexplained or not why
        click.echo(f"  {name}: {why or said}")
    return passed < suite.passes or unexplained


if __name__ == "__main__":
    peers()

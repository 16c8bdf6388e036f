"""An environment of Python for each suite."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

import click

from .suites import Suite

# The checkouts have no tags of git to take a version from.
_VERSION = {"SETUPTOOLS_SCM_PRETEND_VERSION": "99.0"}


def environment(folder: Path, suite: Suite) -> Path:
    """Returns the Python of the suite's environment, which is made if it is not as listed."""
    place = (folder / ".environments" / suite.name).absolute()
    python, made = place / "bin" / "python", place / "made-of"
    wanted = "\n".join([*suite.needs, suite.released or suite.checkout])
    if not made.exists() or made.read_text() != wanted:
        click.echo(f"{suite.name}: installing what it needs", err=True)
        venv.create(place, with_pip=True, clear=True)
        own = [] if suite.released else [str((folder / suite.checkout).absolute())]
        _install(python, *suite.needs, *own)
        made.write_text(wanted)
    return python


def _install(python: Path, *requirements: str) -> None:
    command = [str(python), "-m", "pip", "-q", "--disable-pip-version-check"]
    command += ["install", "--no-compile"]  # of a client of thousands of modules few are used
    done = subprocess.run(
        [*command, *requirements],
        check=False,
        env={**os.environ, **_VERSION},
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise click.ClickException(
            f"pip could not install {' '.join(requirements)}:\n{done.stderr}"
        )

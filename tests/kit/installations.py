"""Distributions that hatchling builds, and environments in which pip installs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

OFFLINE = (
    "--quiet",
    "--no-index",
    "--no-deps",
    "--no-compile",
    "--no-build-isolation",
    "--disable-pip-version-check",
)


def ran(*command: str | Path, folder: Path) -> str:
    """Returns the output of a command that has to succeed, with nothing on Python's path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,  # mypy reads all of berth
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def built(source: Path, target: str, folder: Path) -> Path:
    """Returns the distribution that hatchling makes of a project."""
    ran(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder, folder=source)
    (distribution,) = folder.iterdir()
    return distribution


def files_of(*distributions: str) -> set[str]:
    """Returns the files and folders in site-packages of these distributions, and of all that they
    require without extras.
    """
    files: set[str] = set()
    seen, waiting = set(), [*distributions]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            package = distribution(name)
            files.update(file.parts[0] for file in package.files or () if file.parts[0] != "..")
            requirements = map(Requirement, package.requires or ())
            waiting += [
                each.name
                for each in requirements
                if each.marker is None or each.marker.evaluate({"extra": ""})
            ]
    return files


class Environment:
    """A fresh virtual environment that finds these packages, what they require, and what builds
    berth, but nothing of berth.
    """

    def __init__(self, folder: Path, *packages: str) -> None:
        ran(sys.executable, "-m", "venv", "--without-pip", folder / "env", folder=folder)
        self.python = folder / "env/bin/python"
        self.program = folder / "env/bin/berth"
        self.site = Path(
            ran(
                self.python,
                "-c",
                "import sysconfig; print(sysconfig.get_path('purelib'))",
                folder=folder,
            ).strip()
        )
        self.neutral = folder / "neutral"
        self.neutral.mkdir()
        dependencies = folder / "dependencies"
        dependencies.mkdir()
        site = Path(sysconfig.get_path("purelib"))
        for name in files_of(*packages, "hatchling", "editables"):
            if "berth" not in name:
                (dependencies / name).symlink_to(site / name)
        (self.site / "dependencies.pth").write_text(f"{dependencies}\n")
        self.before = self.installed()

    def installed(self) -> set[str]:
        """Returns the names in site-packages."""
        return {path.name for path in self.site.iterdir() if path.name != "__pycache__"}

    def pip(self, *arguments: str | Path) -> None:
        ran(sys.executable, "-m", "pip", "--python", self.python, *arguments, folder=self.neutral)

    def install(self, *what: str | Path) -> None:
        self.pip("install", *OFFLINE, *what)

    def uninstall(self, name: str) -> None:
        self.pip("uninstall", "--quiet", "--yes", name)

    def berth(self, *arguments: str) -> str:
        """Returns the output of `berth` there."""
        return ran(self.program, *arguments, folder=self.neutral)

    def run(self, *arguments: str) -> str:
        """Returns the output of Python in an empty folder."""
        return ran(self.python, *arguments, folder=self.neutral)

    def add_config(self) -> None:
        """Adds the package `config` of another project."""
        (self.site / "config").mkdir()
        (self.site / "config/__init__.py").write_text('OWNER = "another project"\n')

    def remove_config(self) -> None:
        shutil.rmtree(self.site / "config")

    def finds(self, *modules: str) -> list[str]:
        """Returns those of these top-level modules that can be imported."""
        code = "import importlib.util, sys; print(*filter(importlib.util.find_spec, sys.argv[1:]))"
        return self.run("-c", code, *modules).split()

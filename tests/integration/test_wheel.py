"""Installed, everything of berth is importable below `berth` alone, so it shares no name with
another package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.kit.processes import berth

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
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
        timeout=120,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def built(source: Path, target: str, folder: Path) -> Path:
    """Returns the distribution that hatchling makes of a project."""
    ran(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder, folder=source)
    (distribution,) = folder.iterdir()
    return distribution


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


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
    """A fresh virtual environment that finds the packages that berth requires, and those that build
    it, but nothing of berth.
    """

    def __init__(self, folder: Path) -> None:
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
        for name in files_of("berth-scheduler", "hatchling", "editables"):
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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Iterator[Environment]:
    """An environment with the wheel, which each test leaves as it was."""
    environment = Environment(tmp_path_factory.mktemp("installed"))
    environment.install(wheel)
    yield environment
    environment.uninstall("berth-scheduler")
    assert environment.installed() == environment.before


def keeps_off(environment: Environment) -> None:
    """Asserts that berth and a package `config` of others, both installed, do without each other,
    and removes the latter.
    """
    code = "import berth.config.load, config; print(config.OWNER)"
    assert environment.run("-c", code) == "another project\n"
    environment.remove_config()
    assert "demo" in environment.berth("--help")
    environment.run("-c", "import berth.config.load, berth.plugin")
    assert environment.finds("berth", "actors", "config", "tools") == ["berth"]


def test_it_keeps_off_a_package_config_that_is_installed_later(installed: Environment) -> None:
    installed.add_config()
    keeps_off(installed)
    new = installed.installed() - installed.before
    metadata = {name for name in new if name.endswith(".dist-info")}
    assert new - metadata == {"berth"}
    assert all("berth" in name for name in metadata)


def test_in_a_checkout_it_keeps_off_a_package_config_that_was_there(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    environment.add_config()
    environment.install("-e", ROOT)
    keeps_off(environment)
    new = environment.installed() - environment.before
    assert new == {name for name in new if name.endswith((".dist-info", ".pth"))}
    assert all("berth" in name for name in new)
    environment.uninstall("berth-scheduler")
    assert environment.installed() == environment.before


async def test_it_runs_with_nothing_but_what_it_requires(
    installed: Environment, tmp_path: Path
) -> None:
    assert installed.finds("pytest", "hypothesis", "opentelemetry", "jsonschema") == []
    assert installed.run("-m", "berth.actors", "--help") == installed.berth("--help")
    assert "--times" in installed.run("-m", "berth.tools.bench.decision", "--help")
    assert version("berth-scheduler") in installed.berth("version")
    assert "13 placed, 0 pending" in installed.berth("demo")
    program = (str(installed.program),)
    async with berth(tmp_path, "apiserver", program=program) as server:
        url = (await server.says("API server at ")).split()[-1]
        async with berth(tmp_path, "run", f"--master={url}", program=program) as scheduler:
            await scheduler.says("Successfully acquired lease")


def test_a_wheel_has_the_package_and_its_metadata(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"berth", "berth_scheduler"}
    assert {"berth/py.typed", "berth/plugin.py", "berth/actors/cli/run.py"} <= set(names)
    assert not [name for name in names if "/tests/" in name]
    assert not [name for name in names if "/config/" in name and not name.endswith(".py")]


def test_an_sdist_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(built(ROOT, "sdist", tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("berth_scheduler-*")
    again = built(source, "wheel", tmp_path / "wheel")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())
    assert not {"actors", "config", "tools"} & {path.name for path in source.iterdir()}
    assert not [path for path in source.iterdir() if path.suffix == ".whl"]

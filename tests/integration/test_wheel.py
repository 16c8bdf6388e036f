"""Installed, everything of berth is importable below `berth` alone, so it shares no name with
another package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

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
    """What a command prints that has to succeed, with nothing on Python's path."""
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
    """The distribution that hatchling makes of a project."""
    ran(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder, folder=source)
    (distribution,) = folder.iterdir()
    return distribution


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of another project with the top-level package `config`."""
    project = tmp_path_factory.mktemp("config")
    (project / "config").mkdir()
    (project / "config/__init__.py").write_text('OWNER = "another project"\n')
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "config"\nversion = "1"\n'
    )
    return built(project, "wheel", tmp_path_factory.mktemp("stand-in"))


class Environment:
    """A fresh virtual environment that finds berth's dependencies, and nothing of berth."""

    def __init__(self, folder: Path) -> None:
        ran(sys.executable, "-m", "venv", "--without-pip", folder / "env", folder=folder)
        self.python = folder / "env/bin/python"
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
        for path in Path(sysconfig.get_path("purelib")).iterdir():
            if "berth" not in path.name:
                (dependencies / path.name).symlink_to(path)
        (self.site / "dependencies.pth").write_text(f"{dependencies}\n")
        self.before = self.installed()

    def installed(self) -> set[str]:
        """The names in site-packages."""
        return {path.name for path in self.site.iterdir() if path.name != "__pycache__"}

    def pip(self, *arguments: str | Path) -> None:
        ran(sys.executable, "-m", "pip", "--python", self.python, *arguments, folder=self.neutral)

    def install(self, *what: str | Path) -> None:
        self.pip("install", *OFFLINE, *what)

    def uninstall(self, name: str) -> None:
        self.pip("uninstall", "--quiet", "--yes", name)

    def berth(self, *arguments: str) -> str:
        """What `berth` prints there."""
        return ran(self.python.parent / "berth", *arguments, folder=self.neutral)

    def run(self, *arguments: str) -> str:
        """What Python prints in a folder with nothing in it."""
        return ran(self.python, *arguments, folder=self.neutral)

    def finds(self, *modules: str) -> list[str]:
        """Those of these top-level modules that can be imported."""
        code = "import importlib.util, sys; print(*filter(importlib.util.find_spec, sys.argv[1:]))"
        return self.run("-c", code, *modules).split()


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path)


@pytest.mark.parametrize(
    "order", [("berth", "config"), ("config", "berth")], ids=lambda order: " then ".join(order)
)
@pytest.mark.parametrize("editable", [False, True], ids=["wheel", "editable"])
def test_it_keeps_off_a_package_config_of_others(
    editable: bool, order: tuple[str, str], environment: Environment, wheel: Path, stand_in: Path
) -> None:
    sources: dict[str, tuple[str | Path, ...]] = {
        "berth": ("-e", ROOT) if editable else (wheel,),
        "config": (stand_in,),
    }
    for name in order:
        environment.install(*sources[name])
    code = "import berth.config.load, config; print(config.OWNER)"
    assert environment.run("-c", code) == "another project\n"

    environment.uninstall("config")
    assert "demo" in environment.berth("--help")
    environment.run("-c", "import berth.config.load, berth.plugin")
    assert environment.finds("berth", "actors", "config", "tools") == ["berth"]
    new = environment.installed() - environment.before
    metadata = {name for name in new if name.endswith((".dist-info", ".pth"))}
    assert new - metadata == (set() if editable else {"berth"})
    assert all("berth" in name for name in metadata)


def test_its_modules_run_from_any_folder(environment: Environment, wheel: Path) -> None:
    environment.install(wheel)
    assert environment.run("-m", "berth.actors", "--help") == environment.berth("--help")
    assert "--times" in environment.run("-m", "berth.tools.bench.decision", "--help")
    environment.uninstall("berth-scheduler")
    assert environment.installed() == environment.before


def test_a_wheel_has_the_package_and_its_metadata(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"berth", "berth_scheduler"}
    assert {"berth/py.typed", "berth/plugin.py", "berth/actors/run.py"} <= set(names)
    assert not [name for name in names if "/tests/" in name]


def test_an_sdist_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(built(ROOT, "sdist", tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("berth_scheduler-*")
    again = built(source, "wheel", tmp_path / "wheel")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())
    assert not {"actors", "config", "tools"} & {path.name for path in source.iterdir()}

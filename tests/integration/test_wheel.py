"""Installed, everything of berth is importable below `berth` alone, so it shares no name with
another package.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.kit.installations import Environment, built
from tests.kit.processes import berth

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Iterator[Environment]:
    """An environment with the wheel, which each test leaves as it was."""
    environment = Environment(tmp_path_factory.mktemp("installed"), "berth-scheduler")
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
    assert new - metadata == {"berth", "pytest_berth"}
    assert all("berth" in name for name in metadata)


def test_in_a_checkout_it_keeps_off_a_package_config_that_was_there(tmp_path: Path) -> None:
    environment = Environment(tmp_path, "berth-scheduler")
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
    tops = {name.split("/")[0].partition("-")[0] for name in names}
    assert tops == {"berth", "pytest_berth", "berth_scheduler"}
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

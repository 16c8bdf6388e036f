"""When the task runner makes a new environment, and when it uses the existing one."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from berth.tools import dev

Environments = list[bool]


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environments:
    """A project whose environments are only recorded: for each one, whether the old one is removed
    first.
    """
    done: Environments = []

    def create(folder: Path, *, with_pip: bool, clear: bool) -> None:
        done.append(clear)
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin" / "python").touch()

    monkeypatch.setattr(dev, "ROOT", tmp_path)
    monkeypatch.setattr(dev, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(dev, "LOCK", tmp_path / "requirements.lock")
    monkeypatch.setattr(dev, "STAMP", tmp_path / ".venv" / "berth-installed")
    monkeypatch.setattr(venv, "create", create)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    (tmp_path / "requirements.lock").write_text("a==1\n")
    (tmp_path / "pyproject.toml").write_text("[build-system]\n[project]\n[tool.hatch]\n")
    dev.setup()
    return done


def nothing(*_: Any) -> None:
    pass


def another_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(cache_tag="cpython-399"))


def another_lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "requirements.lock").write_text("a==2\n")


def lost_interpreter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the Python of the environment, so that its link is broken."""
    (folder / ".venv/bin/python").unlink()
    (folder / ".venv/bin/python").symlink_to(folder / "gone")


def unfinished(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".venv/berth-installed").unlink()


Change = Callable[[Path, pytest.MonkeyPatch], None]


@pytest.mark.parametrize("change", [another_python, another_lock, lost_interpreter, unfinished])
def test_an_unsuitable_environment_is_made_again(
    tmp_path: Path, environments: Environments, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(tmp_path, monkeypatch)
    dev.setup()
    assert environments == [True, True]
    dev.setup()
    assert len(environments) == 2


def test_a_suitable_environment_is_used(environments: Environments) -> None:
    dev.setup()
    assert environments == [True]
    assert sys.implementation.cache_tag in dev.STAMP.read_text()


def test_a_check_runs_every_step_and_names_those_that_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps: list[str] = []

    def captured(step: tuple[str, ...]) -> tuple[int, str]:
        steps.append(step[0])
        return int(step[0] == "ruff"), f"{step[0]} says so\n"

    monkeypatch.setattr(dev, "captured", captured)
    monkeypatch.chdir(dev.ROOT)
    assert dev.check(["--static"]) == 1
    assert set(steps) == {"mypy", "lint-imports", "deptry", "ruff"}
    printed, error = capsys.readouterr()
    assert printed.count("ruff says so") == 2
    assert "check failed: ruff check --quiet .; ruff format --check --quiet ." in error

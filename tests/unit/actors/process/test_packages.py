"""The entry points of installed packages: read once for each path of packages."""

from __future__ import annotations

from importlib.metadata import EntryPoints, entry_points
from pathlib import Path

import pytest

from berth.actors.configuration.plugin_packages import changed_since, every_plugin
from berth.actors.process import packages
from berth.plugin import Plugin
from tests.kit.processes import install


def names(group: str) -> set[str]:
    return set(packages.entries_of(group).names)


def test_each_group_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(group: str) -> EntryPoints:
        read.append(group)
        return entry_points(group=group)

    monkeypatch.setattr(packages, "entry_points", counted)
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):
        assert "run" in names("berth.commands")
        assert "PodSchedulingContext" in names("berth.plugins")
    assert read == ["berth.commands", "berth.plugins"]


def test_another_path_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Sound" not in names("berth.plugins")
    install(tmp_path, "sound", "", Sound="sound:Sound")
    monkeypatch.syspath_prepend(tmp_path)
    assert "Sound" in names("berth.plugins")


def test_packages_that_are_installed_later_and_code_that_is_newer_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "told_early", PLUGIN, Early="told_early:Early")
    assert issubclass(every_plugin()["Early"], Plugin)
    changed = (tmp_path / "told_early.py").stat().st_mtime
    assert changed_since(changed + 1) == []
    install(tmp_path, "told_late", PLUGIN, Late="told_late:Late")
    assert changed_since(changed - 1) == [
        "plugin Late: its package was installed since the start: restart berth to use it",
        (
            f"plugin Early: {tmp_path / 'told_early.py'} is newer than the code that runs: "
            "restart berth"
        ),
    ]


PLUGIN = """
from berth.plugin import PreEnqueuePlugin

class Early(PreEnqueuePlugin):
    name = "Early"
"""

"""The entry points of installed packages: read once for each path of packages."""

from __future__ import annotations

from importlib.metadata import EntryPoints, entry_points
from pathlib import Path

import pytest

from berth.actors.process import packages
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

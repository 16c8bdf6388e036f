"""Every entry point that the project file declares names something that is there."""

from __future__ import annotations

import tomllib
from importlib import import_module

import pytest

from tests.docs.blocks import ROOT

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TARGETS = sorted(
    target
    for group in (_PROJECT["scripts"], *_PROJECT["entry-points"].values())
    for target in group.values()
)


@pytest.mark.parametrize("target", TARGETS)
def test_an_entry_point_can_be_loaded(target: str) -> None:
    """A plugin of pytest is a module, the others are something callable in one."""
    name, _, member = target.partition(":")
    module = import_module(name)
    assert not member or callable(getattr(module, member))

"""The examples of the property tests do not depend on what else runs in the process."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

LARGEST = 10**9


def drawn() -> list[int]:
    values: list[int] = []

    @settings(max_examples=200)
    @given(st.integers(0, LARGEST))
    def draw(value: int) -> None:
        values.append(value)

    draw()
    return values


@pytest.mark.skipif(not settings().derandomize, reason="the profile draws other examples each time")
def test_another_module_changes_no_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    assert len(set(before)) > 10
    module = ModuleType("of_other_tests")
    module.__file__ = str(tmp_path / "of_other_tests.py")
    constants = range(LARGEST // 2, LARGEST // 2 + 1000)
    Path(module.__file__).write_text(f"CONSTANTS = {list(constants)}\n")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert drawn() == before

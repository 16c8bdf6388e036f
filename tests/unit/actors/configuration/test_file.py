"""A configuration file that cannot be used is refused by its name and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.actors.configuration.file import load_file
from berth.config.load import ConfigError


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n", "expected a KubeSchedulerConfiguration, got a list"),
        ("a: 1\na: 2\n", "line 2: the key a occurs twice in the mapping of line 1"),
        ("a: [", "cannot be read: line 2: did not find"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load_file(file)


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="/dev/zero: expected at most 16777216 bytes"):
        load_file("/dev/zero")

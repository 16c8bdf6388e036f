"""The tables of `berth demo`, and its errors about files."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.tools.testing.demo.command import demo


@pytest.mark.parametrize(
    ("flag", "text", "problem"),
    [
        ("--usage", "usage: [{uses: memory=lots}]", ": usage[0].uses: 'memory=lots': expected"),
        ("--stages", "kind: Stage", ", document 1: expected a Stage of kwok.x-k8s.io/v1alpha1"),
        (
            "--kubelet-config",
            "kind: Kubelet",
            ": apiVersion: expected kubelet.config.k8s.io/v1beta1",
        ),
    ],
)
def test_a_file_for_nodes_that_cannot_be_used_is_named_with_its_field(
    tmp_path: Path, flag: str, text: str, problem: str
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    result = CliRunner().invoke(demo, [flag, str(file)])
    assert result.exit_code == 1
    assert f"Error: {file}{problem}" in result.output

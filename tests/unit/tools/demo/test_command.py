"""The tables of `berth demo`, and its errors about files."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.tools.demo.command import Row, demo, pods_table

PLACED = Row("default", "web-0", "node-1", "Running", "")


def test_the_reason_has_a_column_only_if_a_pod_is_pending() -> None:
    pending = Row("default", "web-1", "", "Pending", "no room")
    headers = [
        [column.header for column in pods_table(rows).columns]
        for rows in ([PLACED], [PLACED, pending])
    ]
    assert headers == [
        ["namespace", "name", "node", "phase"],
        ["namespace", "name", "node", "phase", "why it is pending"],
    ]


@pytest.mark.parametrize(
    ("flag", "text", "problem"),
    [
        ("--usage", "usage: [{uses: memory=lots}]", "usage[0].uses: 'memory=lots': expected"),
        ("--kubelet-config", "kind: Kubelet", "apiVersion: expected kubelet.config.k8s.io/v1beta1"),
    ],
)
def test_a_file_for_kubelets_that_cannot_be_used_is_named_with_its_field(
    tmp_path: Path, flag: str, text: str, problem: str
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    result = CliRunner().invoke(demo, [flag, str(file)])
    assert result.exit_code == 1
    assert f"Error: {file}: {problem}" in result.output

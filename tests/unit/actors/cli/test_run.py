"""What keeps `berth run` from starting is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.actors.cli import main

UNKNOWN_FIELD = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
paralelism: 3
"""


@pytest.mark.parametrize(
    ("content", "flags", "says"),
    [
        ("clusters: [", ["--kubeconfig=FILE"], "FILE: expected YAML"),
        ("", ["--kubeconfig=FILE.none"], "FILE.none: cannot be read: No such file or directory"),
        (UNKNOWN_FIELD, ["--master=http://x:9", "--config=FILE"], "paralelism: unknown field"),
        ("", ["--master=http://x:9", "--leader-elect-renew-deadline=20s"], "renewDeadline"),
    ],
)
def test_a_command_that_cannot_start_says_why_in_one_line(
    tmp_path: Path, content: str, flags: list[str], says: str
) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    result = CliRunner().invoke(main, ["run", *(flag.replace("FILE", str(file)) for flag in flags)])
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert line.startswith("Error: ")
    assert says.replace("FILE", str(file)) in line

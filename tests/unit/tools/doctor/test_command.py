"""What `berth doctor` prints, and its exit code without an answer."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from click.testing import CliRunner
from rich.console import Console

from berth.tools.doctor.command import doctor, show
from berth.tools.doctor.examining import ParkedPod


def test_the_table_fits_80_columns_and_names_the_events() -> None:
    pod = ParkedPod("shop/web-1", 0.0, ("NodeResourcesFit",), "forgotten", "n-1", ("Fit: NodeAdd",))
    text = StringIO()
    show([pod], Console(file=text, width=80))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "on n-1: forgotten" in text.getvalue()
    assert lines[-1].startswith("shop/web-1: one of these events")


def test_without_an_answer_the_exit_code_is_2(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    result = CliRunner().invoke(doctor, ["--kubeconfig", missing])
    assert result.exit_code == 2
    assert "none" in result.output

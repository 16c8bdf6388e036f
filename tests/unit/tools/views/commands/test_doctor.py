"""What `berth doctor` prints, and its exit code without an answer."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from click.testing import CliRunner
from rich.console import Console

from berth.tools.answers.doctor.parked_pods import ParkedPod
from berth.tools.views.commands.doctor import MOST_OTHERS, doctor, show


def test_the_table_fits_80_columns_and_names_the_events() -> None:
    pod = ParkedPod("shop/web-1", 0.0, ("NodeResourcesFit",), "forgotten", "n-1", ("Fit: NodeAdd",))
    text = StringIO()
    show([pod], Console(file=text, width=80))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "on n-1: forgotten" in text.getvalue()
    assert lines[-1].startswith("shop/web-1: one of these events")


def test_pods_that_do_not_fit_are_counted_beyond_the_first() -> None:
    forgotten = ParkedPod("shop/z", 0.0, (), "forgotten", "n-1", ("Fit: NodeAdd",))
    others = [ParkedPod(f"shop/{n}", 0.0, (), "does not fit") for n in range(MOST_OTHERS + 700)]
    text = StringIO()
    show([forgotten, *others], Console(file=text, width=80))
    lines = text.getvalue().splitlines()
    assert len(lines) < MOST_OTHERS + 10
    assert "and 700 more: does not fit" in lines
    assert any("shop/z " in line for line in lines)


def test_without_an_answer_the_exit_code_is_2(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    result = CliRunner().invoke(doctor, ["--kubeconfig", missing])
    assert result.exit_code == 2
    assert "none" in result.output

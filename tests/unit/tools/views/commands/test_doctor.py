"""What `berth doctor` prints, and its exit code without an answer."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from berth.actors.messages.queue import Place, QueuedPodDump
from berth.tools.answers.doctor.parked_pods import Examination, ParkedPod
from berth.tools.views.commands.doctor import MOST_OTHERS, MOST_TOLD, doctor, show

COMMAND = "berth.tools.views.commands.doctor"
POD = QueuedPodDump("shop/web", "uid", Place.UNSCHEDULABLE, 0, 1, 0.0, ("Fit",), (), "", False, ())


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


@pytest.mark.parametrize(("output", "told"), [("table", 0), ("json", MOST_TOLD)])
def test_only_an_answer_for_programs_asks_why_pods_do_not_fit(
    output: str, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def examination(*arguments: object) -> Examination:
        asked.extend(each for each in arguments if isinstance(each, int))
        return Examination({POD.key: ()})

    monkeypatch.setattr(f"{COMMAND}._queue", lambda target: [POD])
    monkeypatch.setattr(f"{COMMAND}._examination", examination)
    result = CliRunner().invoke(doctor, ["--apart=0", "-o", output])
    assert (result.exit_code, asked) == (0, [told]), result.output
    assert "does not fit" in result.output

"""`berth why`, from the files of a scheduler."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from berth.actors.attempt.attempts_page import AttemptsPage, PodNow, RecordedAttempt
from berth.actors.attempt.flight_file import FlightFile
from berth.actors.attempt.flights import KeptAttempt
from berth.actors.messages.queue import Place, StoryStep
from berth.tools.answers.explain.recorded_attempts import held_now, unbound_yet
from berth.tools.views.commands.why import lines_of, lines_of_pod, why
from tests.kit.clock import VirtualClock

ESCAPE = "\x1b]0;owned\x07"
RECORDED = RecordedAttempt("ns/p", "uid", "1", 1, 10.0, 0.001, 0.5, "unschedulable")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with attempts of default/web at 0, 60 and 120 seconds of 2026."""
    file = tmp_path_factory.mktemp("recorder") / "attempts"
    writer = FlightFile(str(file), 1 << 20, VirtualClock())
    for number, result in enumerate(("unschedulable", "error", "placed"), 1):
        kept = KeptAttempt(
            1000, "default/web", "u", "1", number, 60.0 * (number - 1), 0.1, 0.2, False, result
        )
        writer.put(kept)
    writer.flush(5.0)
    return str(file)


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(why, arguments)


def attempts(path: str, *arguments: str) -> list[int]:
    result = ask("web", "--file", path, "-o", "json", *arguments)
    assert result.exit_code == 0, result.output
    return [attempt["number"] for attempt in json.loads(result.output)["attempts"]]


def test_the_last_attempt_is_shown_or_all_or_the_one_of_a_number(path: str) -> None:
    assert attempts(path) == [3]
    assert attempts(path, "--all") == [1, 2, 3]
    assert attempts(path, "--attempt", "2") == [2]


@pytest.mark.parametrize(
    ("time", "number"),
    [
        ("2026-01-01T00:01:00Z", 2),
        ("2026-01-01T00:01:59.5+00:00", 2),
        ("2026-01-01 01:00:59+01:00", 1),
        ("20260101T000200Z", 3),
        ("2026-01-03", 3),
    ],
)
def test_times_in_iso_8601_are_accepted(path: str, time: str, number: int) -> None:
    assert attempts(path, "--at", time) == [number]


@pytest.mark.parametrize("time", ["yesterday", "2026-13-01T00:00:00Z", "12:00", ""])
def test_another_time_is_refused_with_an_example(path: str, time: str) -> None:
    result = ask("web", "--file", path, "--at", time)
    assert result.exit_code == 2
    assert f"--at: expected a time such as 2026-01-31T12:00:00Z, got {time!r}" in result.output


@pytest.mark.parametrize(
    "arguments", [["web", "--attempt", "9"], ["web", "--at", "2025-01-01"], ["other"]]
)
def test_an_attempt_that_is_not_there_is_no_answer(path: str, arguments: list[str]) -> None:
    result = ask(*arguments, "--file", path)
    assert result.exit_code == 2
    since = f"no such attempt is recorded; {path} has attempts since 2026-01-01T00:00:00Z"
    assert since in result.output


@pytest.mark.parametrize("name", ["", "a/b/c", "/web", "default/"])
def test_another_form_of_a_name_is_refused(path: str, name: str) -> None:
    result = ask(name, "--file", path)
    assert result.exit_code == 2
    assert f"expected [NAMESPACE/]NAME of a pod, got {name!r}" in result.output


def test_the_namespace_is_given_as_to_kubectl(path: str) -> None:
    assert attempts(path, "-n", "default") == [3]
    result = ask("web", "-n", "shop", "--file", path)
    assert (result.exit_code, "shop/web: no such attempt" in result.output) == (2, True)


def test_two_choices_of_an_attempt_are_refused(path: str) -> None:
    result = ask("web", "--file", path, "--all", "--attempt", "1")
    assert (result.exit_code, "cannot be combined" in result.output) == (2, True)


def test_a_file_that_is_not_there_or_of_something_else_is_no_answer(tmp_path: Path) -> None:
    result = ask("web", "--file", str(tmp_path / "none"))
    assert (result.exit_code, "No such file or directory" in result.output) == (2, True)
    (tmp_path / "text").write_text("text\n")
    result = ask("web", "--file", str(tmp_path / "text"))
    assert (result.exit_code, "expected attempts of --berth-recorder-file" in result.output) == (
        2,
        True,
    )


def test_a_failure_is_shown_below_its_decision(tmp_path: Path) -> None:
    path = str(tmp_path / "attempts")
    writer = FlightFile(path, 1 << 20, VirtualClock())
    for number, at, result in ((1, 0.0, "placed"), (1, 60.0, "failed"), (1, 90.0, "placed")):
        writer.put(KeptAttempt(1000, "default/web", "u", "1", number, at, 0.1, 0.2, False, result))
    writer.flush(5.0)

    def results(*arguments: str) -> list[str]:
        result = ask("web", "--file", path, "-o", "json", *arguments)
        return [attempt["result"] for attempt in json.loads(result.output)["attempts"]]

    assert results() == ["placed"]
    assert results("--at", "2026-01-01T00:01:00Z") == ["placed", "failed"]
    assert results("--at", "2026-01-01T00:00:59Z") == ["placed", "failed"]  # a minute later


def test_hostile_text_is_printed_printable(tmp_path: Path) -> None:
    file = tmp_path / "attempts"
    writer = FlightFile(str(file), 1 << 20, VirtualClock())
    writer.put(
        KeptAttempt(
            1000, "ns/p", "u", "1", 1, 0.0, 0.1, 0.2, False, "error", message=f"no {ESCAPE}"
        )
    )
    writer.flush(5.0)
    result = ask("ns/p", "--file", str(file))
    assert result.exit_code == 0
    assert "owned" in result.output
    assert all(line.isprintable() for line in result.output.splitlines())


def test_the_event_that_woke_the_pod_is_the_last_before_the_attempt() -> None:
    story = (
        StoryStep(1.0, Place.ACTIVE, "NodeAdd", "NodeResourcesFit"),
        StoryStep(2.0, Place.ACTIVE, "BackoffComplete"),
        StoryStep(99.0, Place.ACTIVE, "NodeUpdate", "TaintToleration"),
    )
    lines = list(lines_of(AttemptsPage(0.0, 0.0, (RECORDED,), story), (RECORDED,)))
    assert "  woken by: NodeAdd (NodeResourcesFit)" in lines


def test_a_pod_that_is_pending_for_another_reason_is_told_by_its_condition() -> None:
    waits = PodNow(
        "u", "", "Pending", "default-scheduler", "n", "False", "SchedulingGated", "gated"
    )
    page = AttemptsPage(0.0, None, (), pod=waits)
    assert list(lines_of_pod("ns/p", page, ()))[1:] == [
        "  it is pending; its condition says: SchedulingGated: gated",
        "  nominated to n",
    ]
    unseen = PodNow("u", "", "Pending", "volcano", "")
    page = AttemptsPage(0.0, None, (), pod=unseen)
    assert list(lines_of_pod("ns/p", page, ()))[1:] == [
        "  it is pending: no scheduler has said why; it asks for volcano"
    ]


@pytest.mark.parametrize("start", ["", '{"key":', '{"new":'])
def test_a_line_that_is_nested_deeply_is_no_attempt(tmp_path: Path, start: str) -> None:
    deep = tmp_path / "deep"
    deep.write_text(start + "[" * 200_000)
    result = ask("web", "--file", str(deep))
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "expected attempts of --berth-recorder-file" in result.output


def test_a_pod_that_prebind_or_bind_holds_is_told_as_long_as_it_has_no_node() -> None:
    placed = msgspec.structs.replace(RECORDED, result="placed", node="n1")
    now = PodNow("uid", "", "Pending", "default-scheduler", "")
    held = "is not on n1 yet: PreBind and Bind have neither failed there nor reached the API server"
    assert unbound_yet(AttemptsPage(0.0, 0.0, (placed,), pod=now)) == held
    assert held_now(AttemptsPage(0.0, 0.0, (placed,), pod=now)) == (held,)
    bound = msgspec.structs.replace(now, node="n1")
    failed = msgspec.structs.replace(placed, result="failed")
    others = (((placed,), bound), ((placed, failed), now), ((placed,), None), ((), now))
    for attempts, pod in others:
        assert unbound_yet(AttemptsPage(0.0, 0.0, attempts, pod=pod)) == ""


def test_a_plugin_that_keeps_the_pod_out_of_the_queue_is_named() -> None:
    step = StoryStep(0.0, Place.GATED, "UnschedulablePodAdd", "Frozen", message="ns is frozen")
    now = PodNow("u", "", "Pending", "default-scheduler", "")
    page = AttemptsPage(0.0, None, (), (step,), now)
    assert list(lines_of_pod("ns/p", page, ()))[1] == (
        "  Frozen keeps it out of the queue since 1970-01-01T00:00:00Z: ns is frozen"
    )

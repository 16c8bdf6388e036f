"""Scenarios: files, seeds, and the smallest one that still breaks a property."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from berth.testing import nodes, pod
from berth.tools.cluster.faults.vocabulary import Fault, FaultError
from berth.tools.testing.simulation.chance import drawn
from berth.tools.testing.simulation.replays import replay
from berth.tools.testing.simulation.scenario import (
    Scenario,
    ScenarioStep,
    read_scenario,
    written,
)
from berth.tools.testing.simulation.shrinking import shrunk
from berth.tools.testing.simulation.simulate import simulate
from berth.tools.testing.simulation.simulation import play
from berth.tools.testing.simulation.timeline import Timeline
from berth.tools.testing.simulation.timeline_page import page
from berth.tools.testing.simulation.worker import Crash, Worker
from tests.docs.blocks import ROOT, write_files
from tests.unit.tools.testing.simulation.test_properties import WITHOUT_FIT, created

FULL = created(*nodes(1, cpu=1), pod("a", cpu=0.8), pod("b", cpu=0.8))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_scenario_survives_its_file(seed: int, tmp_path: Path) -> None:
    scenario = drawn(seed, 300)
    (tmp_path / "s.yaml").write_bytes(written(scenario))
    assert read_scenario(tmp_path / "s.yaml") == scenario
    assert drawn(seed, 300) == scenario


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("seed: x", "Expected `int`"),
        ("steps: [{at: 1, verb: jump}]", "Invalid enum value 'jump'"),
        ("faults: [{does: slow, often: 1}]", "unknown field `often`"),
        ("a: [", "line"),
        ("seconds: -1", "seconds: Expected `float` >= 0.0"),
        ("schedulers: -1", "schedulers: Expected `int` >= 0"),
        ("steps: [{at: -1, verb: compact}]", r"steps\[0\].at: Expected `float` >= 0.0"),
        (
            "steps: [{at: 0, verb: compact}, {at: 1, verb: restart, number: 1}]",
            r"steps\[1\].number: expected one of 1 schedulers, from 0, got 1",
        ),
        (
            "steps: [{at: 0, verb: create, body: {kind: Pod}}]",
            r"steps\[0\].body: .*expected an object with apiVersion, kind and metadata",
        ),
        (
            "steps: [{at: 0, verb: create, body: {apiVersion: v1, kind: Podd, metadata: {}}}]",
            r"steps\[0\].body: unknown kinds: Podd \(did you mean Pod\?\)",
        ),
        ("seed: 1\n---\nseed: 2", "expected one document, got 2"),
        ("seconds: 1e300", "seconds: Expected `float` <= 31622400.0"),
        ("steps: [{at: 1e300, verb: compact}]", r"steps\[0\].at: Expected `float` <= 31622400.0"),
        ("schedulers: 100000000", "schedulers: Expected `int` <= 100"),
        ("locks: [leases, foo]", r"locks\[1\]: expected one of leases, .*, got 'foo'"),
        ("version: '9.9'", "version: expected 1.33 to 1.38, got '9.9'"),
        ("config: {foo: 1}", "config: foo: unknown field"),
        (
            "config: {extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: f}]}",
            "config: extenders: expected none in virtual time",
        ),
        (
            "config: {profiles: [{plugins: {filter: {enabled: [{name: Ghost}]}}}]}",
            r"config: profiles\[0\].plugins.filter.enabled\[0\].name: unknown plugin 'Ghost'",
        ),
        (
            "faults: [{does: kill, number: 1}]",
            r"faults\[0\].number: expected one of 1 schedulers, from 0, got 1",
        ),
        (
            "steps: [{at: 0, verb: delete, kind: Foo, name: a}]",
            r"steps\[0\].kind: expected the name of a kind, such as Pod, got 'Foo'",
        ),
        ("steps: [{at: 0, verb: evict}]", r"steps\[0\].name: expected the name of what to evict"),
        (
            "steps: [{at: 0, verb: bind, name: a}]",
            r"steps\[0\].node: expected the name of a node, got ''",
        ),
    ],
)
def test_a_scenario_that_cannot_be_read_says_why(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(FaultError, match=problem):
        read_scenario(file)


@given(
    st.sets(st.integers(0, 19), min_size=1, max_size=3),
    st.sets(st.integers(0, 4), max_size=2),
)
def test_only_what_breaks_the_property_is_left(steps: set[int], faults: set[int]) -> None:
    scenario = Scenario(
        seconds=100,
        steps=tuple(ScenarioStep(float(at), "compact") for at in range(20)),
        faults=tuple(Fault("slow", seconds=float(number)) for number in range(5)),
    )

    def breaks(candidate: Scenario) -> bool:
        return steps <= {int(step.at) for step in candidate.steps} and faults <= {
            int(fault.seconds) for fault in candidate.faults
        }

    found = shrunk(scenario, breaks)
    assert {int(step.at) for step in found.steps} == steps
    assert {int(fault.seconds) for fault in found.faults} == faults
    assert found.seconds == max(steps)


def test_a_fault_that_only_other_steps_needed_is_left_out() -> None:
    scenario = Scenario(
        seconds=100,
        steps=tuple(ScenarioStep(float(at), "compact") for at in range(5)),
        faults=(Fault("slow"),),
    )

    def breaks(left: Scenario) -> bool:
        return scenario.steps[0] in left.steps and (bool(left.faults) or len(left.steps) < 3)

    found = shrunk(scenario, breaks)
    assert (found.steps, found.faults) == (scenario.steps[:1], ())


def test_a_process_that_ends_is_told_with_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_: Worker, __: object) -> None:
        raise ConnectionError("its process has ended")

    monkeypatch.setattr(Worker, "play", end)
    result = CliRunner().invoke(simulate, ["--seed", "7", "--time", "1s"])
    assert (result.exit_code, result.stderr) == (2, "Error: seed 7: its process has ended\n")


def test_a_scenario_is_a_test(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_bytes(written(Scenario(seconds=10, steps=FULL)))
    assert replay(tmp_path / "good.yaml").bound == 1
    bad = Scenario(seconds=10, steps=FULL, config=WITHOUT_FIT)
    (tmp_path / "bad.yaml").write_bytes(written(bad))
    with pytest.raises(AssertionError, match=r"bad.yaml breaks .*\n .*overcommitted: b on node-1"):
        replay(str(tmp_path / "bad.yaml"))


async def test_a_scenario_is_played_in_a_loop_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_bytes(written(Scenario(seconds=10, steps=FULL)))
    assert replay(tmp_path / "good.yaml").bound == 1


def test_a_time_line_follows_a_story_and_changes_nothing() -> None:
    fault = Fault("refuse", code=409, paths=("/binding",), chance=0.5, end=5)
    scenario = Scenario(seconds=10, steps=FULL, faults=(fault,))
    timeline = Timeline()
    with timeline.logged():
        story = play(scenario, timeline.follow)
    assert story.digest == play(scenario).digest
    lanes = {entry.lane for entry in timeline.entries}
    assert {"write", "host-0 queue", "host-0 attempt", "kubelet watch"} <= lanes
    text = page("a story", story, timeline, 100)
    assert "every property holds" in text
    assert "POST refuse" in text
    assert "<script" not in text


def test_a_page_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.tools.testing.simulation.timeline.MOST_ENTRIES", 2)
    timeline = Timeline()
    story = play(Scenario(seconds=1), timeline.follow)
    assert f"after 0 s, {timeline.left_out} entries are left out" in page("s", story, timeline, 1)


def test_a_story_that_crashed_has_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "play", lambda *_: Crash("OSError: the disk is full"))
    result = CliRunner().invoke(simulate, ["--time", "1s", "--page", str(tmp_path / "page.html")])
    assert result.exit_code == 1
    assert "OSError: the disk is full" in result.stdout
    assert result.stderr == "--page: a part of the cluster failed, and left no story\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.full("processes")
def test_a_page_shows_a_single_story(tmp_path: Path) -> None:
    file = tmp_path / "story.html"
    asked = ["--seed", "5", "--time", "1m", "--page", str(file)]
    result = CliRunner().invoke(simulate, asked)
    assert result.exit_code == 0, result.output
    assert "seed 5" in file.read_text()
    assert CliRunner().invoke(simulate, [*asked, "--seeds", "2"]).exit_code == 2


def test_the_same_scenario_gives_the_same_writes() -> None:
    scenario = drawn(5, 30)
    story = play(scenario)
    assert story.digest == play(scenario).digest
    assert story.digest != play(drawn(6, 10)).digest


@pytest.mark.full("processes")
def test_a_broken_property_becomes_a_small_file(tmp_path: Path) -> None:
    more = tuple(ScenarioStep(float(at), "compact") for at in range(8))
    scenario = Scenario(seconds=60, steps=(*FULL, *more), config=WITHOUT_FIT)
    (tmp_path / "s.yaml").write_bytes(written(scenario))
    asked = ["--scenario", str(tmp_path / "s.yaml"), "--write", str(tmp_path / "broken")]
    result = CliRunner().invoke(simulate, asked)
    assert result.exit_code == 1
    assert "overcommitted: b on node-1: 1600 cpu of 1" in result.output
    (file,) = (tmp_path / "broken").iterdir()
    assert read_scenario(file).steps == FULL
    again = CliRunner().invoke(simulate, ["--scenario", str(file)])
    assert again.exit_code == 1


@pytest.mark.full("processes")
def test_seeds_are_played_side_by_side_and_told_in_their_order() -> None:
    result = CliRunner().invoke(simulate, ["--seed", "1", "--seeds", "3", "--time", "1m"])
    assert result.exit_code == 0, result.output
    assert "3 stories" in result.output
    assert "every property holds" in result.output


def test_the_scenario_of_the_page_keeps_every_property(tmp_path: Path) -> None:
    write_files(ROOT / "docs/simulation.md", tmp_path)
    story = play(read_scenario(tmp_path / "story.yaml"))
    assert (story.bound, story.violations) == (1, ())


def test_a_time_that_is_none_is_refused() -> None:
    for time, problem in (("long", "a duration such as"), ("-5m", "more than 0"), ("0s", "more")):
        result = CliRunner().invoke(simulate, ["--time", time])
        assert result.exit_code == 2
        assert f"--time: expected {problem}" in result.output
        assert repr(time) in result.output

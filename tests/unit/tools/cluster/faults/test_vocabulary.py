"""The vocabulary of faults: what can be said, where, and what is met."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from berth.tools.cluster.faults.fault_files import faults_in, read_faults
from berth.tools.cluster.faults.faults_in_force import Faults
from berth.tools.cluster.faults.vocabulary import FAULTS, Fault, FaultError, FaultPlace, check


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("faults: [{does: jump}]", "faults[0].does: Invalid enum value 'jump'"),
        ("faults: [{does: slow}, {does: slow, often: 1}]", "faults[1]: Object contains unknown"),
        ("faults: [{does: lose, seconds: 3}]", "faults[0].seconds: lose has no such field"),
        ("faults: [{does: slow, chance: 2}]", "faults[0].chance: expected a probability"),
        ("faults: [{does: slow, begin: 5, end: 5}]", "faults[0].end: expected seconds after 5"),
        ("faults: [{does: slow, seconds: -1}]", "faults[0].seconds: expected seconds, at least 0"),
        ("faults: [{does: refuse, code: 200}]", "faults[0].code: expected an HTTP status"),
        ("faults: [{does: lose, methods: [GIVE]}]", "faults[0].methods: expected some of GET"),
        ("faults: [{does: lose, paths: [pods]}]", "faults[0].paths: expected ends of paths"),
        ("faults: [{does: namespace-gone}]", "faults[0].namespace: expected the name"),
        ("faults: [{does: compact, chance: 0.5}]", "faults[0].chance: compact has no such field"),
        ("faults: [{does: kill}]", "faults[0]: kill is not for berth apiserver: an API server"),
        ("faults: [{does: plugin-raise}]", "plugin-raise is not for berth apiserver: no plugin"),
        ("a: [", "line 2"),
        ("", "expected one document, got 0"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(text)
    with pytest.raises(FaultError) as refused:
        read_faults(file, FaultPlace.WIRE)
    assert str(refused.value).startswith(f"{file}: ")
    assert problem in str(refused.value)


def test_a_fault_of_python_is_checked_as_one_of_a_file() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"does": "slowly"}, "fault.does: Invalid enum value 'slowly'"),
        ({"does": "slow", "chance": 2}, "fault.chance: expected a probability"),
        ({"does": "slow", "seconds": -1}, "fault.seconds: expected seconds, at least 0"),
        ({"does": "slow", "seconds": float("nan")}, "fault.seconds: expected seconds, at least 0"),
        ({"does": "slow", "end": float("nan")}, "fault.end: expected seconds after 0, got nan"),
        (
            {"does": "compact", "begin": 1e300},
            "fault.begin: expected seconds, at least 0 and at most",
        ),
        ({"does": "clock-jump", "seconds": -1e15}, "fault.seconds: expected seconds, at most a"),
        ({"does": "lose", "methods": "POST"}, "fault.methods: Expected `array`, got `str`"),
        ({"does": "lose", "methods": ["GIVE"]}, "fault.methods: expected some of GET"),
    ]
    for fields, problem in wrong:
        with pytest.raises(FaultError) as refused:
            check(Fault(**fields), FaultPlace.WIRE)
        assert str(refused.value).startswith(problem)


def test_every_refusal_of_a_place_has_a_reason() -> None:
    for kind in FAULTS.values():
        assert all(kind.refused.values())


class Story:
    """Faults by a clock that the test sets."""

    def __init__(self, *faults: Fault) -> None:
        self.now = 0.0
        self.faults = Faults(FaultPlace.WIRE, lambda: self.now, Random(1))
        self.faults.add(*faults)


def test_a_request_meets_the_first_fault_that_concerns_it() -> None:
    story = Story(
        Fault("slow", clients=("kubectl",)),
        Fault("lose", methods=("POST",), paths=("/pods",)),
        Fault("disk-full", begin=10, end=20),
    )
    met = story.faults.of_request
    assert met("GET", "/api/v1/pods", "kubectl/v1.36") == Fault("slow", clients=("kubectl",))
    assert met("GET", "/api/v1/pods") is None
    found = met("POST", "/api/v1/namespaces/default/pods?dryRun=All")
    assert found is not None
    assert found.does == "lose"
    assert met("PUT", "/api/v1/nodes/n") is None
    story.now = 10
    full = met("PUT", "/api/v1/nodes/n")
    assert full is not None
    assert met("GET", "/api/v1/nodes/n") is None
    story.now = 20
    assert met("PUT", "/api/v1/nodes/n") is None
    assert story.faults.met == {"slow": 1, "lose": 1, "disk-full": 1}


def test_times_count_from_when_faults_were_added() -> None:
    story = Story()
    story.now = 100
    story.faults.add(Fault("lose", begin=5, end=6))
    assert story.faults.of_request("GET", "/x") is None
    story.now = 105
    assert story.faults.of_request("GET", "/x") is not None
    story.faults.calm = True
    assert story.faults.of_request("GET", "/x") is None


def test_faults_that_cannot_be_used_change_nothing() -> None:
    story = Story(Fault("lose"))
    with pytest.raises(FaultError, match="kill"):
        story.faults.replace([Fault("slow"), Fault("kill")])
    assert [*story.faults] == [Fault("lose")]
    story.faults.replace(faults_in(b"faults: [{does: slow}]", FaultPlace.WIRE).faults)
    assert [*story.faults] == [Fault("slow")]


def test_a_server_that_restarts_is_back_after_its_time() -> None:
    story = Story(Fault("server-restart", begin=5, seconds=3))
    assert story.faults.back_at() == 0
    story.now = 6
    assert story.faults.back_at() == 8


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (400, "BadRequest"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (409, "Conflict"),
        (410, "Expired"),
        (413, "RequestEntityTooLarge"),
        (418, ""),
        (422, "Invalid"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (502, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ],
)
def test_a_refusal_has_the_reason_of_its_code(code: int, reason: str) -> None:
    assert Fault("refuse", code=code).refusal[:2] == (code, reason)

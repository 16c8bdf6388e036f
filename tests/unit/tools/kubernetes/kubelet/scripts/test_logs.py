"""Logs of hollow containers: times, what a request shows, and the refusals of the kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.kube.times import seconds_of
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.kubelet.scripts.container_states import (
    ContainerRun,
    container_of,
    run_of_log,
)
from berth.tools.kubernetes.kubelet.scripts.log_options import log_options
from berth.tools.kubernetes.kubelet.scripts.logs import (
    LogWriter,
    first_lines,
    lines_of,
    new_lines,
    next_time,
)
from tests.kit.documents import Document, container, pod
from tests.kit.hollow_streams import running_pod

BEGAN = seconds_of("2026-01-01T00:00:00Z")
SCRIPT = """\
one
+1.5s two
still two
2026-01-01T00:00:04.25Z four
+9s nine
"""


def shown(script: str, query: str, seconds: float) -> str:
    """Returns what a request with a query shows of a log, so long after the container's start."""
    now = BEGAN + seconds
    pairs = dict(part.split("=") for part in query.split("&") if part)
    options = log_options(pairs, "p", now)
    lines, _ = first_lines(lines_of(script, ContainerRun(BEGAN)), options, now)
    return LogWriter(options).bytes_of(lines).decode()


@pytest.mark.parametrize(
    ("query", "seconds", "text"),
    [
        ("", 0, "one\n"),
        ("", 1.5, "one\ntwo\nstill two\n"),
        ("", 20, "one\ntwo\nstill two\nfour\nnine\n"),
        ("tailLines=2", 5, "still two\nfour\n"),
        ("tailLines=0", 5, ""),
        ("tailLines=9", 1, "one\n"),
        ("sinceSeconds=3", 4.5, "two\nstill two\nfour\n"),
        ("sinceTime=2026-01-01T00:00:02Z", 5, "four\n"),
        ("sinceTime=2026-01-01T00:00:02Z&tailLines=3", 20, "four\nnine\n"),
        ("limitBytes=6", 5, "one\ntw"),
        (
            "timestamps=true",
            2,
            (
                "2026-01-01T00:00:00.000000000Z one\n"
                "2026-01-01T00:00:01.500000000Z two\n"
                "2026-01-01T00:00:01.500000000Z still two\n"
            ),
        ),
        ("timestamps=true&limitBytes=10", 2, "2026-01-01"),
    ],
)
def test_a_request_shows_the_lines_that_it_asks_for(query: str, seconds: float, text: str) -> None:
    assert shown(SCRIPT, query, seconds) == text


def test_a_line_waits_for_those_before_it() -> None:
    lines = lines_of("+5s five\n+1s one", ContainerRun(BEGAN))
    assert new_lines(lines, 0, BEGAN + 2) == []
    assert next_time(lines, 0) == BEGAN + 5
    assert [line.text for line in new_lines(lines, 0, BEGAN + 5)] == ["five", "one"]
    assert next_time(lines, 2) is None


def test_nothing_is_written_after_the_end() -> None:
    assert [line.text for line in lines_of(SCRIPT, ContainerRun(BEGAN, BEGAN + 2))] == [
        "one",
        "two",
        "still two",
    ]


@pytest.mark.parametrize("script", ["", "\n"])
def test_an_empty_script_has_at_most_an_empty_line(script: str) -> None:
    assert shown(script, "", 1) == script


@pytest.mark.parametrize("line", ["+5 points", "+1e3s x", "2026-13-01T00:00:00Z x", "+ s"])
def test_what_only_resembles_a_time_is_text(line: str) -> None:
    assert shown(line, "", 1) == f"{line}\n"


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        (
            {"tailLines": "-1"},
            422,
            (
                'PodLogOptions "p" is invalid: '
                "tailLines: Invalid value: -1: must be greater than or equal to 0"
            ),
        ),
        (
            {"limitBytes": "0"},
            422,
            'PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0',
        ),
        ({"sinceSeconds": "0"}, 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            {"sinceSeconds": "1", "sinceTime": "2026-01-01T00:00:00Z"},
            422,
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ({"stream": "Stdout"}, 422, "stream: Forbidden: may not be specified"),
        ({"tailLines": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"sinceTime": "noon"}, 400, 'parsing time "noon"'),
    ],
)
def test_invalid_options_are_refused(query: dict[str, str], code: int, message: str) -> None:
    with pytest.raises(RefusedError) as refused:
        log_options(query, "p", BEGAN)
    assert refused.value.code == code
    assert message in str(refused.value)


def with_state(**status: Any) -> Document:
    document = running_pod()
    document["status"]["containerStatuses"] = [{"name": "c", **status}]
    return document


ENDED = {
    "containerID": "hollow://c",
    "startedAt": "2026-01-01T00:00:00Z",
    "finishedAt": "2026-01-01T00:00:07Z",
}


@pytest.mark.parametrize(
    ("status", "run"),
    [
        ({"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}, ContainerRun(BEGAN)),
        ({"state": {"terminated": ENDED}}, ContainerRun(BEGAN, BEGAN + 7)),
        (
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": ENDED},
            },
            ContainerRun(BEGAN, BEGAN + 7),
        ),
        (
            {"state": {"terminated": {"containerID": ""}}, "lastState": {"terminated": ENDED}},
            ContainerRun(BEGAN, BEGAN + 7),
        ),
    ],
)
def test_the_log_is_that_of_the_last_run(status: Document, run: ContainerRun) -> None:
    assert run_of_log(with_state(**status), "c", previous=False) == run


@pytest.mark.parametrize(
    ("status", "previous", "message"),
    [
        (
            {"state": {"waiting": {"reason": "ContainerCreating"}}},
            False,
            'container "c" in pod "p" is waiting to start: ContainerCreating',
        ),
        (
            {"state": {"waiting": {"reason": "ImagePullBackOff"}}},
            False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
        ({}, False, 'container "c" in pod "p" is waiting to start - no logs yet'),
        ({"state": {"terminated": {}}}, False, 'container "c" in pod "p" is terminated'),
        (
            {"state": {"running": {}}},
            True,
            'previous terminated container "c" in pod "p" not found',
        ),
    ],
)
def test_a_container_without_a_log_is_named(status: Document, previous: bool, message: str) -> None:
    with pytest.raises(RefusedError) as refused:
        run_of_log(with_state(**status), "c", previous=previous)
    assert (refused.value.code, str(refused.value)) == (400, message)


def test_a_pod_without_statuses_is_not_available() -> None:
    with pytest.raises(RefusedError, match='container "c" in pod "p" is not available'):
        run_of_log(pod("p", node="n"), "c", previous=False)


def test_the_only_container_needs_no_name() -> None:
    assert container_of(pod("p"), "")["name"] == "c"
    several = pod("p", containers=[container("a"), container("b")], initContainers=[container("i")])
    assert container_of(several, "i")["name"] == "i"
    expected = "a container name must be specified for pod p, choose one of: \\[i a b\\]"
    with pytest.raises(RefusedError, match=expected):
        container_of(several, "")
    with pytest.raises(RefusedError, match="container x is not valid for pod p"):
        container_of(several, "x")

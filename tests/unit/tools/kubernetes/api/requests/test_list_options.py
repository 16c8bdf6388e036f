"""The options that say where a list or a watch begins: which go together, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl

import pytest

from berth.tools.kubernetes.api.requests.list_options import check_list, sends_initial_events
from berth.tools.kubernetes.api.types.api_documents import RefusedError

NOT_OLDER = "resourceVersionMatch=NotOlderThan"
MATCH_PROBLEMS = {
    "watch=true&sendInitialEvents=true": "sendInitialEvents requires setting resourceVersionMatch "
    "to NotOlderThan",
    f"watch=true&{NOT_OLDER}": "resourceVersionMatch is forbidden for watch unless "
    "sendInitialEvents is provided",
    f"watch=true&sendInitialEvents=true&{NOT_OLDER}&continue=x": "resourceVersionMatch is "
    "forbidden when continue is provided",
    NOT_OLDER: "resourceVersionMatch is forbidden unless resourceVersion is provided",
    "resourceVersion=0&resourceVersionMatch=Exact": 'resourceVersionMatch "exact" is forbidden for '
    'resourceVersion "0"',
}
LIST_PROBLEMS = {
    **{
        query: f"resourceVersionMatch: Forbidden: {problem}"
        for query, problem in MATCH_PROBLEMS.items()
    },
    "sendInitialEvents=true": "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for "
    "list",
    "resourceVersion=5&resourceVersionMatch=Best": 'resourceVersionMatch: Unsupported value: "Best"'
    ': supported values: "Exact", "NotOlderThan", ""',
    "watch=true&sendInitialEvents=false&resourceVersionMatch=Exact": "[resourceVersionMatch: "
    "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, "
    'resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]',
}


@pytest.mark.parametrize(("query", "problem"), LIST_PROBLEMS.items())
def test_options_that_exclude_each_other_are_refused(query: str, problem: str) -> None:
    options = dict(parse_qsl(query))
    check: Callable[[Mapping[str, str]], object] = (
        sends_initial_events if "watch" in options else check_list
    )
    with pytest.raises(RefusedError) as refused:
        check(options)
    assert refused.value.code == 422
    assert str(refused.value) == f'ListOptions.meta.k8s.io "" is invalid: {problem}'


@pytest.mark.parametrize(
    "query",
    [
        "",
        "resourceVersion=5",
        f"resourceVersion=0&{NOT_OLDER}",
        "resourceVersion=5&resourceVersionMatch=Exact",
    ],
)
def test_options_of_a_list(query: str) -> None:
    check_list(dict(parse_qsl(query)))


@pytest.mark.parametrize(
    ("query", "initial"),
    [
        ("", True),
        ("resourceVersion=0", True),
        ("resourceVersion=5", False),
        (f"sendInitialEvents=true&{NOT_OLDER}&resourceVersion=5", True),
        (f"sendInitialEvents=1&{NOT_OLDER}", True),
        (f"sendInitialEvents=False&{NOT_OLDER}", False),
        (f"sendInitialEvents=0&{NOT_OLDER}&resourceVersion=0", False),
    ],
)
def test_a_watch_begins_with_all_objects_or_at_a_version(query: str, initial: bool) -> None:
    assert sends_initial_events(dict(parse_qsl(query))) is initial

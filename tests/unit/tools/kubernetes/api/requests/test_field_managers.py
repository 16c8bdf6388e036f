"""The manager of the fields of a request."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.requests.field_managers import is_forced, manager_of_request
from berth.tools.kubernetes.api.requests.media_types import APPLY, MERGE
from berth.tools.kubernetes.api.types.api_documents import RefusedError


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("kubectl/v1.36.2 (linux/amd64)", "kubectl"),
        ("kube\tctl/1", "kubectl"),
        ("", ""),
        ("ä" * 100, "ä" * 64),
    ],
)
def test_the_manager_is_the_product_of_the_agent_unless_an_option_names_one(
    agent: str, name: str
) -> None:
    headers = {"user-agent": agent}
    assert manager_of_request("POST", {}, headers, "application/json") == name
    query = {"fieldManager": "me"}
    assert manager_of_request("PATCH", query, headers, APPLY) == "me"


@pytest.mark.parametrize(
    ("query", "how", "problem"),
    [
        ({}, APPLY, "fieldManager: Required value: is required for apply patch"),
        ({"force": "true"}, MERGE, "force: Forbidden: may not be specified for non-apply patch"),
        ({"fieldManager": "x" * 129}, MERGE, "fieldManager: Too long: may not be more than 128"),
        ({"fieldManager": "a\tb"}, MERGE, "invalid character U+0009 (at position 1)"),
    ],
)
def test_options_that_name_no_manager_are_refused(
    query: dict[str, str], how: str, problem: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        manager_of_request("PATCH", query, {}, how)
    assert refused.value.code == 422
    assert problem in str(refused.value)


def test_an_apply_takes_fields_only_if_it_is_forced() -> None:
    assert is_forced({"force": "true"})
    assert not is_forced({"force": "false"})
    assert not is_forced({})

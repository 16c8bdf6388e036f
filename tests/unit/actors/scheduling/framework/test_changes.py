"""The changes of a pod's claims that plugins can wait for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.framework.changes import pod_changes
from berth.actors.scheduling.framework.events import Action
from berth.actors.scheduling.kube.core import Pod

STATUS = {"name": "gpu", "resourceClaimName": "p-gpu"}
MAPPING = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
EXTENDED = {"resourceClaimName": "p-extended", "requestMappings": [MAPPING]}


def pod(**status: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "status": status}, Pod)


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({}, {"resourceClaimStatuses": [STATUS]}, True),
        ({"resourceClaimStatuses": [{"name": "gpu"}]}, {"resourceClaimStatuses": [STATUS]}, True),
        ({"resourceClaimStatuses": [STATUS]}, {"resourceClaimStatuses": [STATUS]}, False),
        ({}, {"extendedResourceClaimStatus": EXTENDED}, True),
        (
            {"extendedResourceClaimStatus": EXTENDED},
            {"extendedResourceClaimStatus": {**EXTENDED, "requestMappings": []}},
            True,
        ),
        (
            {"extendedResourceClaimStatus": EXTENDED},
            {"extendedResourceClaimStatus": {**EXTENDED, "resourceClaimName": "other"}},
            True,
        ),
        (
            {"extendedResourceClaimStatus": EXTENDED},
            {"extendedResourceClaimStatus": EXTENDED, "phase": "Pending"},
            False,
        ),
    ],
)
def test_generated_claims(before: Any, after: Any, changed: bool) -> None:
    expected = Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM if changed else Action.UPDATE_OTHER
    assert pod_changes(pod(**before), pod(**after)) == (expected,)

"""What a plugin does wrong fails the pod's attempt, in a line that names the plugin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from berth.actors.scheduling.decision.plain import Plain
from berth.actors.scheduling.plugins.resource_args import NodeResourcesFitArgs
from berth.plugin import (
    ArgsError,
    Handle,
    Verdicts,
    read_args,
)
from tests.kit import answering as at
from tests.kit.answering import profile_with
from tests.kit.documents import node
from tests.kit.profiles import profile_of
from tests.kit.snapshots import snapshot_of
from tests.kit.structs import pod_info


def test_reasons_that_cannot_be_told_are_a_reason() -> None:
    reasons: dict[int, tuple[str, ...]] = {}
    verdicts = Verdicts(
        np.full(2, 2, dtype=np.int8), np.zeros(2, dtype=np.int64), lambda key: reasons[key]
    )
    profile = profile_with(at.VectorFilter, lambda: verdicts)
    snapshot = snapshot_of([node("a"), node("b")])
    evaluation = Plain(profile, pod_info(), snapshot).evaluation()
    assert (
        evaluation.message(2)
        == '0/2 nodes are available: 2 running "Wrong" filter plugin: KeyError: 0.'
    )


def test_args_may_carry_their_kind_and_nothing_unknown() -> None:
    args = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "NodeResourcesFitArgs",
        "ignoredResources": ["a/b"],
    }
    assert read_args(args, NodeResourcesFitArgs).ignored_resources == ("a/b",)
    with pytest.raises(ArgsError, match=r"^ignored: unknown field"):
        read_args({"ignored": []}, NodeResourcesFitArgs)


def test_plugins_are_told_the_feature_gates() -> None:
    seen: list[bool] = []

    class Gated(at.Filter):
        def __init__(self, args: dict[str, Any], handle: Handle) -> None:
            super().__init__(args, handle)
            seen.append(handle.feature_gates["SidecarContainers"])

    profile_of(Gated)
    assert seen == [True]

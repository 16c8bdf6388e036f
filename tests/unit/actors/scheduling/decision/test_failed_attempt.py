"""The view of a PostFilter plugin on an attempt that found no node."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import NodeAdded
from berth.actors.scheduling.decision.failed_attempt import Attempt
from berth.actors.scheduling.decision.plain import Plain
from berth.actors.scheduling.framework.status import Code
from tests.kit.profiles import profile_of
from tests.kit.structs import node, pod_info


def test_only_nodes_that_are_full_may_be_helped() -> None:
    cache = CacheState()
    for name, labels in (("a", {"disk": "fast"}), ("b", {}), ("c", {"disk": "fast"})):
        cache.handle(NodeAdded(node(name, "1", pods="9", labels=labels)))
    snapshot = cache.snapshot()
    fast: Any = {"nodeSelector": {"disk": "fast"}}
    profile = profile_of()
    for name in ("a", "c"):
        info = snapshot.columns.infos[snapshot.columns.row_of[name]]
        assert info is not None
        info.add_pod(pod_info(name, "1", "a", **fast))
        snapshot.columns.refresh(info)
    wanting = pod_info("p", "1", **fast)
    evaluation = Plain(profile, wanting, snapshot).evaluation()
    attempt = Attempt(profile, wanting, snapshot, evaluation, Random(0))
    order = [snapshot.columns.names[row] for row in snapshot.columns.order]
    codes = dict(zip(order, attempt.codes.tolist(), strict=True))
    unresolvable = int(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    assert codes == {"a": int(Code.UNSCHEDULABLE), "b": unresolvable, "c": int(Code.UNSCHEDULABLE)}
    assert [snapshot.columns.names[row] for row in attempt.potential] == ["a", "c"]
    assert np.array_equal(snapshot.columns.order[attempt.helped], attempt.potential)

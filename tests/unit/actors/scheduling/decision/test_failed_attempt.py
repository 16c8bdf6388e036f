"""The view of a PostFilter plugin on an attempt that found no node."""

from __future__ import annotations

from random import Random

import msgspec
import numpy as np

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import NodeAdded
from berth.actors.scheduling.decision.failed_attempt import Attempt
from berth.actors.scheduling.decision.plain import Plain
from berth.actors.scheduling.framework.status import Code
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of
from berth.config.load import from_mapping
from berth.tools.answers.explain.plugin_handle import ReadOnlyHandle


def test_only_nodes_that_are_full_may_be_helped() -> None:
    cache = CacheState()
    for name, labels in (("a", {"disk": "fast"}), ("b", {}), ("c", {"disk": "fast"})):
        document = {
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": {"cpu": "1", "pods": "9"}},
        }
        cache.handle(NodeAdded(msgspec.convert(document, Node)))
    snapshot = cache.snapshot()
    asks = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "nodeSelector": {"disk": "fast"},
    }
    used = {"spec": {"nodeName": "a", **asks}}
    profile = profiles_of(from_mapping(None), ReadOnlyHandle())["default-scheduler"]
    for name in ("a", "c"):
        pod = msgspec.convert({"metadata": {"name": name, "uid": name}, **used}, Pod)
        info = snapshot.columns.infos[snapshot.columns.row_of[name]]
        assert info is not None
        info.add_pod(PodInfo(pod))
        snapshot.columns.refresh(info)
    wanting = PodInfo(msgspec.convert({"metadata": {"name": "p", "uid": "p"}, "spec": asks}, Pod))
    evaluation = Plain(profile, wanting, snapshot).evaluation()
    attempt = Attempt(profile, wanting, snapshot, evaluation, Random(0))
    order = [snapshot.columns.names[row] for row in snapshot.columns.order]
    codes = dict(zip(order, attempt.codes.tolist(), strict=True))
    unresolvable = int(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    assert codes == {"a": int(Code.UNSCHEDULABLE), "b": unresolvable, "c": int(Code.UNSCHEDULABLE)}
    assert [snapshot.columns.names[row] for row in attempt.potential] == ["a", "c"]
    assert np.array_equal(snapshot.columns.order[attempt.helped], attempt.potential)

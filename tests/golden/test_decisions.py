"""berth's filter verdicts, scores and messages against the recorded decisions of kube-scheduler 1.36.

Compared are the plugins that berth has. What a plugin still to come would say is known from the recording itself: a
scenario in which one of them rejects a node or scores is compared in all that comes before, or left out with a reason.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from actors.cache.state import CacheState, Lend
from actors.cycle.state import evaluate, fit_error, score
from actors.framework.cycle_state import CycleState
from actors.framework.status import Status
from actors.kube.core import Node, Pod
from actors.messages import AssignedPodAdded, NodeAdded, TakeSnapshot
from actors.model.pod_info import PodInfo
from actors.model.snapshot import Snapshot
from actors.plugins.in_tree import IN_TREE
from actors.plugins.unsupported import DynamicResources, InterPodAffinity, PodTopologySpread, VolumeBinding
from actors.system import profiles_of
from config.load import from_mapping
from tests.golden.scenarios import GOLDEN, load

CATEGORIES = ("basics", "taints", "nodeaffinity", "resources", "scoring", "profiles", "mixed")
REFUSALS = {plugin.name for plugin in (DynamicResources, InterPodAffinity, PodTopologySpread, VolumeBinding)}
HERE = IN_TREE.keys() - REFUSALS


class NoApi:
    """The handle of plugins that are never asked to write."""

    class Api:
        async def bind(self, namespace: str, name: str, uid: str, node: str) -> Status:
            raise AssertionError(f"a decision writes nothing: {namespace}/{name} {uid} {node}")

    api = Api()


class Nowhere:
    def set(self, value: Snapshot) -> None:
        raise AssertionError(value)


def snapshot_of(objects: list[dict[str, Any]]) -> Snapshot:
    cache = CacheState()
    for document in objects:
        phase = document.get("status", {}).get("phase")
        if document["kind"] == "Node":
            cache.handle(NodeAdded(msgspec.convert(document, Node)))
        elif document["kind"] == "Pod" and document["spec"].get("nodeName") and phase not in ("Succeeded", "Failed"):
            cache.handle(AssignedPodAdded(msgspec.convert(document, Pod)))
    cache.validate()
    (lend,) = cache.handle(TakeSnapshot(Nowhere()))
    assert isinstance(lend, Lend)
    return lend.snapshot


def comparable(scenario: dict[str, Any]) -> bool:
    """True if no plugin that is still to come had a say in the filter verdicts, nor nominated pods."""
    expect = scenario["expect"]
    if named_by(scenario["config"]) - HERE:
        return False
    if "error" in expect or (expect["prefilter"] and expect["prefilter"]["plugin"] not in HERE):
        return False
    nominated = any(
        o["kind"] == "Pod" and o.get("status", {}).get("nominatedNodeName") and not o["spec"].get("nodeName")
        for o in scenario["objects"]
    )
    skipped = expect["skipped"]["filter"]
    asks_for_more = expect["prefilter"] is None and skipped is not None and not (set(skipped) >= REFUSALS)
    decided = all(verdict["plugin"] in HERE | {""} for verdict in expect["filter"].values())
    return decided and not nominated and not asks_for_more


def named_by(config: dict[str, Any] | None) -> set[str]:
    """The plugins that a configuration enables by name."""
    sets = [s for profile in (config or {}).get("profiles", ()) for s in (profile.get("plugins") or {}).values()]
    return {ref["name"] for plugins in sets for ref in plugins.get("enabled") or ()}


def decide(scenario: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what berth decides, what is recorded), in the recording's form."""
    expect = scenario["expect"]
    profile = profiles_of(from_mapping(scenario["config"]), NoApi())[scenario["pod"]["spec"]["schedulerName"]]
    snapshot = snapshot_of(scenario["objects"])
    info, state = PodInfo(msgspec.convert(scenario["pod"], Pod)), CycleState()
    evaluation = evaluate(profile, state, info, snapshot)
    got: dict[str, Any] = {"prefilter": None, "filter": {}, "score": {}}
    want: dict[str, Any] = {"prefilter": expect["prefilter"], "filter": expect["filter"], "score": {}}
    if evaluation.diagnosis is None or evaluation.live is None:
        got["prefilter"] = told(evaluation.prefilter.status)
        return got, want
    view = evaluation.diagnosis.view
    for position in np.flatnonzero(evaluation.live).tolist():
        got["filter"][view.name(position)] = told(evaluation.diagnosis.status(position))
    outside = {n: v for n, v in expect["filter"].items() if v["plugin"] == "" and v["code"] != "Success"}
    got["filter"] |= outside
    fits = np.flatnonzero(evaluation.diagnosis.feasible() & evaluation.live)
    if not len(fits):
        got["message"] = fit_error(evaluation, len(snapshot))
        want["message"] = expect["message"][: len(got["message"])]
        return got, want
    feasible = snapshot.rows(np.arange(snapshot.columns.size)[view.rows][fits])
    for plugin in score(profile, state, info, feasible):
        got["score"][plugin.plugin] = {feasible.name(i): int(s) for i, s in enumerate(plugin.scores)}
    want["score"] = {plugin: scores for plugin, scores in expect["score"].items() if plugin in HERE}
    return got, want


def told(status: Status) -> dict[str, Any]:
    return {"code": status.code.label, "plugin": status.plugin, "reasons": sorted(status.reasons)}


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recorded decisions are not beside the project")
@pytest.mark.parametrize("category", CATEGORIES)
def test_decisions_equal_the_recorded_ones(category: str) -> None:
    scenarios = [scenario for scenario in load(category) if comparable(scenario)]
    assert scenarios, f"no scenario of {category} is comparable"
    for scenario in scenarios:
        got, want = decide(scenario)
        assert got == want, scenario["name"]

"""`berth explain` has a reason for each node that DynamicResources rejected in the recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of
from berth.config.load import from_mapping
from berth.tools.answers.explain.device_words import DeviceSupply, supply
from tests.golden.scenarios import load
from tests.kit.handle import NoApi
from tests.kit.snapshots import snapshot_of


def supplied(scenario: dict[str, Any]) -> DeviceSupply:
    profiles = profiles_of(from_mapping(scenario["config"]), NoApi())
    pod = msgspec.convert(scenario["pod"], Pod)
    info = PodInfo(pod)
    snapshot = snapshot_of(scenario["objects"], profiles.keys(), info)
    return supply(info, snapshot, profiles[pod.spec.scheduler_name].filters)


@pytest.mark.parametrize("category", ["dra", "mixed", "profiles"])
def test_the_nodes_that_are_short_are_those_that_were_rejected(
    category: str, recordings: Path
) -> None:
    for scenario in load(recordings, category):
        supply_of_pod, expect = supplied(scenario), scenario["expect"]
        everywhere = any(shortage.nodes is None for shortage in supply_of_pod.short)
        short = {node for shortage in supply_of_pod.short for node in shortage.nodes or ()}
        for node, verdict in expect.get("filter", {}).items():
            where = f"{scenario['name']}: {node}"
            if verdict["plugin"] == "DynamicResources":
                assert everywhere or node in short, where
            elif verdict["code"] == "Success":
                assert not everywhere, where
                assert node not in short, where


def test_the_devices_that_are_given_are_the_recorded_ones(recordings: Path) -> None:
    for scenario in load(recordings, "dra"):
        supply_of_pod = supplied(scenario)
        provided = {
            (node, provision.claim, provision.request, device.partition(",")[0])
            for provision in supply_of_pod.provided
            for node in provision.nodes
            for device in provision.devices
        }
        for node, claims in (scenario["expect"].get("allocations") or {}).items():
            for claim, allocation in claims.items():
                for result in allocation["devices"]:
                    device = f"{result['driver']}/{result['pool']}/{result['device']}"
                    assert (node, claim, result["request"], device) in provided, scenario["name"]

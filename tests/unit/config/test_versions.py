"""Versions of Kubernetes as data: how one is asked for, and what differs between them."""

from __future__ import annotations

import pytest

from berth.config import change_table
from berth.config.feature_gates import (
    DEFAULTS,
    FeatureGateError,
    changes_of,
    defaults_of,
    gates_of,
    with_defaults,
)
from berth.config.versions import (
    CONFIGURED,
    CURRENT,
    VERSIONS,
    emulated,
    minor_of,
    version_warnings,
)

V36, V37 = VERSIONS[36], VERSIONS[37]


@pytest.mark.parametrize("text", ["1.36", "v1.36", "kube=1.36", "1.36.0", " kube = 1.36"])
def test_a_version_that_is_asked_for(text: str) -> None:
    assert emulated(text) is V36


@pytest.mark.parametrize("text", ["1.32", "1.99", "2.36", "1.36.2", "new", "", "x=1.36"])
def test_a_version_that_cannot_be_asked_for(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(expected 1\.33 to 1\.\d\d, got|component not)"):
        minor_of(text)


def test_an_older_version_is_decided_as_the_oldest_and_told() -> None:
    assert emulated("1.34") is V36
    assert version_warnings("1.34") == ["--emulated-version=1.34: berth decides as Kubernetes 1.36"]
    assert version_warnings(CURRENT.text) == []


def test_the_current_version_is_no_preview() -> None:
    assert not CURRENT.preview
    assert all(v.preview for v in VERSIONS.values() if v.minor > CURRENT.minor)
    assert defaults_of(CURRENT) == DEFAULTS


def test_gates_that_a_version_turned_on_locked_added_and_removed() -> None:
    assert not gates_of(V36)["StorageCapacityScoring"].default
    assert gates_of(V37)["StorageCapacityScoring"].default
    rules = gates_of(V36)["DRADeviceTaintRules"], gates_of(V37)["DRADeviceTaintRules"]
    assert [(gate.stage, gate.default) for gate in rules] == [("BETA", False), ("GA", True)]
    assert "CompositePodGroup" not in gates_of(V36)
    assert "SidecarContainers" not in gates_of(V37)
    assert defaults_of(V37)["SidecarContainers"], "what was removed keeps its last value"


def test_a_gate_of_another_version_is_told_as_that() -> None:
    for name, version, other in (
        ("CompositePodGroup", V36, "1.37 and 1.38"),
        ("GangScheduling", V37, "1.35 and 1.36"),
        ("MemoryManager", V36, "1.35"),
    ):
        with pytest.raises(FeatureGateError, match=f"{name}, a gate of Kubernetes {other}"):
            with_defaults({name: True}, version)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("SidecarContainers", True, "unrecognized feature gate: SidecarContainers, a gate of "),
        ("GangScheduling", False, "unrecognized feature gate: GangScheduling, a gate of "),
        ("WorkloadAwarePreemption", False, "unrecognized feature gate: WorkloadAwarePreemption, "),
        ("DRAExtendedResource", False, "cannot set feature gate DRAExtendedResource to false, "),
        ("DRAPrioritizedList", False, "cannot set feature gate DRAPrioritizedList to false, "),
        ("DRAResourceClaimDeviceStatus", False, "cannot set feature gate DRAResourceClaimDevice"),
        ("NodeDeclaredFeatures", False, "feature is locked to true"),
    ],
)
def test_gates_that_1_37_removed_or_locked_are_refused(
    name: str, value: bool, problem: str
) -> None:
    assert not gates_of(V36)[name].locked or name == "SidecarContainers"
    with pytest.raises(FeatureGateError, match=problem):
        with_defaults({name: value}, V37)


@pytest.mark.parametrize(
    "name",
    [
        "CompositePodGroup",
        "DRADerivedAttributes",
        "DRADeviceCompatibilityGroups",
        "DRAFractionalCapacityRange",
        "DRAOptionalNodeOperations",
        "InPlacePodVerticalScalingSchedulerPreemption",
        "InterPodAffinityHostnameFastPath",
        "PodGroupPreemptionPolicy",
        "SchedulerPreQueueingHints",
    ],
)
def test_the_scheduler_s_gates_that_1_37_added_are_off(name: str) -> None:
    with pytest.raises(FeatureGateError, match=f"{name}, a gate of Kubernetes 1.37 and 1.38"):
        with_defaults({name: True}, V36)
    assert not defaults_of(V37)[name]


def test_changes_follow_from_the_version_alone() -> None:
    since = {name: since for name, since, _ in map(str.split, change_table.TABLE.split("\n")[1:-1])}
    names = [*since]
    assert names == sorted({*names})
    assert not {*names} & {*gates_of(V36), *gates_of(V37)}
    assert {*since.values()} == {"1.36", "1.37"}
    assert changes_of(CONFIGURED[35]) == dict.fromkeys(names, False)
    assert changes_of(V36) == {name: version == "1.36" for name, version in since.items()}
    assert changes_of(V37) == dict.fromkeys(names, True)
    for name in names:
        with pytest.raises(FeatureGateError, match=f"unrecognized feature gate: {name}"):
            with_defaults({name: True}, V37)

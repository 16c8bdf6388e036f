"""The table of feature gates, and how gates are read, set and refused."""

from __future__ import annotations

import re

import pytest

from berth.config.feature_gates import (
    ALL_OF_STAGE,
    DEFAULTS,
    GATES,
    NOT_IMPLEMENTED,
    FeatureGateError,
    defaults_of,
    gate_warnings,
    gates_of,
    parse_gates,
    with_defaults,
)
from berth.config.gate_table import DEPENDENCIES, TABLE
from berth.config.versions import CONFIGURED, VERSIONS
from tests.kit.cases import texts


def refusal(text: str) -> str:
    with pytest.raises(FeatureGateError, match=r"^feature gates: ") as refused:
        with_defaults(parse_gates(text))
    return str(refused.value).removeprefix("feature gates: ")


# ---------------------------------------------------------------------------------------- the table


def test_each_line_of_the_table() -> None:
    stage = "(ALPHA|BETA|GA|DEPRECATED) (true|false)( locked)?"
    spec = rf" *1\.3[5678] (removed|{stage})( beside 1\.3[678])?"
    line = re.compile(rf"\w+{spec}(;{spec})*")
    lines = TABLE.strip().splitlines()
    assert [text for text in lines if not line.fullmatch(text)] == []
    names = [text.split()[0] for text in lines]
    assert names == sorted(names)
    assert len(names) == len(set(names))


def test_the_defaults_meet_their_dependencies() -> None:
    assert with_defaults({}) == DEFAULTS
    for version in CONFIGURED.values():
        gates, values = gates_of(version), defaults_of(version)
        assert with_defaults({}, version) == values
        assert {need for gate in gates.values() for need in gate.needs} <= {*values}


def test_each_line_of_the_dependencies() -> None:
    line = re.compile(r"\w+ 1\.3[5678]( \w+)*(; 1\.3[5678]( \w+)*)*")
    lines = DEPENDENCIES.strip().replace("\n    ", " ").splitlines()
    assert [text for text in lines if not line.fullmatch(text)] == []
    assert {text.split()[0] for text in lines} <= {
        text.split()[0] for text in TABLE.splitlines()[1:]
    }


def test_some_gates() -> None:
    gate = GATES["WorkloadAwarePreemption"]
    assert (gate.stage, gate.default, gate.locked) == ("ALPHA", False, False)
    assert gate.needs == ("GangScheduling",)
    gate = GATES["SchedulerQueueingHints"]
    assert (gate.stage, gate.default, gate.locked, gate.needs) == ("GA", True, True, ())
    assert not {"MinimumKubeletVersion", "RouteExternalCertificate"} & {*GATES}, "OpenShift's"


# ---------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ("", {}),
        ("A=true", {"A": True}),
        (" A = true , ,B=F,", {"A": True, "B": False}),
        ("A=1,B=0,C=TRUE,D=False", {"A": True, "B": False, "C": True, "D": False}),
        ("A=true,A=false", {"A": False}),
        ("kube:A=true,kube:B=false", {"A": True, "B": False}),
        (" kube : A=true", {"A": True}),
    ],
)
def test_reading_a_flag(text: str, gates: dict[str, bool]) -> None:
    assert parse_gates(text) == gates


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A", "missing bool value for A"),
        ("A=tRUE", "invalid value of A=tRUE: expected true or false"),
        ("A=", "invalid value of A=: expected true or false"),
        ("wardle:A=true", "component not registered: wardle"),
        (":A=true", "component not registered: "),
        (
            "kube:A=true,B=true",
            (
                "set kube feature gates with default empty prefix or kube: prefix consistently, do "
                "not mix use"
            ),
        ),
    ],
)
def test_text_that_cannot_be_read(text: str, message: str) -> None:
    assert refusal(text) == message


# ---------------------------------------------------------------------------------------- setting


@pytest.mark.parametrize(
    ("text", "message"),
    texts("""
SchedulerAsyncPremption=true =>
    unrecognized feature gate: SchedulerAsyncPremption, did you mean SchedulerAsyncPreemption?
Xyzzy=true => unrecognized feature gate: Xyzzy
PodSchedulingReadiness=false =>
    cannot set feature gate PodSchedulingReadiness to false, feature is locked to true
GangScheduling=true =>
    GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]
AtomicFIFO=false,AllBeta=false,StaleControllerConsistencyJob=true => StaleControllerConsistencyJob
    is enabled, but depends on features that are disabled: [AtomicFIFO]
DRAResourceClaimDeviceStatus=false,DRAResourceClaimGranularStatusAuthorization=false =>
    DRADeviceBindingConditions is enabled, but depends on features that are disabled:
    [DRAResourceClaimDeviceStatus]
Xyzzy=true,KMSv1=true,PodSchedulingReadiness=false,GangScheduling=true => unrecognized feature gate:
    Xyzzy; cannot set feature gate PodSchedulingReadiness to false, feature is locked to true
"""),
)
def test_gates_that_cannot_be_set(text: str, message: str) -> None:
    assert refusal(text) == message


def test_a_locked_gate_may_be_set_to_its_default() -> None:
    assert with_defaults({"PodSchedulingReadiness": True}) == DEFAULTS


def test_gates_that_depend_on_each_other() -> None:
    values = with_defaults(parse_gates("GangScheduling=true,GenericWorkload=true"))
    changed = {name for name, value in values.items() if value != DEFAULTS[name]}
    assert changed == {"GangScheduling", "GenericWorkload"}


@pytest.mark.parametrize("switch", ALL_OF_STAGE)
@pytest.mark.parametrize("on", [True, False])
def test_all_gates_of_a_stage(switch: str, on: bool) -> None:
    stage = ALL_OF_STAGE[switch]
    set_by_it = {name for name, gate in GATES.items() if gate.stage == stage} - {*ALL_OF_STAGE}
    expected = {**DEFAULTS, **dict.fromkeys(set_by_it, on), switch: on}
    assert with_defaults({switch: on}) == expected


def test_a_gate_that_is_given_wins_over_its_stage() -> None:
    for text in ("AllAlpha=true,VolumeLimitScaling=false", "VolumeLimitScaling=false,AllAlpha=t"):
        values = with_defaults(parse_gates(text))
        assert not values["VolumeLimitScaling"]
        assert values["StorageCapacityScoring"]
    values = with_defaults(parse_gates("AllBeta=false,SchedulerAsyncPreemption=true"))
    assert values["SchedulerAsyncPreemption"]
    assert not values["SchedulerPopFromBackoffQ"]


# -------------------------------------------------------------------------------- what follows them


def test_warnings() -> None:
    assert gate_warnings({}) == []
    assert gate_warnings({"VolumeLimitScaling": True, "OpportunisticBatching": False}) == []
    assert gate_warnings({"PodSchedulingReadiness": True, "KMSv1": False}) == [
        (
            "Warning: setting GA feature gate. It will be removed in a future release: "
            "PodSchedulingReadiness=true"
        ),
        (
            "Warning: setting deprecated feature gate. It will be removed in a future release: "
            "KMSv1=false"
        ),
    ]
    assert gate_warnings({"GenericWorkload": True}) == [
        "feature gates without an effect: berth does not implement GenericWorkload"
    ]
    assert gate_warnings({}, VERSIONS[37]) == []
    assert gate_warnings({"NativeHistograms": True}, VERSIONS[37]) == [
        "feature gates without an effect: berth does not implement NativeHistograms"
    ]
    (line,) = gate_warnings({"AllAlpha": True, "AllBeta": True})
    here = [name for name in NOT_IMPLEMENTED if name in GATES]
    assert line.endswith(f"berth does not implement {', '.join(here)}")

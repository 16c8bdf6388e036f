"""The feature gates of kube-scheduler 1.36: names, stages, defaults and rules.

Mirrors k8s.io/component-base/featuregate. AllAlpha and AllBeta set the gates of their stage that
are not given themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

import msgspec

from .gate_table import DEPENDENCIES, TABLE

ALPHA, BETA, GA, DEPRECATED = "ALPHA", "BETA", "GA", "DEPRECATED"
ALL_OF_STAGE = {"AllAlpha": ALPHA, "AllBeta": BETA}
COMPONENT = "kube"
BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


class Gate(msgspec.Struct, frozen=True):
    """`locked`: no other value than the default is allowed. `needs`: the gates that must be on if
    this one is.
    """

    name: str
    stage: str
    default: bool
    locked: bool = False
    needs: tuple[str, ...] = ()


class FeatureGateError(ValueError):
    """Gates that cannot be set as given; the message names them."""


def _known() -> Iterator[Gate]:
    for line in TABLE.strip().splitlines():
        name, stage, default, *locked = line.split()
        yield Gate(name, stage, default == "true", bool(locked), DEPENDENCIES.get(name, ()))


GATES: Mapping[str, Gate] = {gate.name: gate for gate in _known()}
DEFAULTS: Mapping[str, bool] = {gate.name: gate.default for gate in GATES.values()}

# What kube-scheduler does with these gates, berth does not do.
NOT_IMPLEMENTED: tuple[str, ...] = (
    "ClientsAllowCBOR",
    "ClientsPreferCBOR",
    "CoordinatedLeaderElection",
    "DRADeviceTaintRules",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAWorkloadResourceClaims",
    "GangScheduling",
    "GenericWorkload",
    "NativeHistograms",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
)


def parse_gates(text: str) -> dict[str, bool]:
    """The gates in a flag's text, such as `A=true,B=false` or `kube:A=true`; of several values for
    a gate, the last one counts. Raises FeatureGateError.
    """
    given, prefixes = {}, set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        prefix, colon, pair = part.rpartition(":")
        if colon and prefix.strip() != COMPONENT:
            raise FeatureGateError(f"feature gates: component not registered: {prefix.strip()}")
        prefixes.add(colon)
        name, equals, value = (word.strip() for word in pair.partition("="))
        if not equals:
            raise FeatureGateError(f"feature gates: missing bool value for {name}")
        if value not in BOOLEANS:
            raise FeatureGateError(
                f"feature gates: invalid value of {name}={value}: expected true or false"
            )
        given[name] = BOOLEANS[value]
    if len(prefixes) > 1:
        raise FeatureGateError(
            "feature gates: set kube feature gates with default empty prefix or kube: prefix "
            "consistently, do not mix use"
        )
    return given


def with_defaults(given: Mapping[str, bool]) -> dict[str, bool]:
    """Every gate with its value. Raises FeatureGateError, with all problems, if a gate is unknown
    or locked to another value, or is on while a gate that it needs is off.
    """
    problems = [*_unsettable(given)]
    if not problems:
        values = {**DEFAULTS, **_of_stages(given), **given}
        problems = [*_unmet(values)]
    if problems:
        raise FeatureGateError(f"feature gates: {'; '.join(problems)}")
    return values


def _of_stages(given: Mapping[str, bool]) -> dict[str, bool]:
    """The gates that AllAlpha and AllBeta set."""
    return {
        gate.name: given[switch]
        for switch, stage in ALL_OF_STAGE.items()
        if switch in given
        for gate in GATES.values()
        if gate.stage == stage and gate.name not in ALL_OF_STAGE
    }


def _unsettable(given: Mapping[str, bool]) -> Iterator[str]:
    for name, value in given.items():
        gate = GATES.get(name)
        if gate is None:
            near = get_close_matches(name, GATES, 1)
            hint = f", did you mean {near[0]}?" if near else ""
            yield f"unrecognized feature gate: {name}{hint}"
        elif gate.locked and value != gate.default:
            yield (
                f"cannot set feature gate {name} to {_text(value)}, feature is locked to "
                f"{_text(gate.default)}"
            )


def _unmet(values: Mapping[str, bool]) -> Iterator[str]:
    for gate in GATES.values():
        off = [name for name in gate.needs if not values[name]]
        if values[gate.name] and off:
            yield (
                f"{gate.name} is enabled, but depends on features that are disabled: "
                f"[{' '.join(off)}]"
            )


def _text(value: bool) -> str:
    return str(value).lower()


def gate_warnings(given: Mapping[str, bool]) -> list[str]:
    """One line for each gate that is given although it is GA or deprecated, and one for the gates
    that are on and that berth does not implement. `given` is what `with_defaults` accepted.
    """
    ending = {GA: "GA", DEPRECATED: "deprecated"}
    lines = [
        f"Warning: setting {ending[GATES[name].stage]} feature gate. It will be removed in a "
        f"future release: {name}={_text(value)}"
        for name, value in given.items()
        if GATES[name].stage in ending
    ]
    values = with_defaults(given)
    if on := [name for name in NOT_IMPLEMENTED if values[name]]:
        lines.append(f"feature gates without an effect: berth does not implement {', '.join(on)}")
    return lines


def feature_enabled(values: Mapping[str, bool]) -> Iterator[tuple[str, str, bool]]:
    """Name, stage and value of every gate, as the metric kubernetes_feature_enabled has them: the
    stage of a GA gate is empty.
    """
    for gate in GATES.values():
        yield gate.name, "" if gate.stage == GA else gate.stage, values[gate.name]

"""The feature gates of kube-scheduler 1.36: names, stages, defaults and rules.

Mirrors k8s.io/component-base/featuregate. AllAlpha and AllBeta set the gates of their stage that
the user does not set one by one.
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
    """A feature gate. If it is `locked`, it cannot have another value than the default. `needs` are
    the gates that must be on if this one is.
    """

    name: str
    stage: str
    default: bool
    locked: bool = False
    needs: tuple[str, ...] = ()


class FeatureGateError(ValueError):
    """The gates cannot be set in this way; the message names them."""


def _all_gates() -> Iterator[Gate]:
    for line in TABLE.strip().splitlines():
        name, stage, default, *locked = line.split()
        yield Gate(name, stage, default == "true", bool(locked), DEPENDENCIES.get(name, ()))


GATES: Mapping[str, Gate] = {gate.name: gate for gate in _all_gates()}
DEFAULTS: Mapping[str, bool] = {gate.name: gate.default for gate in GATES.values()}

# The gates that kube-scheduler knows and that berth does not implement.
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
    """Reads the gates in a flag's text, such as `A=true,B=false` or `kube:A=true`; of several
    values for a gate, the last one counts. Raises FeatureGateError.
    """
    settings, prefixes = {}, set()
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
        settings[name] = BOOLEANS[value]
    if len(prefixes) > 1:
        raise FeatureGateError(
            "feature gates: set kube feature gates with default empty prefix or kube: prefix "
            "consistently, do not mix use"
        )
    return settings


def with_defaults(settings: Mapping[str, bool]) -> dict[str, bool]:
    """Returns every gate with its value. Raises FeatureGateError, with all problems, if a gate is
    unknown or locked to another value, or is on while a gate that it needs is off.
    """
    problems = [*_unsettable(settings)]
    if not problems:
        values = {**DEFAULTS, **_gates_of_stages(settings), **settings}
        problems = [*_unmet(values)]
    if problems:
        raise FeatureGateError(f"feature gates: {'; '.join(problems)}")
    return values


def _gates_of_stages(settings: Mapping[str, bool]) -> dict[str, bool]:
    """Returns the gates that AllAlpha and AllBeta set."""
    return {
        gate.name: settings[switch]
        for switch, stage in ALL_OF_STAGE.items()
        if switch in settings
        for gate in GATES.values()
        if gate.stage == stage and gate.name not in ALL_OF_STAGE
    }


def _unsettable(settings: Mapping[str, bool]) -> Iterator[str]:
    for name, value in settings.items():
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


def gate_warnings(settings: Mapping[str, bool]) -> list[str]:
    """Returns a line for each gate that is set although it is GA or deprecated, and a line for the
    gates that are on and that berth does not implement. `settings` is what `with_defaults`
    accepted.
    """
    ending = {GA: "GA", DEPRECATED: "deprecated"}
    lines = [
        f"Warning: setting {ending[GATES[name].stage]} feature gate. It will be removed in a "
        f"future release: {name}={_text(value)}"
        for name, value in settings.items()
        if GATES[name].stage in ending
    ]
    values = with_defaults(settings)
    if on := [name for name in NOT_IMPLEMENTED if values[name]]:
        lines.append(f"feature gates without an effect: berth does not implement {', '.join(on)}")
    return lines

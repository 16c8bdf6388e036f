"""The feature gates of kube-scheduler in each version: names, stages, defaults and rules.

Mirrors k8s.io/component-base/featuregate. AllAlpha and AllBeta set the gates of their stage that
the user does not set one by one. The values also have the changes of change_table.py, which follow
from the version alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache

import msgspec

from .change_table import TABLE as CHANGES
from .gate_table import DEPENDENCIES, TABLE
from .versions import COMPONENT, CONFIGURED, CURRENT, Version

ALPHA, BETA, GA, DEPRECATED = "ALPHA", "BETA", "GA", "DEPRECATED"
ALL_OF_STAGE = {"AllAlpha": ALPHA, "AllBeta": BETA}
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


@cache
def gates_of(version: Version) -> Mapping[str, Gate]:
    """Returns the gates of a version, by name."""
    return {gate.name: gate for gate, removed in _known_gates(version) if not removed}


def _known_gates(version: Version) -> Iterator[tuple[Gate, bool]]:
    """Yields each gate that the version or one before it has, and whether it is removed. A gate
    that is removed keeps its last value.
    """
    needs = {name: specs[-1] for name, specs in _specs(DEPENDENCIES, version) if specs}
    for name, specs in _specs(TABLE, version):
        if removed := specs[-1:] == [("removed",)]:
            specs.pop()
        if specs:
            stage, default, *locked = specs[-1]
            gate = Gate(name, stage, default == "true", bool(locked), needs.get(name, ()))
            yield gate, removed


def _specs(table: str, version: Version) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Yields each gate of a table with the specs up to a version, oldest first, each in words."""
    for line in table.strip().replace("\n    ", " ").splitlines():
        name, specs = line.split(maxsplit=1)
        known = (spec.partition(" beside ") for spec in specs.split(";"))
        holding = (spec.split() for spec, _, oldest in known if _minor(oldest) <= version.oldest)
        yield name, [tuple(words) for since, *words in holding if _minor(since) <= version.minor]


def _minor(version: str) -> int:
    """Returns the minor version; 0 for no version."""
    return int(version.strip().removeprefix("1.") or 0)


@cache
def changes_of(version: Version) -> Mapping[str, bool]:
    """Returns each change that a version made without a gate, with whether this version has it."""
    lines = (line.split() for line in CHANGES.strip().splitlines())
    return {name: _minor(since) <= version.minor for name, since, _ in lines}


def first_with(change: str) -> Version:
    """Returns the version that made a change without a gate."""
    return next(version for version in CONFIGURED.values() if changes_of(version)[change])


@cache
def defaults_of(version: Version) -> Mapping[str, bool]:
    """Returns the values if nothing is set. Removed gates are among them, with their last value."""
    gates = {gate.name: gate.default for gate, _ in _known_gates(version)}
    return {**gates, **changes_of(version)}


GATES: Mapping[str, Gate] = gates_of(CURRENT)
DEFAULTS: Mapping[str, bool] = defaults_of(CURRENT)

# The gates that kube-scheduler knows and that berth does not implement.
NOT_IMPLEMENTED: tuple[str, ...] = (
    "ClientsAllowCBOR",
    "ClientsPreferCBOR",
    "CompositePodGroup",
    "CoordinatedLeaderElection",
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "DRAWorkloadResourceClaims",
    "GangScheduling",
    "GenericWorkload",
    "InPlacePodVerticalScalingSchedulerPreemption",
    "NativeHistograms",
    "PodGroupPreemptionPolicy",
    "SchedulerPreQueueingHints",
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


def with_defaults(settings: Mapping[str, bool], version: Version = CURRENT) -> dict[str, bool]:
    """Returns every gate and every change of a version with its value. Raises FeatureGateError,
    with all problems, if a gate is unknown or locked to another value, or is on while a gate that
    it needs is off.
    """
    gates = gates_of(version)
    problems = [*_unsettable(settings, version)]
    if not problems:
        values = {**defaults_of(version), **_gates_of_stages(settings, gates), **settings}
        problems = [*_unmet(values, gates)]
    if problems:
        raise FeatureGateError(f"feature gates: {'; '.join(problems)}")
    return values


def _gates_of_stages(settings: Mapping[str, bool], gates: Mapping[str, Gate]) -> dict[str, bool]:
    """Returns the gates that AllAlpha and AllBeta set."""
    return {
        gate.name: settings[switch]
        for switch, stage in ALL_OF_STAGE.items()
        if switch in settings
        for gate in gates.values()
        if gate.stage == stage and gate.name not in ALL_OF_STAGE
    }


def _unsettable(settings: Mapping[str, bool], version: Version) -> Iterator[str]:
    gates = gates_of(version)
    for name, value in settings.items():
        gate = gates.get(name)
        if gate is None:
            yield f"unrecognized feature gate: {name}{_hint(name, gates)}"
        elif gate.locked and value != gate.default:
            yield (
                f"cannot set feature gate {name} to {_text(value)}, feature is locked to "
                f"{_text(gate.default)}"
            )


def _hint(name: str, gates: Mapping[str, Gate]) -> str:
    """Returns the versions that have the gate, or a name like it, after a comma."""
    if having := [version.text for version in CONFIGURED.values() if name in gates_of(version)]:
        return f", a gate of Kubernetes {' and '.join(having)}"
    near = get_close_matches(name, gates, 1)
    return f", did you mean {near[0]}?" if near else ""


def _unmet(values: Mapping[str, bool], gates: Mapping[str, Gate]) -> Iterator[str]:
    for gate in gates.values():
        off = [name for name in gate.needs if not values[name]]
        if values[gate.name] and off:
            yield (
                f"{gate.name} is enabled, but depends on features that are disabled: "
                f"[{' '.join(off)}]"
            )


def _text(value: bool) -> str:
    return str(value).lower()


def gate_warnings(settings: Mapping[str, bool], version: Version = CURRENT) -> list[str]:
    """Returns a line for each gate that is set although it is GA or deprecated, and a line for the
    gates that were turned on and that berth does not implement. `settings` is what
    `with_defaults` accepted.
    """
    ending, gates = {GA: "GA", DEPRECATED: "deprecated"}, gates_of(version)
    lines = [
        f"Warning: setting {ending[gates[name].stage]} feature gate. It will be removed in a "
        f"future release: {name}={_text(value)}"
        for name, value in settings.items()
        if gates[name].stage in ending
    ]
    values, before = with_defaults(settings, version), defaults_of(version)
    asked = [name for name in NOT_IMPLEMENTED if name in settings or not before.get(name)]
    if on := [name for name in asked if values.get(name)]:
        lines.append(f"feature gates without an effect: berth does not implement {', '.join(on)}")
    return lines

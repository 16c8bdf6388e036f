"""Prints what a checkout of Kubernetes has that berth's tables have not, and the other way round.

.venv/bin/python -m berth.tools.docs.upstream KUBERNETES --version 1.37

It compares the feature gates (config/gate_table.py), the metrics of kube-scheduler
(actors/telemetry/families.py) and the types of the API (tools/kubernetes/api/types/types.txt) with
Kubernetes' sources. docs/versions.md says what to do with the differences. The
exit code is 1 if there are any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from berth.actors.telemetry.families import Families
from berth.actors.telemetry.measures import Registry
from berth.config.feature_gates import Gate, defaults_of, gates_of
from berth.config.versions import CURRENT, VERSIONS, Version

from ..kubernetes.api.types.releases import release_of
from ..kubernetes.api.types.schema import Shape

# The files with the gates that kube-scheduler knows.
GATES = (
    "pkg/features/kube_features.go",
    "staging/src/k8s.io/client-go/features/known_features.go",
    "staging/src/k8s.io/component-base/logs/api/v1/kube_features.go",
    "staging/src/k8s.io/component-base/metrics/features/kube_features.go",
    "staging/src/k8s.io/component-base/zpages/features/kube_features.go",
)
METRICS = (
    "pkg/scheduler/metrics/metrics.go",
    "pkg/scheduler/framework/plugins/volumebinding/metrics/metrics.go",
)
# What berth has not, and says so in docs/metrics.md; and what it serves though Kubernetes stopped.
LEFT_OUT = re.compile(
    r"scheduler_(async_api_call|pending_async_api_calls|podgroup_|volume_binder_cache|batch_rescore"
    r"|preemption_(evaluation|execution|pdb|workload)|workload_preemption)"
)
KEPT = ("resource.k8s.io/v1alpha2",)
# The groups of other API servers, which have their types themselves.
ELSEWHERE = {
    "apiextensions.k8s.io": "apiextensions-apiserver/pkg/apis/apiextensions",
    "apiregistration.k8s.io": "kube-aggregator/pkg/apis/apiregistration",
}
OF_STAGES = ("AllAlpha", "AllBeta")  # component-base adds them to the gates of every component
_NAME = re.compile(r"^\t(\w+) +(?:featuregate\.)?Feature = \"(\w+)\"", re.MULTILINE)
_GATE = re.compile(r"^(\t+)(?:\w+\.)?(\w+): +\{\n(.*?)^\1\},", re.MULTILINE | re.DOTALL)
_SPEC = re.compile(
    r"\{Version: version\.(?:MustParse\(\"1\.(?P<minor>\d+)\"\)|MajorMinor\(1, (?P<number>\d+)\)),"
    r" Default: (?P<default>true|false), (?:LockToDefault: (?P<before>true|false), )?"
    r"PreRelease: (?:featuregate\.)?(?P<stage>\w*)(?:, LockToDefault: (?P<after>true|false))?"
    r"(?:, MinCompatibilityVersion: version\.\w+\(\D*1\D+(?P<compatible>\d+)\D*?\))?"
)
_METRIC = re.compile(
    r"metrics\.New\w+\(\s*&?metrics\.\w+Opts\{(.*?)\n\t+\}(?:,\s*\[\]string\{(.*?)\})?", re.DOTALL
)
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (?:optional|repeated|map<[^>]+>)(?: \S+)?? (\w+) = (\d+);", re.MULTILINE)


# ----------------------------------------------------------------------------------- what they have


def read_gates(texts: Mapping[str, str], version: Version) -> dict[str, Gate]:
    """Returns the gates that the files of `texts` define, as a version has them that must be
    compatible with the one before it, as is the default.
    """
    names = {name: shown for text in texts.values() for name, shown in _NAME.findall(text)}
    gates = {}
    for text in texts.values():
        for _, name, lines in _GATE.findall(text):
            specs = [
                spec
                for spec in _SPEC.finditer(lines)
                if int(spec["minor"] or spec["number"]) <= version.minor
                and int(spec["compatible"] or 0) < version.minor
            ]
            if specs:
                gate = _gate_of(names.get(name, name), specs[-1])
                gates[gate.name] = gate
    return gates


def _gate_of(name: str, spec: re.Match[str]) -> Gate:
    locked = "true" in (spec["before"], spec["after"])
    return Gate(name, spec["stage"].upper(), spec["default"] == "true", locked)


def read_metrics(text: str) -> dict[str, str]:
    """Returns the families that Go source registers for the scheduler, each with its stability and
    labels.
    """
    families = {}
    for options, labels in _METRIC.findall(text):
        name, stability = (
            re.search(rf"{field}:\s+(?:\"|metrics\.)(\w+)", options)
            for field in ("Name", "StabilityLevel")
        )
        if name and stability and "Subsystem" in options:
            volumes = "volume_" * ("VolumeSchedulerSubsystem" in options)
            shown = _metric(stability[1], re.findall(r"\"(\w+)\"", labels))
            families[f"scheduler_{volumes}{name[1]}"] = shown
    return families


def read_fields(text: str) -> dict[str, dict[str, int]]:
    """Returns the fields of each message of a generated.proto, with their numbers."""
    return {
        name: {field: int(number) for field, number in _FIELD.findall(body)}
        for name, body in _MESSAGE.findall(text)
    }


def _metric(stability: str, labels: Iterable[str]) -> str:
    return f"{stability} {{{','.join(sorted(labels))}}}"


# ------------------------------------------------------------------------------------ what differs


def gate_differences(theirs: Mapping[str, Gate], version: Version) -> Iterator[str]:
    ours = gates_of(version)
    for name in sorted({*ours, *theirs}):
        if name not in ours:
            yield f"gate {name}: not in the table; upstream {_gate(theirs[name])}"
        elif name not in theirs:
            if name not in OF_STAGES:
                yield f"gate {name}: not upstream; in the table {_gate(ours[name])}"
        elif _gate(ours[name]) != _gate(theirs[name]):
            yield f"gate {name}: {_gate(ours[name])}; upstream {_gate(theirs[name])}"


def _gate(gate: Gate) -> str:
    return f"{gate.stage} {str(gate.default).lower()}{' locked' * gate.locked}"


def metric_differences(theirs: Mapping[str, str], version: Version) -> Iterator[str]:
    registry = Registry()
    Families(registry, {**defaults_of(version), "DRAExtendedResource": True})
    ours = {
        family.name: _metric(str(family.stability), family.labels)
        for family in registry.families()
        if family.name.startswith("scheduler_")
    }
    for name in sorted({*ours, *theirs}):
        here, there = ours.get(name), theirs.get(name)
        if here != there and not LEFT_OUT.match(name):
            yield f"metric {name}: {here or 'not here'}; upstream {there or 'not there'}"


def field_differences(root: Path, version: Version) -> Iterator[str]:
    shapes: dict[str, list[Shape]] = {}
    for shape in release_of(version).types.values():
        shapes.setdefault(shape.api_version, []).append(shape)
    for api_version, served in shapes.items():
        messages = read_fields(_text(root / _proto(api_version)))
        if not messages and api_version not in KEPT:
            yield f"types of {api_version}: upstream does not serve them"
        for shape in served:
            if shape.name in messages:
                yield from _differing_fields(shape, messages[shape.name])


def _differing_fields(shape: Shape, theirs: Mapping[str, int]) -> Iterator[str]:
    """Yields the fields that a message has more, or with another number. A part that JSON does not
    have, such as the handler of a probe, is known by its number; names have letters alone there.
    """
    fields = shape.fields or {}
    ours = {re.sub(r"\W", "", name).lower(): field.numbers for name, field in fields.items()}
    parts = {numbers[0] for numbers in ours.values() if len(numbers) > 1}
    for name, number in theirs.items():
        numbers = ours.get(name.lower())
        if numbers is None and number not in parts:
            yield f"type {shape.api_version} {shape.name}: upstream has the field {name}={number}"
        elif numbers and number not in (numbers[0], numbers[-1]):
            yield f"type {shape.api_version} {shape.name}: {name} has the number {number} upstream"


def _proto(api_version: str) -> str:
    """Returns the path of the description of a group and version in protobuf."""
    group, version = api_version.split("/")
    if group == "meta":
        return f"staging/src/k8s.io/apimachinery/pkg/apis/meta/{version}/generated.proto"
    folder = ELSEWHERE.get(group, f"api/{group.partition('.')[0]}")
    return f"staging/src/k8s.io/{folder}/{version}/generated.proto"


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def differences(root: Path, version: Version) -> Iterator[str]:
    """Yields a line for each difference between a checkout and the tables of a version."""
    texts = {name: _text(root / name) for name in GATES}
    yield from gate_differences(read_gates(texts, version), version)
    yield from metric_differences(
        read_metrics("".join(_text(root / name) for name in METRICS)), version
    )
    yield from field_differences(root, version)


@click.command()
@click.argument("kubernetes", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--version", "text", type=click.Choice([v.text for v in VERSIONS.values()]),
    default=CURRENT.text, show_default=True, help="The version whose tables are compared.",
)  # fmt: skip
@click.pass_context
def main(ctx: click.Context, kubernetes: Path, text: str) -> None:
    """Print what a checkout of KUBERNETES has that berth's tables have not, or the reverse."""
    (version,) = (version for version in VERSIONS.values() if version.text == text)
    lines = [*differences(kubernetes, version)]
    for line in lines:
        click.echo(line)
    click.echo(f"{len(lines)} differences from Kubernetes {version.text}", err=True)
    ctx.exit(1 if lines else 0)


if __name__ == "__main__":
    main()

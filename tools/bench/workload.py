"""scheduler_perf's configuration files: test cases, and workloads that set their parameters.

A file is checked as strictly as scheduler_perf does: an error names the path of an invalid field,
count or parameter. `plan` returns a workload's operations with its parameters filled in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import yaml

from .opcodes import (
    CreatePods,
    CreatePodSets,
    CreateResourceDriver,
    Operation,
    Sleep,
    Unsupported,
    WorkloadError,
    problems,
)
from .templates import Value, read_yaml


class ThresholdMetric(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The metric that is compared with the threshold."""

    name: str = "SchedulingThroughput"
    data_bucket: str = "Average"
    expect_lower: bool = False
    labels: dict[str, str] = {}


class Workload(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    name: str
    params: dict[str, Value] = {}
    labels: list[str] = []
    feature_gates: dict[str, bool] = {}
    threshold: float | dict[str, float] = 0.0
    threshold_metric_selector: ThresholdMetric | None = None


class TestCase(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    __test__ = False  # so that pytest does not collect it

    name: str
    labels: list[str] = []
    feature_gates: dict[str, bool] = {}
    metrics_collector_config: dict[str, Any] = {}
    default_threshold_metric_selector: ThresholdMetric | None = None
    default_pod_template_path: str = ""
    scheduler_config_path: str = ""
    workload_template: list[Operation]
    workloads: list[Workload]


class WorkloadRun(msgspec.Struct, frozen=True):
    """A workload, ready to run: `operations` have their numbers; paths start at `folder`."""

    name: str
    folder: Path
    operations: tuple[Operation, ...]
    default_pod_template: str
    scheduler_config: str
    feature_gates: dict[str, bool]
    threshold: float
    metric: ThresholdMetric


def load(path: Path) -> list[TestCase]:
    """Reads the test cases of a file. Raises WorkloadError."""
    try:
        document = read_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise WorkloadError(f"{path}: cannot be read: {problem}") from None
    except yaml.YAMLError as problem:
        raise WorkloadError(f"{path}: not valid YAML: {' '.join(str(problem).split())}") from None
    try:
        cases = msgspec.convert(document, list[TestCase])
    except msgspec.ValidationError as problem:
        raise WorkloadError(f"{path}: {problem}") from None
    for number, case in enumerate(cases):
        for at, operation in enumerate(case.workload_template):
            for fault in problems(operation):
                raise WorkloadError(
                    f"{path}: [{number}].workloadTemplate[{at}] of {case.name}: {fault}"
                )
    return cases


def select(
    cases: Iterable[TestCase], names: Sequence[str], labels: Sequence[str]
) -> Iterator[tuple[TestCase, Workload]]:
    """Yields the workloads with all of the labels and, if there are names, one of the names.

    A label after a `-` must be absent. A name is the name of a test case, of a workload, or of both
    with a slash between; `*` matches anything.
    """
    for case in cases:
        for workload in case.workloads:
            has = {*case.labels, *workload.labels}
            if not all(
                label[1:] not in has if label.startswith("-") else label.lstrip("+") in has
                for label in labels
            ):
                continue
            own_names = (case.name, workload.name, f"{case.name}/{workload.name}")
            if not names or any(
                fnmatchcase(name, pattern) for pattern in names for name in own_names
            ):
                yield case, workload


def plan(path: Path, case: TestCase, workload: Workload) -> WorkloadRun:
    """Returns a workload, ready to run. Raises WorkloadError for a parameter that is missing, of
    the wrong type, or never used.
    """
    name = f"{case.name}/{workload.name}"
    parameters = _Parameters(workload.params)
    operations = []
    for at, operation in enumerate(case.workload_template):
        where = f"{path}: {name}: workloadTemplate[{at}]"
        try:
            resolved = _resolved(operation, parameters)
        except WorkloadError as problem:
            raise WorkloadError(f"{where}: {problem}") from None
        for fault in problems(resolved):
            raise WorkloadError(f"{where}: {fault}")
        operations.append(resolved)
    unused = parameters.unused()
    if unused and not any(isinstance(operation, Unsupported) for operation in operations):
        raise WorkloadError(f"{path}: {name}: params: {', '.join(unused)}: used by no operation")
    threshold = workload.threshold
    if isinstance(threshold, dict):  # a threshold for each topic; a topic is a folder
        threshold = threshold.get(path.resolve().parent.name, 0.0)
    return WorkloadRun(
        name,
        path.parent,
        tuple(operations),
        case.default_pod_template_path,
        case.scheduler_config_path,
        {**case.feature_gates, **workload.feature_gates},
        threshold,
        workload.threshold_metric_selector
        or case.default_threshold_metric_selector
        or ThresholdMetric(),
    )


class _Parameters:
    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values
        self._used: set[str] = set()

    def value(self, field: str, reference: str) -> Value:
        if not reference.startswith("$"):
            raise WorkloadError(
                f"{field}: expected $ and the name of a parameter, got {reference!r}"
            )
        if reference[1:] not in self._values:
            raise WorkloadError(
                f"{field}: parameter {reference[1:]} is not among the workload's params"
            )
        self._used.add(reference[1:])
        return self._values[reference[1:]]

    def number(self, field: str, reference: str) -> int:
        value = self.value(field, reference)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise WorkloadError(
                f"{field}: params.{reference[1:]}: expected a whole number, got {value!r}"
            )
        return int(value)

    def unused(self) -> list[str]:
        return [name for name in self._values if name not in self._used]


def _resolved(operation: Operation, parameters: _Parameters) -> Operation:
    """Returns the operation with its parameters filled in."""
    changes: dict[str, Any] = {}
    reference = getattr(operation, "count_param", "")
    if reference:
        changes |= {"count": parameters.number("countParam", reference), "count_param": ""}
    template_params: dict[str, Value] = getattr(operation, "template_params", {})
    if template_params:
        changes["template_params"] = {
            name: parameters.value(f"templateParams.{name}", value)
            if isinstance(value, str) and value.startswith("$")
            else value
            for name, value in template_params.items()
        }
    if isinstance(operation, CreatePods | Sleep) and operation.duration_param:
        changes["duration"] = str(parameters.value("durationParam", operation.duration_param))
    match operation:
        case CreatePods():
            if operation.count_multiplier_param:
                factor = parameters.number("countMultiplierParam", operation.count_multiplier_param)
                changes["count"] = changes.get("count", operation.count) * factor
            if operation.signature_batch_size_param:
                size = parameters.number(
                    "signatureBatchSizeParam", operation.signature_batch_size_param
                )
                changes["signature_batch_size"] = size
            if operation.steady_state_param:
                steady = parameters.value("steadyStateParam", operation.steady_state_param)
                if not isinstance(steady, bool):
                    raise WorkloadError(f"steadyStateParam: expected true or false, got {steady!r}")
                changes["steady_state"] = steady
        case CreateResourceDriver() if operation.max_claims_per_node_param:
            number = parameters.number("maxClaimsPerNodeParam", operation.max_claims_per_node_param)
            changes |= {"max_claims_per_node": number, "max_claims_per_node_param": ""}
        case CreatePodSets():
            changes["create_pods_op"] = _resolved(operation.create_pods_op, parameters)
        case _:
            pass
    return msgspec.structs.replace(operation, **changes) if changes else operation

"""The operations of scheduler_perf's workloads as its files write them, one class per opcode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from .templates import Value

NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class WorkloadError(ValueError):
    """A configuration file cannot be used; the message names the file and the field."""


class Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of the types in a file, which refuses unknown fields."""


def _opcode(class_name: str) -> str:
    return class_name[0].lower() + class_name[1:]


class Op(Strict, frozen=True, kw_only=True, tag_field="opcode", tag=_opcode):
    """An operation; `opcode` is the name of its class, as camel case."""


class NodeAllocatable(Strict, frozen=True, kw_only=True):
    """A strategy that sets allocatable resources and, for volumes, a CSINode with limits."""

    node_allocatable: dict[str, str | int] = {}
    csi_node_allocatable: dict[str, dict[str, int | None]] = {}
    migrated_plugins: list[str] = []


class LabelNode(Strict, frozen=True, kw_only=True):
    """A strategy that labels nodes with the values in turn."""

    label_key: str
    label_values: list[str]


class UniqueNodeLabel(Strict, frozen=True, kw_only=True):
    label_key: str


class CreateNodes(Op, frozen=True, kw_only=True):
    count: int = 0
    count_param: str = ""
    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatable | None = None
    label_node_prepare_strategy: LabelNode | None = None
    unique_node_label_strategy: UniqueNodeLabel | None = None
    template_params: dict[str, Value] = {}


class CreateNamespaces(Op, frozen=True, kw_only=True):
    prefix: str = ""
    count: int = 0
    count_param: str = ""
    namespace_template_path: str = ""


class CreatePods(Op, frozen=True, kw_only=True):
    count: int = 0
    count_param: str = ""
    count_multiplier_param: str = ""
    steady_state: bool = False
    steady_state_param: str = ""
    duration: str = ""
    duration_param: str = ""
    collect_metrics: bool = False
    namespace: str | None = None
    pod_template_path: str = ""
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""
    signature_batch_size: int = 0
    signature_batch_size_param: str = ""
    template_params: dict[str, Value] = {}


class CreatePodSets(Op, frozen=True, kw_only=True):
    count: int = 0
    count_param: str = ""
    namespace_prefix: str
    create_pods_op: CreatePods


class CreateAny(Op, frozen=True, kw_only=True):
    namespace: str = ""
    template_path: str
    count: int | None = None
    count_param: str = ""
    template_params: dict[str, Value] = {}


class UpdateAny(Op, frozen=True, kw_only=True):
    namespace: str = ""
    template_path: str
    count: int | None = None
    count_param: str = ""
    update_per_second: int = 0
    subresources: list[str] = []
    template_params: dict[str, Value] = {}


class DeletePods(Op, frozen=True, kw_only=True):
    namespace: str
    label_selector: dict[str, str] = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: int = 0


class Churn(Op, frozen=True, kw_only=True):
    mode: Literal["create", "recreate"]
    number: int = 0
    interval_milliseconds: int = 0
    namespace: str | None = None
    template_paths: list[str]


class Barrier(Op, frozen=True, kw_only=True):
    namespaces: list[str] = []
    label_selector: dict[str, str] = {}
    stage_requirement: Literal["", "Scheduled", "Attempted"] = ""


class Sleep(Op, frozen=True, kw_only=True):
    duration: str = ""
    duration_param: str = ""


class StartCollectingMetrics(Op, frozen=True, kw_only=True):
    name: str = ""
    namespaces: list[str]
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(Op, frozen=True, kw_only=True):
    pass


class StartCollectingProfile(Op, frozen=True, kw_only=True):
    type: str = ""
    file_path: str = ""


class StopCollectingProfile(Op, frozen=True, kw_only=True):
    type: str = ""


class CreateResourceDriver(Op, frozen=True, kw_only=True):
    """The operation that publishes a driver's devices on the nodes that match the glob `nodes`."""

    driver_name: NonEmpty
    nodes: NonEmpty
    max_claims_per_node: int = 0
    max_claims_per_node_param: str = ""


class CreateResourceClaims(Op, frozen=True, kw_only=True):
    namespace: NonEmpty
    template_path: NonEmpty
    count: int = 0
    count_param: str = ""


class AllocResourceClaims(Op, frozen=True, kw_only=True):
    """The operation that allocates the claims of a namespace, or of all, without the scheduler."""

    namespace: str = ""


class _UnsupportedOp(msgspec.Struct, frozen=True, tag_field="opcode", tag=_opcode):
    """An operation of scheduler_perf that is read with any fields, but not supported here."""


class CreatePodGroups(_UnsupportedOp, frozen=True):
    pass


class WaitForPodGroups(_UnsupportedOp, frozen=True):
    pass


Unsupported = CreatePodGroups | WaitForPodGroups
Operation = (
    CreateNodes
    | CreateNamespaces
    | CreatePods
    | CreatePodSets
    | CreateAny
    | UpdateAny
    | DeletePods
    | Churn
    | Barrier
    | Sleep
    | StartCollectingMetrics
    | StopCollectingMetrics
    | StartCollectingProfile
    | StopCollectingProfile
    | CreateResourceDriver
    | CreateResourceClaims
    | AllocResourceClaims
    | Unsupported
)


def seconds(text: str) -> float:
    """Returns the length of a Go duration such as 1m30s. Raises WorkloadError."""
    if not text or _DURATION.sub("", text):
        raise WorkloadError(f"duration: expected one such as 1m30s, got {text!r}")
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text))


def problems(operation: Operation) -> Iterator[str]:
    """Yields the problems of an operation taken by itself."""
    for field in (
        "count",
        "number",
        "interval_milliseconds",
        "delete_pods_per_second",
        "update_per_second",
        "max_claims_per_node",
    ):
        if (getattr(operation, field, 0) or 0) < 0:
            yield f"{_camel(field)}: expected 0 or more"
    match operation:
        case CreatePods():
            yield from _problems_of_pods(operation)
        case CreatePodSets():
            yield from (f"createPodsOp.{problem}" for problem in problems(operation.create_pods_op))
        case Churn():
            if operation.mode == "recreate" and not operation.number:
                yield "number: cannot be 0 in mode recreate"
            if not operation.template_paths:
                yield "templatePaths: expected at least one"
        case StartCollectingMetrics() if not operation.namespaces:
            yield "namespaces: cannot be empty"
        case _:
            pass


def _problems_of_pods(operation: CreatePods) -> Iterator[str]:
    if operation.collect_metrics and operation.skip_wait_to_completion:
        yield "collectMetrics and skipWaitToCompletion cannot both be true"
    if operation.steady_state and operation.skip_wait_to_completion:
        yield "steadyState and skipWaitToCompletion cannot both be true"
    if operation.steady_state and not operation.duration_param and not operation.duration:
        yield "duration: must be given with steadyState"
    if operation.steady_state and not operation.count_param and not operation.count:
        yield "count: cannot be 0 with steadyState"
    if (
        operation.persistent_volume_template_path
        and not operation.persistent_volume_claim_template_path
    ):
        yield ("persistentVolumeClaimTemplatePath: must be given with persistentVolumeTemplatePath")


def _camel(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)

"""The arguments of the plugins that score resources, with their defaults and validation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from berth.plugin import MAX_NODE_SCORE, ArgsError


class ResourceWeight(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: int = 1


class ShapePoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A score from 0 to 10 at a utilization from 0 to 100 percent."""

    utilization: int
    score: int


class RequestedToCapacityRatio(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    shape: tuple[ShapePoint, ...] = ()


CPU_AND_MEMORY = (ResourceWeight("cpu"), ResourceWeight("memory"))


class ScoringStrategy(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    type: str = "LeastAllocated"
    resources: tuple[ResourceWeight, ...] | None = None
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None


class NodeResourcesFitArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    ignored_resources: tuple[str, ...] | None = None
    ignored_resource_groups: tuple[str, ...] | None = None
    scoring_strategy: ScoringStrategy | None = None


class NodeResourcesBalancedAllocationArgs(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    resources: tuple[ResourceWeight, ...] | None = None


def checked_resources(
    resources: tuple[ResourceWeight, ...] | None, path: str, *, only_weight_one: bool = False
) -> tuple[ResourceWeight, ...]:
    """Returns the resources, or cpu and memory if none are configured.

    Raises ArgsError for a weight out of range and for a name that occurs twice.
    """
    chosen = resources or CPU_AND_MEMORY
    seen: set[str] = set()
    for i, resource in enumerate(chosen):
        if only_weight_one and resource.weight != 1:
            raise ArgsError(f"{path}[{i}].weight: expected 1, got {resource.weight}")
        if not 1 <= resource.weight <= 100:
            raise ArgsError(
                f"{path}[{i}].weight: expected a weight from 1 to 100, got {resource.weight}"
            )
        if resource.name in seen:
            raise ArgsError(f"{path}[{i}].name: {resource.name!r} is named twice")
        seen.add(resource.name)
    return chosen


def ratio_shape(strategy: ScoringStrategy) -> tuple[ShapePoint, ...]:
    """Returns the shape of RequestedToCapacityRatio. Raises ArgsError as `checked_shape` does."""
    ratio = strategy.requested_to_capacity_ratio
    path = "scoringStrategy.requestedToCapacityRatio.shape"
    return checked_shape(ratio.shape if ratio else (), path)


def checked_shape(shape: tuple[ShapePoint, ...], path: str) -> tuple[ShapePoint, ...]:
    """Returns the shape.

    Raises ArgsError unless its points are in the allowed ranges and in order of utilization.
    """
    if not shape:
        raise ArgsError(f"{path}: expected at least one point")
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            raise ArgsError(f"{path}[{i}].utilization: expected 0 to 100, got {point.utilization}")
        if not 0 <= point.score <= 10:
            raise ArgsError(f"{path}[{i}].score: expected 0 to 10, got {point.score}")
        if i and point.utilization <= shape[i - 1].utilization:
            raise ArgsError(
                f"{path}[{i}].utilization: expected more than {shape[i - 1].utilization}"
            )
    return shape


def score_at(shape: Sequence[ShapePoint], percent: int) -> int:
    """The score, 0 to 100, at a utilization.

    Before the first point it is the score of the first, and after the last point that of the last.
    """
    scale = MAX_NODE_SCORE // 10
    for i, point in enumerate(shape):
        if percent <= point.utilization:
            if i == 0:
                return point.score * scale
            before = shape[i - 1]
            rise = (point.score - before.score) * scale * (percent - before.utilization)
            # Go divides towards zero.
            run = point.utilization - before.utilization
            return before.score * scale + (rise // run if rise >= 0 else -(-rise // run))
    return shape[-1].score * scale

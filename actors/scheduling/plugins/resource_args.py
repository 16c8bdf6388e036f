"""The arguments of the plugins that score resources, with their defaults and validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, get_args

import msgspec

from berth.config.names import is_qualified_name
from berth.config.types import (
    Int64,
    described,
)
from berth.plugin import MAX_NODE_SCORE, PluginArgs


class ResourceWeight(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A resource and its weight."""

    name: Annotated[str, described("The resource's name.")] = ""
    weight: Annotated[Int64, described("From 1 to 100; 0 means 1.")] = 0


class ShapePoint(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A score from 0 to 10 at a utilization from 0 to 100 percent."""

    utilization: Annotated[
        int, msgspec.Meta(ge=0, le=100), described("In percent, higher than the one before.")
    ] = 0
    score: Annotated[int, msgspec.Meta(ge=0, le=10), described("The score there.")] = 0


class RequestedToCapacityRatio(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """Scores by the requested share of a resource."""

    shape: Annotated[tuple[ShapePoint, ...], described("The scores, by rising utilization.")] = ()


CPU_AND_MEMORY = (ResourceWeight("cpu", 1), ResourceWeight("memory", 1))
StrategyType = Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]


class ScoringStrategy(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The way in which NodeResourcesFit scores nodes."""

    type: Annotated[
        StrategyType | None,
        described("Which nodes score higher: those with least or most allocated, or by a shape."),
    ] = None
    resources: Annotated[
        tuple[ResourceWeight, ...], described("The resources that count; cpu and memory if empty.")
    ] = ()
    requested_to_capacity_ratio: Annotated[
        RequestedToCapacityRatio | None, described("Only with the type RequestedToCapacityRatio.")
    ] = None


class NodeResourcesFitArgs(PluginArgs, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of NodeResourcesFit."""

    ignored_resources: Annotated[
        tuple[str, ...], described("Resources that the filter ignores.")
    ] = ()
    ignored_resource_groups: Annotated[
        tuple[str, ...],
        described("The same, by the part before the slash, such as example.com."),
    ] = ()
    scoring_strategy: Annotated[ScoringStrategy | None, described("How nodes are scored.")] = None

    def completed(self, gates: Mapping[str, bool]) -> NodeResourcesFitArgs:
        strategy = self.scoring_strategy or ScoringStrategy("LeastAllocated")
        resources = weighed(strategy.resources)
        strategy = msgspec.structs.replace(strategy, resources=resources)
        return msgspec.structs.replace(self, scoring_strategy=strategy)

    def problems(self, gates: Mapping[str, bool]) -> Iterable[str]:
        for i, name in enumerate(self.ignored_resources):
            if not is_qualified_name(name):
                yield f"ignoredResources[{i}]: expected the name of a resource, got {name!r}"
        for i, group in enumerate(self.ignored_resource_groups):
            if "/" in group or not is_qualified_name(group):
                yield (
                    f"ignoredResourceGroups[{i}]: expected the part of a resource's name before "
                    f"the slash, got {group!r}"
                )
        strategy = self.scoring_strategy or ScoringStrategy("LeastAllocated")
        if strategy.type is None:
            expected = ", ".join(get_args(StrategyType))
            yield f"scoringStrategy.type: expected one of {expected}, got nothing"
        for i, resource in enumerate(strategy.resources):
            if not 1 <= resource.weight <= 100:
                yield (
                    f"scoringStrategy.resources[{i}].weight: expected a weight from 1 to 100, got "
                    f"{resource.weight}"
                )
        ratio, path = strategy.requested_to_capacity_ratio, "scoringStrategy"
        if strategy.type == "RequestedToCapacityRatio":
            shape = ratio.shape if ratio is not None else ()
            yield from shape_problems(shape, f"{path}.requestedToCapacityRatio.shape")
        elif ratio is not None:
            yield (
                f"{path}.requestedToCapacityRatio: expected nothing without the type "
                "RequestedToCapacityRatio"
            )


class NodeResourcesBalancedAllocationArgs(
    PluginArgs, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """The arguments of NodeResourcesBalancedAllocation."""

    resources: Annotated[
        tuple[ResourceWeight, ...],
        described("The resources to balance, each with the weight 1; cpu and memory if empty."),
    ] = ()

    def completed(self, gates: Mapping[str, bool]) -> NodeResourcesBalancedAllocationArgs:
        return NodeResourcesBalancedAllocationArgs(weighed(self.resources))

    def problems(self, gates: Mapping[str, bool]) -> Iterable[str]:
        names = [resource.name for resource in self.resources]
        for i, resource in enumerate(self.resources):
            if resource.name in names[:i]:
                yield f"resources[{i}].name: {resource.name!r} is named twice"
            if resource.weight != 1:
                yield f"resources[{i}].weight: expected 1, got {resource.weight}"


def weighed(resources: tuple[ResourceWeight, ...]) -> tuple[ResourceWeight, ...]:
    """Returns the resources, with the default weight where none is set; cpu and memory if there are
    none.
    """
    return tuple(ResourceWeight(r.name, r.weight or 1) for r in resources) or CPU_AND_MEMORY


def shape_problems(shape: Sequence[ShapePoint], path: str) -> Iterable[str]:
    """Yields a line if there is no point, and for the first point that is out of order."""
    if not shape:
        yield f"{path}: expected at least one point"
    for i in range(1, len(shape)):
        if shape[i].utilization <= shape[i - 1].utilization:
            yield f"{path}[{i}].utilization: expected more than {shape[i - 1].utilization}"
            break


def score_at(shape: Sequence[ShapePoint], percent: int) -> int:
    """Returns the score, 0 to 100, at a utilization.

    Before the first point it is the first point's score, and after the last the last point's.
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

"""Rules for LimitRanges: the names of resources, and the order of minimum, default and maximum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from berth.actors.scheduling.kube.names import qualified_name
from berth.actors.scheduling.kube.quantity import nano_value

from .container_rules import name_of_resource
from .fields import Document, duplicate, forbidden, invalid, is_extended, required

_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_ONE = 1_000_000_000


def limit_range(spec: Document) -> Iterator[str]:
    kinds: set[str] = set()
    for i, limit in enumerate(spec.get("limits") or ()):
        path, kind = f"spec.limits[{i}]", limit.get("type", "")
        yield from _kind(f"{path}.type", kind)
        if kind in kinds:
            yield duplicate(f"{path}.type", kind)
        kinds.add(kind)
        yield from _limit(path, kind, limit)


def _kind(path: str, kind: str) -> list[str]:
    problems = [invalid(path, kind, message) for message in qualified_name(kind)]
    if not problems and "/" not in kind and kind not in _TYPES:
        problems.append(invalid(path, kind, "must be a standard limit type or fully qualified"))
    return problems


def _limit(path: str, kind: str, limit: Document) -> Iterator[str]:
    fields: tuple[str, ...] = _AMOUNTS
    if kind == "Pod":
        fields = ("max", "min", "maxLimitRequestRatio")
        yield from (
            forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            for field in ("default", "defaultRequest")
            if limit.get(field)
        )
    amounts: dict[str, dict[str, Any]] = {field: limit.get(field) or {} for field in fields}
    for field, values in amounts.items():
        for name in values:
            yield from _resource(f"{path}.{field}[{name}]", name, kind)
    if kind == "PersistentVolumeClaim" and not any(
        "storage" in amounts[field] for field in ("min", "max")
    ):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", detail)
    for name in dict.fromkeys(name for values in amounts.values() for name in values):
        of_name = {field: values[name] for field, values in amounts.items() if name in values}
        yield from _contradictions(path, name, of_name)


def _resource(path: str, name: str, kind: str) -> list[str]:
    """Checks the name of a resource that a LimitRange limits for this kind of object."""
    if kind in ("Pod", "Container"):
        return name_of_resource(path, name)
    return [invalid(path, name, message) for message in qualified_name(name)]


def _contradictions(path: str, name: str, amounts: dict[str, Any]) -> list[str]:
    """Returns the problems of amounts of one resource that contradict each other, such as a minimum
    above the maximum.
    """
    problems: list[str] = []

    def at_most(lower: str, upper: str, words: tuple[str, str], field: str, value: str) -> None:
        if lower in amounts and upper in amounts:
            low, high = amounts[lower], amounts[upper]
            if nano_value(low) > nano_value(high):
                detail = f"{words[0]} value {low} is greater than {words[1]} value {high}"
                problems.append(invalid(f"{path}.{field}[{name}]", str(amounts[value]), detail))

    request, default = "defaultRequest", "default"
    at_most("min", "max", ("min", "max"), "min", "min")
    at_most("min", request, ("min", "default request"), request, request)
    at_most(request, "max", ("default request", "max"), request, request)
    at_most(request, default, ("default request", "default limit"), request, request)
    at_most("min", default, ("min", "default"), default, "min")
    at_most(default, "max", ("default", "max"), default, "max")
    ratio = amounts.get("maxLimitRequestRatio")
    if ratio is not None:
        problems += _ratio(f"{path}.maxLimitRequestRatio[{name}]", ratio, amounts)
    whole = is_extended(name) or name.startswith("hugepages-")
    if whole and request in amounts and default in amounts:
        low, high = amounts[request], amounts[default]
        if nano_value(low) != nano_value(high):
            detail = f"default value {high} must equal to defaultRequest value {low} in {name}"
            problems.append(invalid(f"{path}.{request}[{name}]", str(low), detail))
    return problems


def _ratio(path: str, ratio: Any, amounts: dict[str, Any]) -> Iterator[str]:
    if nano_value(ratio) < _ONE:
        yield invalid(path, str(ratio), f"ratio {ratio} is less than 1")
    if "min" in amounts and "max" in amounts:
        low, high = nano_value(amounts["min"]), nano_value(amounts["max"])
        if low and nano_value(ratio) * low > high * _ONE:
            detail = f"ratio {ratio} is greater than max/min = {high / low:f}"
            yield invalid(path, str(ratio), detail)

"""Rules for autoscalers: their limits, their target, their metrics and their behavior."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from berth.actors.scheduling.kube.names import dns_label
from berth.actors.scheduling.kube.quantity import nano_value

from .container_rules import name_of_resource
from .fields import NOT_POSITIVE, Document, forbidden, invalid, one_of, required, unsupported

MOST_WINDOW_SECONDS = 3600
MOST_PERIOD_SECONDS = 1800
# The field of each type of metric, in the order in which they are checked.
SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def autoscaler(spec: Document, before: Document | None) -> Iterator[str]:
    """Checks an autoscaler; `before` is its stored spec, if any."""
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target, was = spec.get("scaleTargetRef") or {}, (before or {}).get("scaleTargetRef")
    yield from _target_reference("spec.scaleTargetRef", target, was)
    for i, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric(f"spec.metrics[{i}]", metric)
    behavior = spec.get("behavior") or {}
    for direction in ("scaleUp", "scaleDown"):
        if behavior.get(direction) is not None:
            yield from _rules(f"spec.behavior.{direction}", behavior[direction])


def _reference(path: str, reference: Document) -> list[str]:
    problems: list[str] = []
    for field in ("kind", "name"):
        problems += _path_segment(f"{path}.{field}", reference.get(field))
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {version}"
        problems.append(invalid(f"{path}.apiVersion", version, detail))
    return problems


def _target_reference(path: str, target: Document, before: Document | None) -> list[str]:
    """Checks the reference to the scaled object. It needs an API group, unless the object is a
    ReplicationController.

    An update may keep the target that the stored object, `before`, has.
    """
    if before is not None and all(
        target.get(field) == before.get(field) for field in ("apiVersion", "kind")
    ):
        return _reference(path, {**target, "apiVersion": ""})
    problems, version = _reference(path, target), target.get("apiVersion") or ""
    if (
        target.get("kind") != "ReplicationController"
        and ("/" not in version or version.startswith("/"))
        and version.count("/") < 2
    ):
        problems.append(invalid(f"{path}.apiVersion", version, "apiVersion must specify API group"))
    return problems


def _path_segment(path: str, name: str | None, detail: str = "") -> list[str]:
    if not name:
        return [required(path, detail)]
    if name in (".", ".."):
        return [invalid(path, name, f"may not be '{name}'")]
    return [
        invalid(path, name, f"may not contain '{character}'")
        for character in "/%"
        if character in name
    ]


def _metric(path: str, metric: Document) -> Iterator[str]:
    type_ = metric.get("type") or ""
    if not type_:
        yield required(f"{path}.type", "must specify a metric source type")
    if type_ not in SOURCES:
        yield unsupported(f"{path}.type", type_, sorted(SOURCES))
    present = [field for field in SOURCES.values() if metric.get(field) is not None]
    if present:
        yield from _source(f"{path}.{present[0]}", present[0], metric[present[0]])
    expected = SOURCES.get(type_, "")
    if expected and expected not in present:
        detail = "must populate information for the given metric source"
        yield required(f"{path}.{expected}", detail)
    if len(present) != 1:
        detail = "must populate the given metric source only"
        yield from (forbidden(f"{path}.{field}", detail) for field in present if field != expected)


def _source(path: str, field: str, source: Document) -> Iterator[str]:
    target = source.get("target") or {}
    has = {name for name, amount in target.items() if amount is not None}
    if field == "object":
        yield from _reference(f"{path}.describedObject", source.get("describedObject") or {})
    if field in ("object", "external", "pods"):
        name = (source.get("metric") or {}).get("name")
        yield from _path_segment(f"{path}.metric.name", name, "must specify a metric name")
    elif not source.get("name"):
        yield required(f"{path}.name", "must specify a resource name")
    elif field == "containerResource":
        yield from name_of_resource(f"{path}.name", source["name"])
    if field == "containerResource":
        container = source.get("container")
        if not container:
            yield required(f"{path}.container", "must specify a container")
        else:
            yield from (
                invalid(f"{path}.container", container, why) for why in dns_label(container)
            )
    yield from _target(f"{path}.target", target)
    needed, why, both = {
        "object": ({"value", "averageValue"}, "either a target value or averageValue", ""),
        "external": (
            {"value", "averageValue"},
            "either a target value for metric or a per-pod target",
            "a target value for metric and a per-pod target",
        ),
        "pods": ({"averageValue"}, "", ""),
    }.get(
        field,
        (
            {"averageUtilization", "averageValue"},
            "either a target raw value or a target utilization",
            "a target raw value and a target utilization",
        ),
    )
    first = "averageUtilization" if "averageUtilization" in needed else "averageValue"
    if not needed & has:
        detail = f"must set {why}" if why else "must specify a positive target averageValue"
        yield required(f"{path}.target.{first}", detail)
    if both and needed <= has:
        second = "value" if field == "external" else "averageValue"
        yield forbidden(f"{path}.target.{second}", f"may not set both {both}")


def _target(path: str, target: Document) -> Iterator[str]:
    type_ = target.get("type") or ""
    if not type_:
        yield required(f"{path}.type", "must specify a metric target type")
    if type_ not in ("Utilization", "Value", "AverageValue"):
        yield invalid(f"{path}.type", type_, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        amount = target.get(field)
        if amount is not None and nano_value(amount) <= 0:
            yield invalid(f"{path}.{field}", str(amount), "must be positive")
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        yield invalid(f"{path}.averageUtilization", share, "must be greater than 0")


def _rules(path: str, rules: Document) -> Iterator[str]:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None:
        detail = "must be greater than or equal to zero"
        if window > MOST_WINDOW_SECONDS:
            detail = f"must be less than or equal to {MOST_WINDOW_SECONDS}"
        if not 0 <= window <= MOST_WINDOW_SECONDS:
            yield invalid(f"{path}.stabilizationWindowSeconds", window, detail)
    policies = ("Disabled", "Max", "Min")
    yield from one_of(f"{path}.selectPolicy", rules.get("selectPolicy"), policies)
    if not rules.get("policies"):
        yield required(f"{path}.policies", "must specify at least one Policy")
    for i, policy in enumerate(rules.get("policies") or ()):
        yield from _policy(f"{path}.policies[{i}]", policy)
    tolerance: Any = rules.get("tolerance")
    if tolerance is not None and nano_value(tolerance) < 0:
        yield invalid(f"{path}.tolerance", str(tolerance), "must be greater than or equal to 0")


def _policy(path: str, policy: Document) -> Iterator[str]:
    yield from one_of(f"{path}.type", policy.get("type") or "", ("Percent", "Pods"))
    for field in ("value", "periodSeconds"):
        number = policy.get(field) or 0
        if number <= 0:
            yield invalid(f"{path}.{field}", number, NOT_POSITIVE)
    period = policy.get("periodSeconds") or 0
    if period > MOST_PERIOD_SECONDS:
        detail = f"must be less than or equal to {MOST_PERIOD_SECONDS}"
        yield invalid(f"{path}.periodSeconds", period, detail)

"""Rules for device classes and resource slices, and the rules that these share with claims."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from berth.actors.scheduling.cel import selector
from berth.actors.scheduling.kube import quantity
from berth.actors.scheduling.kube.names import dns_label, dns_subdomain, label_value, qualified_name

from ..cel_cost import worst_cost
from .fields import (
    NOT_POSITIVE,
    Document,
    duplicate,
    forbidden,
    invalid,
    is_extended,
    required,
    too_long,
    too_many,
    unchanged,
    unsupported,
)
from .value_forms import driver_name

MOST_SELECTORS = MOST_CONFIGS = 32
MOST_DEVICES, MOST_ADVANCED_DEVICES = 128, 64
MOST_TAINTS, MOST_CONDITIONS, MOST_RULE_CONDITIONS = 16, 4, 8
MOST_ATTRIBUTES, MOST_ATTRIBUTE_VALUES = 32, 48
MOST_COUNTER_SETS, MOST_COUNTERS, MOST_CONSUMPTIONS = 8, 32, 2
MOST_VALID_VALUES = 10
LONGEST_VALUE, LONGEST_IDENTIFIER, LONGEST_POOL = 64, 32, 253
LONGEST_EXPRESSION = LONGEST_PARAMETERS = 10 << 10
HIGHEST_COST = 1_000_000
EFFECTS = ("NoExecute", "NoSchedule", "None")
_LISTS = ("bools", "ints", "strings", "versions")
_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_RULE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for "
    "validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_PRERELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    rf"(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
Check = Callable[[str, Any], Iterable[str]]


# ---------------------------------------------------------------------------------- what all share


def each_item(path: str, items: Sequence[Any], most: int, check: Check) -> list[str]:
    """Returns the problems of the items of a list; only one problem for a list of more than `most`
    items.
    """
    if len(items) > most:
        return [too_many(path, len(items), most)]
    return [problem for i, item in enumerate(items) for problem in check(f"{path}[{i}]", item)]


def unique_keys(path: str, keys: Iterable[Any]) -> list[str]:
    """Returns a problem for each key that an earlier item of the list has too."""
    problems: list[str] = []
    seen: set[Any] = set()
    for i, key in enumerate(keys):
        if key in seen:
            problems.append(duplicate(f"{path}[{i}]", key))
        seen.add(key)
    return problems


def set_of(path: str, items: Sequence[Any], most: int, check: Check, key: str = "") -> list[str]:
    """Returns the problems of a list of unique items; objects must differ in their `key`."""
    problems = each_item(path, items, most, check)
    if len(items) > most:
        return problems
    return problems + unique_keys(path, ((item.get(key) or "") if key else item for item in items))


def label_name(path: str, name: str) -> list[str]:
    return [invalid(path, name, message) for message in dns_label(name)]


def pool_name(path: str, name: str) -> Iterator[str]:
    """Checks the name of a pool: DNS subdomains separated by slashes."""
    if not name:
        yield required(path)
        return
    if len(name) > LONGEST_POOL:
        yield too_long(path, LONGEST_POOL)
    yield from (
        invalid(path, part, message) for part in name.split("/") for message in dns_subdomain(part)
    )


def attribute_name(path: str, name: str) -> list[str]:
    """Checks the name of an attribute or a capacity: an identifier, with or without a domain.

    Kubernetes checks no name with more than one slash.
    """
    domain, slash, identifier = name.partition("/")
    if "/" in identifier:
        return []
    if not slash:
        return _identifier(path, name)
    problems = (
        driver_name(path, domain) if domain else [invalid(path, "", "the domain must not be empty")]
    )
    if not identifier:
        return [*problems, invalid(path, "", "the name must not be empty")]
    return problems + _identifier(path, identifier)


def full_attribute_name(path: str, name: str) -> list[str]:
    rule = "a fully qualified name must be a domain and a name separated by a slash"
    problems = attribute_name(path, name)
    return problems if "/" in name else [*problems, invalid(path, name, rule)]


def _identifier(path: str, name: str) -> list[str]:
    problems = [too_long(path, LONGEST_IDENTIFIER)] if len(name) > LONGEST_IDENTIFIER else []
    if not _IDENTIFIER.fullmatch(name):
        problems.append(invalid(path, name, _IDENTIFIER_RULE))
    return problems


def selectors(path: str, items: Sequence[Document]) -> list[str]:
    return each_item(path, items, MOST_SELECTORS, _selector)


def _selector(path: str, document: Document) -> list[str]:
    cel = document.get("cel")
    if cel is None:
        return [required(f"{path}.cel")]
    expression = cel.get("expression") or ""
    if len(expression) > LONGEST_EXPRESSION:
        return [too_long(f"{path}.cel.expression", LONGEST_EXPRESSION)]
    compiled = selector(expression)
    if compiled.error:
        return [invalid(f"{path}.cel.expression", expression, compiled.error)]
    if worst_cost(compiled) > HIGHEST_COST:
        return [forbidden(f"{path}.cel.expression", "too complex, exceeds cost limit")]
    return []


def configuration(path: str, config: Document) -> list[str]:
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{path}.opaque")]
    problems = driver_name(f"{path}.opaque.driver", opaque.get("driver") or "")
    return problems + raw_object(f"{path}.opaque.parameters", opaque.get("parameters"))


def raw_object(path: str, value: Any) -> list[str]:
    """Checks a value of any form: it must be a JSON object of limited size."""
    if value is None:
        return [required(path)]
    if len(msgspec.json.encode(value)) > LONGEST_PARAMETERS:
        return [too_long(path, LONGEST_PARAMETERS)]
    if not isinstance(value, dict):
        return [invalid(path, "<value omitted>", "must be a valid JSON object")]
    return []


def binding_conditions(path: str, device: Document) -> list[str]:
    """Checks the conditions that a device must meet before a pod is bound, and those that make the
    binding fail.
    """
    awaited = device.get("bindingConditions") or ()
    failing = device.get("bindingFailureConditions") or ()
    problems: list[str] = []
    for field, names in (("bindingConditions", awaited), ("bindingFailureConditions", failing)):
        problems += set_of(f"{path}.{field}", names, MOST_CONDITIONS, qualified)
    rule = "bindingFailureConditions must not overlap with bindingConditions"
    problems += [
        invalid(f"{path}.bindingFailureConditions[{i}]", name, rule)
        for i, name in enumerate(failing)
        if name in awaited
    ]
    if failing and not awaited:
        rule = "bindingConditions are required to use bindingFailureConditions"
        problems.append(invalid(f"{path}.bindingConditions", list(awaited), rule))
    if awaited and not failing:
        rule = "bindingFailureConditions are required to use bindingConditions"
        problems.append(invalid(f"{path}.bindingFailureConditions", list(failing), rule))
    return problems


def qualified(path: str, name: str) -> list[str]:
    return [invalid(path, name, message) for message in qualified_name(name)]


# ------------------------------------------------------------------------------------------ classes


def device_class(spec: Document, before: Document | None) -> Iterator[str]:
    """Checks a device class. Selectors that an update does not change are not compiled again."""
    current = spec.get("selectors") or ()
    same = before is not None and current == (before.get("selectors") or ())
    if not same:
        yield from selectors("spec.selectors", current)
    yield from each_item("spec.config", spec.get("config") or (), MOST_CONFIGS, configuration)
    name = spec.get("extendedResourceName")
    if name is not None and (not is_extended(name) or qualified_name(f"requests.{name}")):
        yield invalid("spec.extendedResourceName", name, "must be a valid extended resource name")


# ------------------------------------------------------------------------------------------- slices


def resource_slice(spec: Document, before: Document | None) -> list[str]:
    pool = spec.get("pool") or {}
    problems = driver_name("spec.driver", spec.get("driver") or "")
    problems += pool_name("spec.pool.name", pool.get("name") or "")
    if (pool.get("resourceSliceCount") or 0) <= 0:
        count = pool.get("resourceSliceCount") or 0
        problems.append(invalid("spec.pool.resourceSliceCount", count, NOT_POSITIVE))
    if (pool.get("generation") or 0) < 0:
        rule = "must be greater than or equal to zero"
        problems.append(invalid("spec.pool.generation", pool["generation"], rule))
    if before is not None:
        was = (before.get("pool") or {}).get("name")
        problems += unchanged("spec.pool.name", pool.get("name"), was)
        for field in ("driver", "nodeName"):
            problems += unchanged(f"spec.{field}", spec.get(field), before.get(field))
    problems += _nodes_of_slice(spec)
    devices = spec.get("devices")
    if spec.get("sharedCounters") is not None and devices is not None:
        problems.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    each_chosen = bool(spec.get("perDeviceNodeSelection"))
    most = MOST_ADVANCED_DEVICES if any(map(_is_advanced, devices or ())) else MOST_DEVICES
    problems += set_of(
        "spec.devices",
        devices or (),
        most,
        lambda path, device: _device(path, device, each_chosen=each_chosen),
        "name",
    )
    counters = spec.get("sharedCounters") or ()
    return problems + set_of(
        "spec.sharedCounters", counters, MOST_COUNTER_SETS, _counter_set, "name"
    )


def _is_advanced(device: Document) -> bool:
    """True if a slice that contains this device may have fewer devices than usual."""
    listed = (device.get("attributes") or {}).values()
    return bool(
        device.get("taints")
        or device.get("consumesCounters")
        or any(field in attribute for attribute in listed for field in _LISTS)
    )


def _nodes_of_slice(spec: Document) -> Iterator[str]:
    """Checks that exactly one field says which nodes can use the devices."""
    present: list[str] = []
    node, chosen = spec.get("nodeName"), spec.get("nodeSelector")
    if node:
        present.append("`nodeName`")
        yield from (invalid("spec.nodeName", node, message) for message in dns_subdomain(node))
    elif node is not None:
        yield invalid("spec.nodeName", node, "must be either unset or set to a non-empty string")
    if chosen is not None:
        present.append("`nodeSelector`")
        terms = chosen.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            rule = "must have exactly one node selector term"
            yield invalid("spec.nodeSelector.nodeSelectorTerms", terms, rule)
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field):
            present.append(f"`{field}`")
        elif spec.get(field) is not None:
            rule = "must be either unset or set to true"
            yield invalid(f"spec.{field}", value=False, detail=rule)
    fields = "`nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`"
    rule = f"exactly one of {fields} is required"
    if not present:
        yield required("spec", rule)
    elif len(present) > 1:
        listed = f"{{{', '.join(present)}}}"
        yield invalid("spec", listed, f"{rule}, but multiple fields are set")


def _device(path: str, device: Document, *, each_chosen: bool) -> list[str]:
    """Checks a device. `each_chosen` is True if each device of the slice names its own nodes."""
    problems = label_name(f"{path}.name", device.get("name") or "")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    number = len(attributes) + len(capacity)
    if number > MOST_ATTRIBUTES:
        rule = f"the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES}"
        problems.append(invalid(path, number, rule))
    values = sum(
        sum(len(attribute.get(field) or ()) for field in _LISTS) or 1
        for attribute in attributes.values()
    )
    if values > MOST_ATTRIBUTE_VALUES:
        rule = f"the total number of attribute values must not exceed {MOST_ATTRIBUTE_VALUES}"
        problems.append(invalid(path, values, rule))
    for name, attribute in attributes.items():
        problems += attribute_name(f"{path}.attributes", name)
        problems += _attribute(f"{path}.attributes[{name}]", attribute)
    shared = bool(device.get("allowMultipleAllocations"))
    for name, amount in capacity.items():
        problems += attribute_name(f"{path}.capacity", name)
        problems += _capacity(f"{path}.capacity[{name}]", amount, shared=shared)
    problems += each_item(f"{path}.taints", device.get("taints") or (), MOST_TAINTS, taint)
    consumed = device.get("consumesCounters") or ()
    problems += set_of(
        f"{path}.consumesCounters", consumed, MOST_CONSUMPTIONS, _counter_consumption, "counterSet"
    )
    problems += _nodes_of_device(path, device, each_chosen=each_chosen)
    return problems + binding_conditions(path, device)


def _nodes_of_device(path: str, device: Document, *, each_chosen: bool) -> Iterator[str]:
    fields = ("nodeName", "nodeSelector", "allNodes")
    present = [f"`{field}`" for field in fields if device.get(field)]
    if not each_chosen:
        rule = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
            "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
        )
        if any(device.get(field) is not None for field in fields):
            yield invalid(path, None, rule)
        return
    node = device.get("nodeName")
    if node == "":
        yield invalid(f"{path}.nodeName", node, "must not be empty")
    elif node is not None:
        yield from (invalid(f"{path}.nodeName", node, message) for message in dns_subdomain(node))
    if device.get("allNodes") is False:
        rule = "must be either unset or set to true"
        yield invalid(f"{path}.allNodes", value=False, detail=rule)
    rule = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
        "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    )
    if not present:
        yield required(path, rule)
    elif len(present) > 1:
        yield invalid(path, f"{{{', '.join(present)}}}", rule)


def _attribute(path: str, attribute: Document) -> Iterator[str]:
    values = {field: value for field, value in attribute.items() if value is not None}
    yield from (
        invalid(f"{path}.{field}", [], "must not be empty if specified")
        for field in _LISTS
        if values.get(field) == []
    )
    for field in ("string", "version"):
        if field in values:
            yield from _value(f"{path}.{field}", field, values[field])
        for i, value in enumerate(values.get(f"{field}s") or ()):
            yield from _value(f"{path}.{field}s[{i}]", field, value)
    if len(values) != 1:
        shown = values or ""
        yield invalid(path, shown, "exactly one value must be specified")


def _value(path: str, form: str, value: str) -> Iterator[str]:
    if form == "version" and not _VERSION.fullmatch(value):
        yield invalid(path, value, "must be a string compatible with semver.org spec 2.0.0")
    if len(value.encode()) > LONGEST_VALUE:
        yield too_long(path, LONGEST_VALUE)


def taint(path: str, item: Document) -> Iterator[str]:
    """Checks the taint of a device."""
    yield from qualified(f"{path}.key", item.get("key") or "")
    value, effect = item.get("value") or "", item.get("effect") or ""
    yield from (invalid(f"{path}.value", value, message) for message in label_value(value))
    if not effect:
        yield required(f"{path}.effect")
    elif effect not in EFFECTS:
        yield unsupported(f"{path}.effect", effect, EFFECTS)


def taint_rule(spec: Document, before: Document | None) -> Iterator[str]:
    """Checks a DeviceTaintRule. An update may keep an effect that this version does not know."""
    selecting, path = spec.get("deviceSelector") or {}, "spec.deviceSelector"
    for field, check in (("driver", driver_name), ("pool", pool_name), ("device", label_name)):
        if selecting.get(field) is not None:
            yield from check(f"{path}.{field}", selecting[field])
    item, was = spec.get("taint") or {}, ((before or {}).get("taint") or {}).get("effect")
    if before is not None and item.get("effect") == was:
        item = {**item, "effect": EFFECTS[0]}
    yield from taint("spec.taint", item)


def taint_rule_status(after: Document, _before: Document) -> Iterator[str]:
    conditions, path = (after.get("status") or {}).get("conditions") or (), "status.conditions"
    for i, condition in enumerate(conditions):
        for field in ("type", "status", "lastTransitionTime", "reason"):
            if not condition.get(field):
                yield required(f"{path}[{i}].{field}")
    yield from unique_keys(path, (condition.get("type") for condition in conditions))
    if len(conditions) > MOST_RULE_CONDITIONS:
        yield too_many(path, len(conditions), MOST_RULE_CONDITIONS)


def _counter_set(path: str, counter_set: Document) -> Iterator[str]:
    name = counter_set.get("name") or ""
    yield from label_name(f"{path}.name", name) if name else [required(f"{path}.name")]
    yield from _counters(f"{path}.counters", counter_set.get("counters") or {})


def _counter_consumption(path: str, consumption: Document) -> Iterator[str]:
    name = consumption.get("counterSet") or ""
    yield from label_name(f"{path}.counterSet", name) if name else [required(f"{path}.counterSet")]
    yield from _counters(f"{path}.counters", consumption.get("counters") or {})


def _counters(path: str, counters: Mapping[str, Any]) -> list[str]:
    if not counters:
        return [required(path)]
    if len(counters) > MOST_COUNTERS:
        return [too_many(path, len(counters), MOST_COUNTERS)]
    return [problem for name in counters for problem in label_name(path, name)]


# --------------------------------------------------------------------------------- shared capacity


def _capacity(path: str, capacity: Document, *, shared: bool) -> list[str]:
    """Checks a capacity. `shared` is True if the device may be allocated several times."""
    policy, place = capacity.get("requestPolicy"), f"{path}.requestPolicy"
    if policy is None:
        return []
    if not shared:
        return [forbidden(place, "allowMultipleAllocations must be true")]
    values, range_ = policy.get("validValues") or (), policy.get("validRange")
    if values and range_ is not None:
        rule = 'cannot specify "validValues" and "validRange" at the same time'
        return [forbidden(place, f"exactly one policy can be specified, {rule}")]
    default, most = policy.get("default"), capacity.get("value") or 0
    field = "validValues" if values else "validRange" if range_ is not None else ""
    if not field:
        return []
    if default is None:
        return [required(f"{place}.default", f"required when {field} is defined")]
    if values:
        return _valid_values(f"{place}.validValues", values, default, most)
    return _valid_range(f"{place}.validRange", range_ or {}, default, most)


def _valid_values(path: str, values: Sequence[Any], default: Any, most: Any) -> list[str]:
    amounts = [quantity.nano_value(value) for value in values]
    problems = [
        invalid(f"{path}[{i}]", str(values[i]), "values must be sorted in ascending order")
        for i in range(1, len(values))
        if amounts[i - 1] > amounts[i]
    ]
    limit = quantity.nano_value(most)

    def larger_amount(place: str, value: Any) -> list[str]:
        rule = f"option is larger than capacity value: {most}"
        return [invalid(place, str(value), rule)] if quantity.nano_value(value) > limit else []

    problems += each_item(path, values, MOST_VALID_VALUES, larger_amount)
    if len(values) <= MOST_VALID_VALUES:
        problems += unique_keys(path, (str(quantity.value(value)) for value in values))
    if quantity.nano_value(default) not in amounts:
        rule = "default value is not valid according to the requestPolicy"
        problems.append(invalid(path, str(default), rule))
    return problems


def _valid_range(path: str, range_: Document, default: Any, most: Any) -> list[str]:
    least, highest, step = (range_.get(field) for field in ("min", "max", "step"))
    if least is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    problems: list[str] = []

    def ordered(place: str, low: Any, high: Any, value: Any, rule: str) -> None:
        if quantity.nano_value(low) > quantity.nano_value(high):
            problems.append(invalid(f"{path}.{place}", str(value), rule))

    ordered("min", least, most, least, f"min is larger than capacity value: {most}")
    ordered("min", least, default, default, f"default is less than min: {least}")
    if highest is not None:
        ordered("max", least, highest, least, f"min is larger than max: {highest}")
        ordered("max", highest, most, highest, f"max is larger than capacity value: {most}")
        ordered("max", default, highest, default, f"default is more than max: {highest}")
    if step is not None:
        problems += _steps(f"{path}.step", least, highest, step, default, most)
    return problems


def _steps(path: str, least: Any, highest: Any, step: Any, default: Any, most: Any) -> list[str]:
    problems: list[str] = []
    added = quantity.nano_value(least) + quantity.nano_value(step)
    if added > quantity.nano_value(most):
        shown = added // 1_000_000_000
        rule = f"one step {shown} is larger than capacity value: {most}"
        problems.append(invalid(path, str(step), rule))
    size = quantity.value(step)
    if size <= 0:
        return [*problems, invalid(path, str(step), NOT_POSITIVE)]
    for value in (default, highest):
        if value is not None and (quantity.value(value) - quantity.value(least)) % size:
            rule = f"value is not a multiple of a given step ({step}) from ({least})"
            problems.append(invalid(path, str(value), rule))
    return problems

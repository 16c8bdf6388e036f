"""Rules for resource claims, their status and their templates."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from berth.actors.scheduling.kube.names import dns_subdomain, label_value

from ..types.schema import TYPES, canonical
from .device_rules import (
    EFFECTS,
    MOST_CONFIGS,
    binding_conditions,
    configuration,
    each_item,
    full_attribute_name,
    label_name,
    pool_name,
    qualified,
    raw_object,
    selectors,
    set_of,
    unique_keys,
)
from .fields import (
    IMMUTABLE,
    NOT_POSITIVE,
    Document,
    forbidden,
    invalid,
    labels,
    required,
    too_many,
    unsupported,
)
from .placement_rules import node_selector
from .value_forms import driver_name

MOST_REQUESTS = MOST_RESULTS = MOST_CONSTRAINTS = 32
MOST_ALTERNATIVES = 8
MOST_RESERVED = 256
MOST_DEVICE_CONDITIONS = 8
ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_MODES = ("All", "ExactCount")
_OPERATORS = ("Equal", "Exists")
_UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ONE_REQUEST = "exactly one of `exactly` or `firstAvailable` is required"
_REQUEST_RULE = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)
_CONSTRAINT_RULE = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are '
    "set"
)
_ADMIN_RULE = (
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the "
    "containing namespace"
)
Device = tuple[str, str, str, str]


def claim(spec: Document, before: Document | None) -> list[str]:
    """Checks a ResourceClaim without its status."""
    if before is not None:
        return _immutable("ResourceClaimSpec", "spec", spec, before)
    return _devices("spec.devices", spec.get("devices") or {})


def template(spec: Document, before: Document | None) -> Iterator[str]:
    if before is not None:
        yield from _immutable("ResourceClaimTemplateSpec", "spec", spec, before)
        return
    yield from labels("spec.metadata.labels", (spec.get("metadata") or {}).get("labels"))
    yield from _devices("spec.spec.devices", (spec.get("spec") or {}).get("devices") or {})


def _immutable(type_: str, path: str, after: Document, before: Document) -> list[str]:
    same = canonical(TYPES[type_], after) == canonical(TYPES[type_], before)
    return [] if same else [invalid(path, after, IMMUTABLE)]


def _devices(path: str, devices: Document) -> list[str]:
    """Checks the requests of a claim, with its constraints and configurations."""
    requests = devices.get("requests") or ()
    names = _names(requests)
    problems = set_of(f"{path}.requests", requests, MOST_REQUESTS, _request, "name")
    problems += each_item(
        f"{path}.constraints",
        devices.get("constraints") or (),
        MOST_CONSTRAINTS,
        lambda place, constraint: _constraint(place, constraint, names),
    )
    return problems + each_item(
        f"{path}.config",
        devices.get("config") or (),
        MOST_CONFIGS,
        lambda place, config: (
            _request_references(place, config, names) + configuration(place, config)
        ),
    )


def _names(requests: Iterable[Document]) -> dict[str, set[str]]:
    """Returns the names of the requests, each with the names of its subrequests."""
    return {
        request.get("name") or "": {
            alternative.get("name") or "" for alternative in request.get("firstAvailable") or ()
        }
        for request in requests
    }


def _request(path: str, request: Document) -> Iterator[str]:
    yield from label_name(f"{path}.name", request.get("name") or "")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or ()
    if exactly is None and not alternatives:
        yield required(path, _ONE_REQUEST)
    elif exactly is not None and alternatives:
        yield invalid(path, None, f"{_ONE_REQUEST}, but multiple fields are set")
    elif exactly is not None:
        yield from _device_request(f"{path}.exactly", exactly)
    else:
        yield from set_of(
            f"{path}.firstAvailable", alternatives, MOST_ALTERNATIVES, _alternative, "name"
        )


def _alternative(path: str, request: Document) -> list[str]:
    return label_name(f"{path}.name", request.get("name") or "") + _device_request(path, request)


def _device_request(path: str, request: Document) -> list[str]:
    name, place = request.get("deviceClassName") or "", f"{path}.deviceClassName"
    problems = [invalid(place, name, message) for message in dns_subdomain(name)]
    if not name:
        problems = [required(place)]
    problems += selectors(f"{path}.selectors", request.get("selectors") or ())
    mode, count = request.get("allocationMode") or "", request.get("count") or 0
    if mode not in _MODES:
        problems.append(unsupported(f"{path}.allocationMode", mode, _MODES))
    elif mode == "All" and count:
        rule = "must not be specified when allocationMode is 'All'"
        problems.append(invalid(f"{path}.count", count, rule))
    elif mode == "ExactCount" and count <= 0:
        problems.append(invalid(f"{path}.count", count, NOT_POSITIVE))
    for i, toleration in enumerate(request.get("tolerations") or ()):
        problems += _toleration(f"{path}.tolerations[{i}]", toleration)
    return problems


def _toleration(path: str, toleration: Document) -> Iterator[str]:
    if toleration.get("key"):
        yield from qualified(f"{path}.key", toleration["key"])
    operator, value = toleration.get("operator") or "", toleration.get("value") or ""
    if operator == "Exists":
        if value:
            yield invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from (invalid(f"{path}.value", value, message) for message in label_value(value))
    else:
        yield unsupported(f"{path}.operator", operator, _OPERATORS)
    effect = toleration.get("effect") or ""
    if effect and effect not in EFFECTS:
        yield unsupported(f"{path}.effect", effect, EFFECTS)


def _constraint(path: str, constraint: Document, names: Mapping[str, set[str]]) -> list[str]:
    problems = _request_references(path, constraint, names)
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match is not None:
        problems += full_attribute_name(f"{path}.matchAttribute", match)
    elif distinct is not None:
        problems += full_attribute_name(f"{path}.distinctAttribute", distinct)
    else:
        problems.append(required(path, _CONSTRAINT_RULE))
    return problems


def _request_references(path: str, referrer: Document, names: Mapping[str, set[str]]) -> list[str]:
    """Checks the references to requests in a constraint or a configuration."""
    return set_of(
        f"{path}.requests",
        referrer.get("requests") or (),
        MOST_REQUESTS,
        lambda place, name: _request_name(place, name, names),
    )


def _request_name(path: str, name: str, names: Mapping[str, set[str]]) -> list[str]:
    """Checks a reference to a request, or to one of its subrequests: `<request>/<subrequest>`."""
    segments = name.split("/")
    if len(segments) > 2:
        return [invalid(path, name, _REQUEST_RULE)]
    problems = [problem for segment in segments for problem in label_name(path, segment)]
    exists = segments[0] in names and (len(segments) == 1 or segments[1] in names[segments[0]])
    return problems if exists else [*problems, invalid(path, name, _REQUEST_RULE)]


# ------------------------------------------------------------------------------------------- status


def status(document: Document, before: Document) -> list[str]:
    """Returns the problems of an update of a claim's status; both arguments are whole claims."""
    after, was = document.get("status") or {}, before.get("status") or {}
    reserved, allocation = after.get("reservedFor") or (), after.get("allocation")
    problems = set_of("status.reservedFor", reserved, MOST_RESERVED, _consumer, "uid")
    devices = after.get("devices") or ()
    allocated = _allocated_devices(allocation)
    for i, device in enumerate(devices):
        problems += _device_status(f"status.devices[{i}]", device, allocated)
    problems += unique_keys("status.devices", map(device_id, devices))
    if reserved and allocation is None:
        rule = "may not be specified when `allocated` is not set"
        problems.append(forbidden("status.reservedFor", rule))
    elif "deletionTimestamp" in before["metadata"]:
        had = was.get("reservedFor") or ()
        if any(consumer not in had for consumer in reserved):
            rule = (
                "new entries may not be added while `deallocationRequested` or "
                "`deletionTimestamp` are set"
            )
            problems.append(forbidden("status.reservedFor", rule))
    if allocation is not None and was.get("allocation") is not None:
        return problems + _immutable(
            "AllocationResult", "status.allocation", allocation, was["allocation"]
        )
    if allocation is not None:
        requests = ((document.get("spec") or {}).get("devices") or {}).get("requests") or ()
        problems += _allocation("status.allocation", allocation, _names(requests))
    return problems


def device_id(allocated: Document) -> Device:
    """Returns the identity of an allocated device: driver, pool, device and, if it is shared, the
    share.
    """
    driver, pool, device, share = (
        allocated.get(field) or "" for field in ("driver", "pool", "device", "shareID")
    )
    return driver, pool, device, share


def _allocated_devices(allocation: Document | None) -> set[Device]:
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    return {device_id(result) for result in results}


def without_deallocated(after: Document, before: Document) -> Document:
    """Returns a claim's new status, without the status of devices that are no longer allocated to
    the claim.
    """
    gone = _allocated_devices(before.get("allocation")) - _allocated_devices(
        after.get("allocation")
    )
    devices = [device for device in after.get("devices") or () if device_id(device) not in gone]
    kept = {field: value for field, value in after.items() if field != "devices"}
    return {**kept, "devices": devices} if devices else kept


def _consumer(path: str, consumer: Document) -> list[str]:
    return [
        required(f"{path}.{field}")
        for field in ("resource", "name", "uid")
        if not consumer.get(field)
    ]


def _device_status(path: str, device: Document, allocated: Collection[Device]) -> Iterator[str]:
    yield from _identity(path, device)
    if device_id(device) not in allocated:
        shown = "/".join(part for part in device_id(device) if part)
        yield invalid(path, shown, "must be an allocated device in the claim")
    conditions = device.get("conditions") or ()
    if len(conditions) > MOST_DEVICE_CONDITIONS:
        place = f"{path}.conditions"
        yield too_many(place, len(conditions), MOST_DEVICE_CONDITIONS)
    if device.get("data") is not None:
        yield from raw_object(f"{path}.data", device["data"])


def _identity(path: str, device: Document) -> list[str]:
    problems = driver_name(f"{path}.driver", device.get("driver") or "")
    problems += pool_name(f"{path}.pool", device.get("pool") or "")
    problems += label_name(f"{path}.device", device.get("device") or "")
    share = device.get("shareID")
    if share is not None and not _UID.fullmatch(share):
        rule = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with "
            "lowercase hexadecimal characters"
        )
        problems.append(invalid(f"{path}.shareID", share, rule))
    return problems


def _allocation(path: str, allocation: Document, names: Mapping[str, set[str]]) -> list[str]:
    devices = allocation.get("devices") or {}

    def result(place: str, entry: Document) -> list[str]:
        problems = _request_name(f"{place}.request", entry.get("request") or "", names)
        return problems + _identity(place, entry) + binding_conditions(place, entry)

    def config(place: str, entry: Document) -> list[str]:
        source, sources = entry.get("source") or "", ("FromClaim", "FromClass")
        problems = [] if source else [required(f"{place}.source")]
        if source and source not in sources:
            problems.append(unsupported(f"{place}.source", source, sources))
        return problems + _request_references(place, entry, names) + configuration(place, entry)

    results, configs = devices.get("results") or (), devices.get("config") or ()
    problems = each_item(f"{path}.devices.results", results, MOST_RESULTS, result)
    problems += each_item(f"{path}.devices.config", configs, 2 * MOST_CONFIGS, config)
    if allocation.get("nodeSelector") is not None:
        problems += node_selector(f"{path}.nodeSelector", allocation["nodeSelector"])
    return problems


# ------------------------------------------------------------------------------------- admin access


def admin_requests(path: str, requests: Sequence[Document]) -> list[str]:
    """Returns the refusals of requests for admin access in a namespace without ADMIN_LABEL."""
    return [
        forbidden(f"{path}[{i}].exactly.adminAccess", _ADMIN_RULE)
        for i, request in enumerate(requests)
        if (request.get("exactly") or {}).get("adminAccess")
    ]


def admin_results(after: Document, before: Document) -> list[str]:
    """Returns the refusals of new allocation results with admin access in a namespace without
    ADMIN_LABEL.
    """
    new, old = (
        ((claim.get("allocation") or {}).get("devices") or {}).get("results") or []
        for claim in (after, before)
    )
    if new == old:
        return []
    path = "status.allocation.devices.results"
    return [
        forbidden(f"{path}[{i}].adminAccess", _ADMIN_RULE)
        for i, result in enumerate(new)
        if result.get("adminAccess")
    ]


def has_admin_label(namespace: Mapping[str, Any] | None) -> bool:
    metadata = (namespace or {}).get("metadata") or {}
    return (metadata.get("labels") or {}).get(ADMIN_LABEL) == "true"

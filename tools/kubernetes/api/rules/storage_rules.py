"""Rules for claims, volumes, storage classes, CSI drivers, CSI nodes and attachments."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import Any

from berth.actors.scheduling.kube import quantity
from berth.actors.scheduling.kube.names import dns_subdomain, qualified_name

from ..types.schema import TYPES, canonical
from .fields import (
    IMMUTABLE,
    NOT_POSITIVE,
    Document,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unchanged,
    unsupported,
)
from .volume_rules import one_source, sources_of

_CLAIM_RULE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims"
)
_SOURCES = sources_of("PersistentVolumeSpec")
_FINAL = {  # the names of labels that were beta once
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
}
_PARAMETER_BYTES, _MOST_PARAMETERS = 256 << 10, 512
_NODE_ID_BYTES = 256
_LEAST_UPDATE_SECONDS = 10


def claim(path: str, spec: Document) -> list[str]:
    """Checks the spec of a PersistentVolumeClaim, also in a template."""
    problems = [] if spec.get("accessModes") else [required(f"{path}.accessModes", _ONE_MODE)]
    problems += _access_modes(path, spec)
    requested = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if requested is None:
        problems.append(required(f"{path}.resources[storage]"))
    elif quantity.nano_value(requested) <= 0:
        problems.append(invalid(f"{path}.resources[storage]", str(requested), NOT_POSITIVE))
    return problems + _data_sources(path, spec)


_ONE_MODE = "at least 1 access mode is required"


def _data_sources(path: str, spec: Document) -> list[str]:
    problems: list[str] = []
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, value in (("dataSource", source), ("dataSourceRef", reference)):
        if value is None:
            continue
        place, group, kind = f"{path}.{field}", value.get("apiGroup"), value.get("kind") or ""
        problems += [
            required(f"{place}.{part}") for part in ("name", "kind") if not value.get(part)
        ]
        if not group and kind != "PersistentVolumeClaim":
            detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            problems.append(invalid(place, kind, detail))
        if group:
            messages = dns_subdomain(group)
            problems += [invalid(f"{place}.apiGroup", group, message) for message in messages]
    if source is None or reference is None:
        return problems
    if any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        # the message shows the path itself as the value, which has no fields to show
        problems.append(invalid(path, {}, "must match dataSourceRef"))
    return problems


def claim_update(document: Document, before: Document) -> Iterator[str]:
    """Checks that a claim keeps its spec. Once bound, it may change its size and attributes;
    binding sets its volume, and its class if it names none.
    """
    spec, was = document.get("spec") or {}, before.get("spec") or {}
    if spec == was:
        return
    is_bound = (document.get("status") or {}).get("phase") == "Bound"
    kept, had = (_immutable_fields(version, is_bound=is_bound) for version in (spec, was))
    for field in ("volumeName", "storageClassName"):
        if field not in had:
            kept.pop(field, None)
    if kept != had:
        yield forbidden("spec", _CLAIM_RULE)
    asked, asked_before = (
        _storage_amount((each.get("resources") or {}).get("requests")) for each in (spec, was)
    )
    if asked < asked_before and asked <= _storage_amount(
        (before.get("status") or {}).get("capacity")
    ):
        place = "spec.resources.requests.storage"
        yield forbidden(place, "field can not be less than status.capacity")
    yield from unchanged("volumeMode", spec.get("volumeMode"), was.get("volumeMode"))


def _storage_amount(amounts: Document | None) -> int:
    return quantity.nano_value((amounts or {}).get("storage") or 0)


def _immutable_fields(spec: Document, *, is_bound: bool) -> dict[str, Any]:
    fields: dict[str, Any] = canonical(TYPES["PersistentVolumeClaimSpec"], spec)
    if is_bound:
        fields.get("resources", {}).get("requests", {}).pop("storage", None)
        fields.pop("volumeAttributesClassName", None)
    return fields


def volume(path: str, spec: Document) -> Iterator[str]:
    """Checks the spec of a PersistentVolume."""
    yield from _access_modes(path, spec)
    capacity = spec.get("capacity") or {}
    if not capacity:
        yield required(f"{path}.capacity")
    if list(capacity) != ["storage"]:
        yield unsupported(f"{path}.capacity", dict(sorted(capacity.items())), ("storage",))
    for name, amount in capacity.items():
        place, nano = f"{path}.capacity[{name}]", quantity.nano_value(amount)
        if nano < 0:
            value = -(-nano // 1_000_000_000)
            yield invalid(place, value, "must be a valid resource quantity")
        if nano <= 0:
            yield invalid(place, str(amount), NOT_POSITIVE)
    affinity = spec.get("nodeAffinity")
    if affinity is not None and affinity.get("required") is None:
        yield required(f"{path}.nodeAffinity.required", "must specify required node constraints")
    yield from one_source(path, spec, _SOURCES)
    if spec.get("local") is not None and not (affinity or {}).get("required"):
        yield required(f"{path}.nodeAffinity", "Local volume requires node affinity")
    recycled = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if recycled and posixpath.normpath((spec.get("hostPath") or {}).get("path") or "") == "/":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        yield forbidden(f"{path}.persistentVolumeReclaimPolicy", detail)
    yield from _attributes(path, spec)


def _attributes(path: str, spec: Document) -> Iterator[str]:
    name, place = spec.get("volumeAttributesClassName"), f"{path}.volumeAttributesClassName"
    if name is None:
        return
    yield from (invalid(place, name, message) for message in (dns_subdomain(name) if name else ()))
    if not name:
        yield required(place, "an empty string is disallowed")
    if spec.get("csi") is None:
        yield required(f"{path}.csi", "has to be specified when using volumeAttributesClassName")


def volume_update(spec: Document, before: Document) -> list[str]:
    problems: list[str] = []
    if any(spec.get(field) != before.get(field) for field in _SOURCES):
        path = "spec.persistentvolumesource"
        problems.append(forbidden(path, "spec.persistentvolumesource is immutable after creation"))
    problems += unchanged("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
    after, was = spec.get("nodeAffinity"), before.get("nodeAffinity")
    if was is not None and not _is_renamed(after, was):
        detail = f"{IMMUTABLE}, except for updating from beta label to GA"
        problems.append(invalid("nodeAffinity", after, detail))
    attributes = "volumeAttributesClassName"
    if before.get(attributes) is not None and spec.get(attributes) is None:
        detail = "update from non-nil value to nil is forbidden"
        problems.append(forbidden(f"spec.{attributes}", detail))
    return problems


def _is_renamed(after: Any, before: Any) -> bool:
    """True if two affinities are equal except for beta labels that one of them has under their
    final names.
    """
    if isinstance(after, dict) and isinstance(before, dict):
        return after.keys() == before.keys() and all(
            _is_renamed(after[field], value) for field, value in before.items()
        )
    if isinstance(after, list) and isinstance(before, list):
        return len(after) == len(before) and all(map(_is_renamed, after, before))
    return bool(after == before or (isinstance(before, str) and _FINAL.get(before) == after))


def _access_modes(path: str, spec: Document) -> list[str]:
    modes = spec.get("accessModes") or ()
    if "ReadWriteOncePod" not in modes or len(set(modes)) == 1:
        return []
    detail = "may not use ReadWriteOncePod with other access modes"
    return [forbidden(f"{path}.accessModes", detail)]


def attributes_class(document: Document, _before: Document | None) -> list[str]:
    """Checks that a VolumeAttributesClass has parameters."""
    detail = "must contain at least one key/value pair"
    return [] if document.get("parameters") else [required("parameters", detail)]


def storage_class(_path: str, document: Document) -> Iterator[str]:
    """Checks the parameters and the topologies of a StorageClass."""
    parameters = document.get("parameters") or {}
    if len(parameters) > _MOST_PARAMETERS:
        yield too_long("parameters", _MOST_PARAMETERS)
        return
    if "" in parameters:
        yield invalid("parameters", "", "field can not be empty.")
    size = sum(len(f"{key}{value or ''}".encode()) for key, value in parameters.items())
    if size > _PARAMETER_BYTES:
        yield too_long("parameters", _PARAMETER_BYTES)
    yield from _allowed_topologies(document.get("allowedTopologies") or ())


def _allowed_topologies(terms: Iterable[Document]) -> Iterator[str]:
    seen: list[dict[str, set[str]]] = []
    for i, term in enumerate(terms):
        keys: dict[str, set[str]] = {}
        for j, expression in enumerate(term.get("matchLabelExpressions") or ()):
            path = f"allowedTopologies[{i}].matchLabelExpressions[{j}]"
            key, values = expression.get("key") or "", expression.get("values") or ()
            if not values:
                yield required(f"{path}.values")
            yield from (
                duplicate(f"{path}.values[{n}]", value)
                for n, value in enumerate(values)
                if value in values[:n]
            )
            yield from (invalid(f"{path}.key", key, message) for message in qualified_name(key))
            if key in keys:
                yield duplicate(f"{path}.key", key)
            keys[key] = set(values)
        if keys in seen:
            path = f"allowedTopologies[{i}].matchLabelExpressions"
            yield duplicate(path, "")
        seen.append(keys)


def csi_driver(path: str, spec: Document) -> list[str]:
    """Checks how often a driver updates its number of allocatable volumes, and that tokens in
    secrets are requested.
    """
    problems: list[str] = []
    seconds, tokens = spec.get("nodeAllocatableUpdatePeriodSeconds"), spec.get("tokenRequests")
    if seconds is not None and seconds < _LEAST_UPDATE_SECONDS:
        detail = f"must be greater than or equal to {_LEAST_UPDATE_SECONDS} seconds"
        place = f"{path}.nodeAllocatableUpdatePeriodSeconds"
        problems.append(invalid(place, seconds, detail))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not tokens:
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        problems.append(invalid(f"{path}.serviceAccountTokenInSecrets", in_secrets, detail))
    return problems


def volume_attachment(path: str, spec: Document) -> list[str]:
    """Checks that the source is either the name of a volume or the spec of one."""
    source, path = spec.get("source") or {}, f"{path}.source"
    inline, named = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    rule = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and named is None:
        return [required(path, rule)]
    if inline is not None and named is not None:
        return [forbidden(path, rule)]
    place = f"{path}.persistentVolumeName"
    if named is None:
        return []
    empty = [] if named else [required(place, "must specify non empty persistentVolumeName")]
    return empty + [invalid(place, named, message) for message in dns_subdomain(named)]


def csi_node_driver(path: str, driver: Document) -> Iterator[str]:
    """Checks the length of the node id, and that no topology key occurs twice."""
    if len((driver.get("nodeID") or "").encode()) > _NODE_ID_BYTES:
        detail = f"must be {_NODE_ID_BYTES} characters or less"
        yield invalid(f"{path}.nodeID", driver["nodeID"], detail)
    keys = driver.get("topologyKeys") or ()
    for i, key in enumerate(keys):
        if not key:
            yield required(path, key)
        if key in keys[:i]:
            yield duplicate(path, key)
        yield from (invalid(path, key, message) for message in qualified_name(key))


def csi_node_update(spec: Document, before: Document) -> Iterator[str]:
    """Checks that the drivers which stay keep all fields but the number of allocatable volumes."""
    had = {driver.get("name"): driver for driver in before.get("drivers") or ()}
    for driver in spec.get("drivers") or ():
        fixed, was = (
            {field: value for field, value in version.items() if field != "allocatable"}
            for version in (driver, had.get(driver.get("name"), driver))
        )
        yield from unchanged("spec.drivers", fixed, was)

"""Rules for claims, volumes, storage classes and CSI nodes."""

from __future__ import annotations

from typing import Any

from berth.actors.scheduling.kube import quantity
from berth.tools.apiserver.rules.fields import (
    NOT_POSITIVE,
    Document,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    label_selector,
    one_of,
    required,
    unchanged,
    unsupported,
)
from berth.tools.apiserver.rules.placement import node_selector
from berth.tools.apiserver.schema import TYPES, canonical

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_CLAIM_RULE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims"
)
_SOURCES = {  # the fields of a volume's spec that define where it is stored
    field
    for field, known in (TYPES["PersistentVolumeSpec"].fields or {}).items()
    if known.shape.fields is not None and field not in ("claimRef", "nodeAffinity")
}


def claim(spec: Document, before: Document | None) -> list[str]:
    """A PersistentVolumeClaim."""
    problems = _access_modes(spec, "at least 1 access mode is required")
    problems += label_selector("spec.selector", spec.get("selector"))
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if asked is None:
        problems.append(required("spec.resources[storage]"))
    elif quantity.nano_value(asked) <= 0:
        problems.append(invalid("spec.resources[storage]", str(asked), NOT_POSITIVE))
    problems += _class_name(spec)
    problems += one_of("spec.volumeMode", spec.get("volumeMode"), ("Block", "Filesystem"))
    if before is not None and spec != before:
        kept, had = (_kept(one) for one in (spec, before))
        if "volumeName" not in had:  # binding sets it, and the class if the claim omits it
            kept.pop("volumeName", None)
        if "storageClassName" not in had:
            kept.pop("storageClassName", None)
        problems += [forbidden("spec", _CLAIM_RULE)] if kept != had else []
    return problems


def _kept(spec: Document) -> dict[str, Any]:
    found: dict[str, Any] = canonical(TYPES["PersistentVolumeClaimSpec"], spec)
    resources = found.get("resources", {})
    resources.pop("requests", None)
    if not resources:
        found.pop("resources", None)
    found.pop("volumeAttributesClassName", None)
    return found


def volume(spec: Document, before: Document | None) -> list[str]:
    """A PersistentVolume."""
    problems = _access_modes(spec, "")
    capacity = spec.get("capacity") or {}
    if not capacity:
        problems.append(required("spec.capacity"))
    elif list(capacity) != ["storage"]:
        problems.append(unsupported("spec.capacity", capacity, ("storage",)))
    problems += [
        invalid(f"spec.capacity[{name}]", str(amount), NOT_POSITIVE)
        for name, amount in capacity.items()
        if quantity.nano_value(amount) <= 0
    ]
    policies = ("Delete", "Recycle", "Retain")
    problems += one_of(
        "spec.persistentVolumeReclaimPolicy", spec.get("persistentVolumeReclaimPolicy"), policies
    )
    problems += one_of("spec.volumeMode", spec.get("volumeMode"), ("Block", "Filesystem"))
    if affinity := spec.get("nodeAffinity"):
        if affinity.get("required") is None:
            problems.append(
                required("spec.nodeAffinity.required", "must specify required node constraints")
            )
        else:
            problems += node_selector("spec.nodeAffinity.required", affinity["required"])
    sources = [field for field in spec if field in _SOURCES and spec[field] is not None]
    if not sources:
        problems.append(required("spec", "must specify a volume type"))
    problems += [
        forbidden(f"spec.{field}", "may not specify more than 1 volume type")
        for field in sources[1:]
    ]
    problems += _class_name(spec)
    if before is not None and any(spec.get(field) != before.get(field) for field in _SOURCES):
        path = "spec.persistentvolumesource"
        problems.append(forbidden(path, "spec.persistentvolumesource is immutable after creation"))
    return problems


def _access_modes(spec: Document, detail: str) -> list[str]:
    modes = spec.get("accessModes") or ()
    problems = [] if modes else [required("spec.accessModes", detail)]
    problems += [
        unsupported("spec.accessModes", mode, _MODES) for mode in modes if mode not in _MODES
    ]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        problems.append(forbidden("spec.accessModes", detail))
    return problems


def _class_name(spec: Document) -> list[str]:
    name = spec.get("storageClassName")
    return (
        [invalid("spec.storageClassName", name, message) for message in dns_subdomain(name)]
        if name
        else []
    )


def storage_class(document: Document, before: Document | None) -> list[str]:
    problems = [] if document.get("provisioner") else [required("provisioner")]
    modes = ("Immediate", "WaitForFirstConsumer")
    problems += one_of("volumeBindingMode", document.get("volumeBindingMode"), modes)
    problems += one_of("reclaimPolicy", document.get("reclaimPolicy"), ("Delete", "Retain"))
    if before is not None:
        if (document.get("parameters") or {}) != (before.get("parameters") or {}):
            problems.append(forbidden("parameters", "updates to parameters are forbidden."))
        if document.get("provisioner") != before.get("provisioner"):
            problems.append(forbidden("provisioner", "updates to provisioner are forbidden."))
        for field, default in (("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")):
            after, was = document.get(field) or default, before.get(field) or default
            problems += unchanged(field, after, was)
    return problems


def csi_node(spec: Document) -> list[str]:
    problems: list[str] = []
    names: set[str] = set()
    for i, driver in enumerate(spec.get("drivers") or ()):
        path, name = f"spec.drivers[{i}]", driver.get("name") or ""
        if not name:
            problems.append(required(f"{path}.name"))
        if name in names:
            problems.append(duplicate(f"{path}.name", name))
        names.add(name)
        if not driver.get("nodeID"):
            problems.append(required(f"{path}.nodeID"))
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None and count < 0:
            problems.append(
                invalid(f"{path}.allocatable.count", count, "must be greater than or equal to 0")
            )
    return problems

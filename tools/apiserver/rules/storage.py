"""Rules for claims, volumes, storage classes, CSI drivers and nodes, and attachments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from berth.actors.scheduling.kube import quantity
from berth.actors.scheduling.kube.names import dns_subdomain, qualified_name

from ..schema import TYPES, canonical
from .fields import (
    NEGATIVE,
    NOT_POSITIVE,
    Document,
    duplicate,
    forbidden,
    invalid,
    label_selector,
    one_of,
    required,
    too_long,
    unchanged,
    unsupported,
)
from .placement import node_selector

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_CLAIM_RULE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims"
)
_SOURCES = {  # the fields of a volume's spec that define where it is stored
    field
    for field, type_ in (TYPES["PersistentVolumeSpec"].fields or {}).items()
    if type_.shape.fields is not None and field not in ("claimRef", "nodeAffinity")
}


def claim(spec: Document, before: Document | None) -> list[str]:
    """Checks a PersistentVolumeClaim."""
    problems = _access_modes(spec, "at least 1 access mode is required")
    problems += label_selector("spec.selector", spec.get("selector"))
    requested = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if requested is None:
        problems.append(required("spec.resources[storage]"))
    elif quantity.nano_value(requested) <= 0:
        problems.append(invalid("spec.resources[storage]", str(requested), NOT_POSITIVE))
    problems += _class_name(spec)
    problems += one_of("spec.volumeMode", spec.get("volumeMode"), ("Block", "Filesystem"))
    if before is not None and spec != before:
        kept, had = (_kept(version) for version in (spec, before))
        if "volumeName" not in had:  # binding sets it, and the class if the claim omits it
            kept.pop("volumeName", None)
        if "storageClassName" not in had:
            kept.pop("storageClassName", None)
        problems += [forbidden("spec", _CLAIM_RULE)] if kept != had else []
    return problems


def _kept(spec: Document) -> dict[str, Any]:
    fields: dict[str, Any] = canonical(TYPES["PersistentVolumeClaimSpec"], spec)
    resources = fields.get("resources", {})
    resources.pop("requests", None)
    if not resources:
        fields.pop("resources", None)
    fields.pop("volumeAttributesClassName", None)
    return fields


def volume(spec: Document, before: Document | None) -> list[str]:
    """Checks a PersistentVolume."""
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
    if (csi := spec.get("csi")) is not None:
        problems += driver_name("spec.csi.driver", csi.get("driver") or "")
        problems += [] if csi.get("volumeHandle") else [required("spec.csi.volumeHandle")]
    problems += _class_name(spec)
    if before is not None:
        problems += _volume_update(spec, before)
    return problems


def _volume_update(spec: Document, before: Document) -> list[str]:
    problems: list[str] = []
    if any(spec.get(field) != before.get(field) for field in _SOURCES):
        path = "spec.persistentvolumesource"
        problems.append(forbidden(path, "spec.persistentvolumesource is immutable after creation"))
    problems += unchanged("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
    if before.get("nodeAffinity") is not None:
        after, was = spec.get("nodeAffinity"), before["nodeAffinity"]
        problems += unchanged("nodeAffinity", after, was)
    return problems


def driver_name(path: str, name: str) -> list[str]:
    """Checks the name of a CSI driver: a DNS subdomain, in which capitals are allowed."""
    if not name:
        return [required(path)]
    problems = [too_long(path, 63)] if len(name) > 63 else []
    return problems + [invalid(path, name, message) for message in dns_subdomain(name.lower())]


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
    problems += _allowed_topologies(document.get("allowedTopologies") or ())
    if before is not None:
        if (document.get("parameters") or {}) != (before.get("parameters") or {}):
            problems.append(forbidden("parameters", "updates to parameters are forbidden."))
        if document.get("provisioner") != before.get("provisioner"):
            problems.append(forbidden("provisioner", "updates to provisioner are forbidden."))
        for field, default in (("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")):
            after, was = document.get(field) or default, before.get(field) or default
            problems += unchanged(field, after, was)
    return problems


def _allowed_topologies(terms: Iterable[Document]) -> list[str]:
    problems: list[str] = []
    seen: list[dict[str, set[str]]] = []
    for i, term in enumerate(terms):
        keys: dict[str, set[str]] = {}
        for j, expression in enumerate(term.get("matchLabelExpressions") or ()):
            path = f"allowedTopologies[{i}].matchLabelExpressions[{j}]"
            key, values = expression.get("key") or "", expression.get("values") or ()
            if not values:
                problems.append(required(f"{path}.values"))
            problems += [
                duplicate(f"{path}.values[{n}]", value)
                for n, value in enumerate(values)
                if value in values[:n]
            ]
            problems += [invalid(f"{path}.key", key, message) for message in qualified_name(key)]
            if key in keys:
                problems.append(duplicate(f"{path}.key", key))
            keys[key] = set(values)
        if keys in seen:
            path = f"allowedTopologies[{i}].matchLabelExpressions"
            problems.append(duplicate(path, ""))
        seen.append(keys)
    return problems


def csi_driver(spec: Document, before: Document | None) -> list[str]:
    problems = one_of(
        "spec.fsGroupPolicy",
        spec.get("fsGroupPolicy"),
        ("File", "None", "ReadWriteOnceWithFSType"),
    )
    for mode in spec.get("volumeLifecycleModes") or ():
        problems += one_of("spec.volumeLifecycleModes", mode, ("Ephemeral", "Persistent"))
    if before is not None:
        for field, path in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes",) * 2):
            problems += unchanged(f"spec.{path}", spec.get(field), before.get(field))
    return problems


def storage_capacity(document: Document, before: Document | None) -> list[str]:
    """Checks a CSIStorageCapacity."""
    problems = label_selector("nodeTopology", document.get("nodeTopology"))
    name = document.get("storageClassName") or ""
    problems += [invalid("storageClassName", name, message) for message in dns_subdomain(name)]
    capacity = document.get("capacity")
    if capacity is not None and quantity.nano_value(capacity) < 0:
        problems.append(invalid("capacity", str(capacity), NEGATIVE))
    if before is not None:
        for field in ("nodeTopology", "storageClassName"):
            problems += unchanged(field, document.get(field), before.get(field))
    return problems


def volume_attachment(spec: Document, before: Document | None) -> list[str]:
    problems = driver_name("spec.attacher", spec.get("attacher") or "")
    source = spec.get("source") or {}
    inline, named = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    rule = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and named is None:
        problems.append(required("spec.source", rule))
    elif inline is not None and named is not None:
        problems.append(forbidden("spec.source", rule))
    elif named is not None:
        path = "spec.source.persistentVolumeName"
        problems += [] if named else [required(path, "must specify non empty persistentVolumeName")]
    node = spec.get("nodeName") or ""
    problems += [invalid("spec.nodeName", node, message) for message in dns_subdomain(node)]
    return problems if before is None else problems + unchanged("spec", spec, before)


def csi_node(spec: Document, before: Document | None) -> list[str]:
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
    had = {driver.get("name"): driver for driver in (before or {}).get("drivers") or ()}
    for driver in spec.get("drivers") or ():
        fixed, was = (
            {field: value for field, value in version.items() if field != "allocatable"}
            for version in (driver, had.get(driver.get("name"), driver))
        )
        problems += unchanged("spec.drivers", fixed, was)
    return problems

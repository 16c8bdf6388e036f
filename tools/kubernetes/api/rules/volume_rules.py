"""Rules across the fields of volumes and their sources, of pods and of PersistentVolumes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from berth.actors.scheduling.kube import quantity
from berth.actors.scheduling.kube.names import dns_subdomain

from ..types.schema import TYPES
from .container_rules import object_field, resource_field
from .fields import (
    Document,
    forbidden,
    invalid,
    labels,
    required,
    unsupported,
)
from .value_forms import local_path

_IN_DOWNWARD = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_DISKS = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/"
_MANAGED_DISK = f"{_DISKS}{{disk-id}}"
_BLOB_DISK = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_MOST_ISCSI_NAME = 64


def sources_of(type_: str) -> tuple[str, ...]:
    """Returns the fields of a type that are volume sources, in Kubernetes' order."""
    named = {
        name: field.numbers
        for name, field in (TYPES[type_].fields or {}).items()
        if field.shape.fields is not None and name not in ("claimRef", "nodeAffinity")
    }
    first = ("hostPath", "emptyDir")
    rank = {name: first.index(name) if name in first else -1 for name in named}
    return tuple(sorted(named, key=lambda name: (-rank[name], named[name])))


_SOURCES = sources_of("Volume")


def one_source(path: str, value: Document, sources: Sequence[str]) -> list[str]:
    """Checks that a volume has exactly one of these sources."""
    given = [field for field in sources if value.get(field) is not None]
    if not given:
        return [required(path, "must specify a volume type")]
    rule = "may not specify more than 1 volume type"
    return [forbidden(f"{path}.{field}", rule) for field in given[1:]]


def volume(path: str, value: Document) -> Iterator[str]:
    """Checks that a volume of a pod has exactly one source."""
    yield from one_source(path, value, _SOURCES)
    iscsi, name = value.get("iscsi") or {}, value.get("name") or ""
    full = f"{name}:{iscsi.get('targetPortal') or ''}"
    if iscsi.get("initiatorName") is not None and len(full.encode()) > _MOST_ISCSI_NAME:
        yield invalid(f"{path}.name", name, _ISCSI_RULE)


_ISCSI_RULE = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    "if iscsi.initiatorName is specified."
)


def empty_dir(path: str, value: Document) -> list[str]:
    """Checks that the size limit is not negative."""
    limit = value.get("sizeLimit")
    if limit is None or quantity.nano_value(limit) >= 0:
        return []
    return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]


def iscsi(path: str, value: Document) -> list[str]:
    """Checks that there is a secret if discovery or sessions use authentication."""
    secret = value.get("secretRef")
    if (value.get("chapAuthDiscovery") or value.get("chapAuthSession")) and secret is None:
        return [required(f"{path}.secretRef")]
    return []


def fibre_channel(path: str, value: Document) -> list[str]:
    """Checks that either target names or wwids are set, and a lun with target names."""
    names, ids = value.get("targetWWNs"), value.get("wwids")
    lun: int | None = value.get("lun")
    place, problems = f"{path}.targetWWNs", []
    if not names and not ids:
        problems.append(required(place, "must specify either targetWWNs or wwids, but not both"))
    if names and ids:
        rule = "targetWWNs and wwids can not be specified simultaneously"
        problems.append(invalid(place, names, rule))
    if not names:
        return problems
    if lun is None:
        problems.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif not 0 <= lun <= 255:
        problems.append(invalid(f"{path}.lun", lun, "must be between 0 and 255, inclusive"))
    return problems


def quobyte(path: str, value: Document) -> list[str]:
    """Checks the addresses of the registry and the length of the tenant."""
    registry = value.get("registry") or ""
    rule = "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        return [required(f"{path}.registry", rule)]
    if len(value.get("tenant") or "") > 64:
        rule = "must be a UUID and may not exceed a length of 64 characters"
        return [required(f"{path}.tenant", rule)]
    return [
        invalid(f"{path}.registry", registry, rule)
        for pair in registry.split(",")
        if pair.rpartition(":")[1] == "" or (":" in pair.rpartition(":")[0] and pair[0] != "[")
    ]


def flocker(path: str, value: Document) -> Iterator[str]:
    """Checks that a data set has either a name, without a slash, or an id."""
    name, uuid = value.get("datasetName") or "", value.get("datasetUUID") or ""
    if not name and not uuid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uuid:
        rule = "datasetName and datasetUUID can not be specified simultaneously"
        yield invalid(path, "resource", rule)
    if "/" in name:
        yield invalid(f"{path}.datasetName", name, "must not contain '/'")


def azure_disk(path: str, value: Document) -> list[str]:
    """Checks that the URI of a disk fits its kind."""
    kind, uri = value.get("kind") or "Shared", value.get("diskURI") or ""
    begins, form = (
        ("/subscriptions/", _MANAGED_DISK) if kind == "Managed" else ("https://", _BLOB_DISK)
    )
    return [] if uri.startswith(begins) else [unsupported(f"{path}.diskURI", uri, (form,))]


def csi(path: str, value: Document) -> list[str]:
    """Checks the name of the secret for NodePublish, if there is one."""
    secret = value.get("nodePublishSecretRef")
    if secret is None:
        return []
    name = secret.get("name") or ""
    if not name:
        return [required(f"{path}.nodePublishSecretRef.name")]
    return [invalid(f"{path}.name", name, message) for message in dns_subdomain(name)]


def claim_template(path: str, value: Document) -> list[str]:
    """Checks the metadata of the claim that is made for a volume: it may have labels and
    annotations only.
    """
    metadata = value.get("metadata") or {}
    return [
        *labels(f"{path}.metadata.labels", metadata.get("labels")),
        *(
            forbidden(f"{path}.metadata.{field}", "cannot be set")
            for field, given in metadata.items()
            if field not in ("labels", "annotations") and given
        ),
    ]


def downward_file(path: str, value: Document) -> Iterator[str]:
    """Checks that a file has one source, and that containers may see the source."""
    own, resource = value.get("fieldRef"), value.get("resourceFieldRef")
    if own is None and resource is None:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
        return
    if own is None and resource is not None:
        yield from resource_field(f"{path}.resourceFieldRef", resource, needs_container=True)
        return
    yield from object_field(f"{path}.fieldRef", own or {}, _IN_DOWNWARD)
    if resource is not None:
        rule = "fieldRef and resourceFieldRef can not be specified simultaneously"
        yield invalid(path, "resource", rule)


def projected(path: str, value: Document) -> Iterator[str]:
    """Checks that no two sources of a volume are written to the same path."""
    paths: set[str] = set()
    for i, source in enumerate(value.get("sources") or ()):
        for shown, written in _written_paths(source):
            if written in paths:
                yield invalid(path, shown, "conflicting duplicate paths")
            paths.add(written)
        token = source.get("serviceAccountToken")
        if token is not None:
            written = token.get("path") or ""
            place = f"{path}.path"
            yield from local_path(place, written) if written else [required(place)]
        if sum(part is not None for part in source.values()) > 1:
            rule = "may not specify more than 1 volume type per source"
            yield forbidden(f"{path}.sources[{i}]", rule)


def _written_paths(source: Document) -> Iterator[tuple[str, str]]:
    """Yields the paths that a source writes, each with the words for it in a message."""
    for field in ("secret", "configMap"):
        part = source.get(field) or {}
        for item in part.get("items") or ():
            if item.get("path"):
                yield part.get("name") or "", item["path"]
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        if item.get("path"):
            yield item["path"], item["path"]


def volume_mounts(path: str, container: Document, sources: dict[Any, Document]) -> Iterator[str]:
    """Checks that the volumes which a container mounts, or uses as devices, are declared in the
    pod.
    """
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        name = mount.get("name") or ""
        if name not in sources:
            yield f'{path}.volumeMounts[{i}].name: Not found: "{name}"'
    for i, device in enumerate(container.get("volumeDevices") or ()):
        place, name = f"{path}.volumeDevices[{i}].name", device.get("name") or ""
        source = sources.get(name)
        if source is None:
            yield f'{place}: Not found: "{name}"'
        elif source.get("persistentVolumeClaim") is None and source.get("ephemeral") is None:
            rule = (
                "can only use volume source type of PersistentVolumeClaim or Ephemeral "
                "for block mode"
            )
            yield invalid(place, name, rule)


def unique_places(path: str, container: Document) -> Iterator[str]:
    """Checks that the mounts and devices of a container have different paths and names."""
    mounted, devices = container.get("volumeMounts") or (), container.get("volumeDevices") or ()
    names_of_devices = {device.get("name") for device in devices}
    places_of_devices = {device.get("devicePath") for device in devices}
    seen: set[str] = set()
    for i, mount in enumerate(mounted):
        at, name, place = f"{path}.volumeMounts[{i}]", mount.get("name"), mount.get("mountPath")
        if place in seen:
            yield invalid(f"{at}.mountPath", place, "must be unique")
        seen.add(place or "")
        if name in names_of_devices:
            yield invalid(f"{at}.name", name, "must not already exist in volumeDevices")
        if place in places_of_devices:
            rule = "must not already exist as a path in volumeDevices"
            yield invalid(f"{at}.mountPath", place, rule)
    names = {mount.get("name") for mount in mounted}
    had: set[tuple[str, Any]] = set()
    for i, device in enumerate(devices):
        at = f"{path}.volumeDevices[{i}]"
        for field, others, rule in (
            ("name", names, "must not already exist in volumeMounts"),
            ("devicePath", seen, "must not already exist as a path in volumeMounts"),
        ):
            value = device.get(field)
            if (field, value) in had:
                yield invalid(f"{at}.{field}", value, "must be unique")
            had.add((field, value))
            if value in others:
                yield invalid(f"{at}.{field}", value, rule)
        if ".." in (device.get("devicePath") or "").split("/"):
            rule = "can not contain backsteps ('..')"
            yield invalid(f"{at}.devicePath", device["devicePath"], rule)
